"""The newest publication of a cluster that was ever believed here, on disk: older ones are refused.

    STATE/CLUSTER/newest-publication.json   {"format_version": 1, "sequence": 12, "payload_sha256": ...,
                                             "at": ISO, "signed_by": [key ids], "expired": false}

It is per cluster, whatever server names the releases: whoever can turn a scheduler to another server must not
turn it back in time as well. When the keys that signed it are no longer trusted it is forgotten, so that a
thief of a key cannot block a cluster for ever by a high number (TUF specification, section 5.3.11).
"""

import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from foundation.errors import ReleaseRefusedError
from foundation.private_files import private_folder
from foundation.regular_files import read_regular
from foundation.replaced_files import replace_file
from lucid_models.signing.trust import Trust, time_with_offset
from lucid_models.signing.verification import BelievedPublication, SeenStatement

FILE = "newest-publication.json"
FORMAT_VERSION = 1
_MOST_BYTES = 64 * 1024


@dataclass(frozen=True)
class NewestPublication:
    """Its number and digest, when it was signed (UTC) and with which keys.

    `expired`: this machine's clock was once past its expiry. It stays expired then: a clock that is set back
    makes nothing new again.
    """

    seen: SeenStatement
    at: datetime
    signed_by: tuple[str, ...]
    expired: bool = False

    @classmethod
    def of(cls, believed: BelievedPublication) -> "NewestPublication":
        """What to remember of one that was believed."""
        return cls(believed.seen, believed.publication.at, tuple(believed.signed_by))

    def counts_for(self, trust: Trust) -> bool:
        """Whether enough of the keys that signed it are trusted still."""
        keys = [trust.key(each) for each in self.signed_by]
        trusted = [key for key in keys if key and key.role == "publisher" and key.revoked is None]
        return len(trusted) >= trust.threshold["publisher"]


def read_newest(home: Path) -> NewestPublication | None:
    """What is remembered of a cluster; None: nothing yet. Raises ReleaseRefusedError, OSError."""
    path = home / FILE
    try:
        data = json.loads(read_regular(path, _MOST_BYTES))
        if data["format_version"] != FORMAT_VERSION:
            raise ValueError(f"its format version is {data['format_version']!r}")
        sequence, digest, keys = data["sequence"], data["payload_sha256"], data["signed_by"]
        if type(sequence) is not int or not isinstance(digest, str) or not isinstance(keys, list):
            raise ValueError("a field is of another kind")
        return NewestPublication(
            SeenStatement(sequence, digest),
            time_with_offset(data["at"]),
            tuple(map(str, keys)),
            bool(data["expired"]),
        )
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ReleaseRefusedError(
            f"{path} is damaged, so it is not known which publication was the newest: {error!r}.",
            remedy="Compare the registry's with the publisher's history (`lucid release history`), then "
            "delete the file.",
        ) from error


def write_newest(home: Path, newest: NewestPublication) -> None:
    """Remember it; it is on the disk when this returns. Raises OSError."""
    private_folder(home, tighten=False)
    document = {
        "format_version": FORMAT_VERSION,
        "sequence": newest.seen.sequence,
        "payload_sha256": newest.seen.payload_sha256,
        "at": newest.at.isoformat(),
        "signed_by": list(newest.signed_by),
        "expired": newest.expired,
    }
    payload = json.dumps(document, sort_keys=True, indent=1, allow_nan=False) + "\n"
    replace_file(home / FILE, payload, durable=True)
