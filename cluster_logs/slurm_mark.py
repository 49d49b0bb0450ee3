"""What the live scheduler writes on a job that it profiles, sealed with a key that it alone has.

    lucid:home=vc2,submitted=1700000000,stage=profiling,seal=4f1d...

A requeue sets a job's submission anew and a move changes its partition, so both are kept here: in Slurm's
AdminComment, or in its Comment after the user's own words. Accounting (with AccountingStoreFlags=job_comment)
takes them over when a run ends, as they are then: each run of a job has its own.

Any user may write such a text on a job. What counts is the seal, an HMAC-SHA256 (RFC 2104) over the cluster,
the job's id and the content: a text without it, or one copied from another job, is its user's words.

The key is one small file, `mark.key`, for its owner only:

    {"format": 1, "cluster": "mine", "secret": "4f1d..."}

The live scheduler makes it at its first start. A reader of the cluster's accounting needs the same file to
believe the marks in it; without it they are words like any others.
"""

import hmac
import json
import re
import secrets
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from pathlib import Path

from foundation import strict_json
from foundation.errors import BadInputError, NotFoundError
from foundation.outside_names import read_regular
from foundation.replaced_files import create_file

# With this begins all that looks like a mark, sealed or not.
MARK_PREFIX = "lucid:home="
_MARK = re.compile(
    r"(?:^|(?<=\s))lucid:home=(?P<home>[^\s,]+),submitted=(?P<submitted>[0-9]{1,11}),stage=(?P<stage>[a-z]+)"
    r"(?:,seal=(?P<seal>[0-9a-f]{32}))?(?=\s|$)"
)
_SECRET_BYTES = 32

MARK_KEY_FILE = "mark.key"
FORMAT = 1
_MOST_BYTES = 4_096
_LEAST_SECRET_BYTES = 16


class MarkStage(StrEnum):
    """Where a marked job is."""

    PROFILING = "profiling"  # it waits for, or makes, its short run on the profiling partition
    HOME = "home"  # it waits, runs or has run where it belongs


@dataclass(frozen=True, slots=True)
class SlurmMark:
    """Where a job belongs, when its user submitted it (Unix seconds), and where it is."""

    home: str
    submitted_s: int
    stage: MarkStage


@dataclass(frozen=True, slots=True)
class MarkKey:
    """The secret of one cluster's live scheduler: marks that are written with it are believed."""

    cluster: str
    secret: bytes = field(repr=False)

    @classmethod
    def fresh(cls, cluster: str) -> "MarkKey":
        """Return a new random key."""
        return cls(cluster, secrets.token_bytes(_SECRET_BYTES))

    def sealed(self, mark: SlurmMark, job_id: str) -> str:
        """Return the text of a mark for the job with this number of Slurm's (JobIDRaw)."""
        return (
            f"{MARK_PREFIX}{mark.home},submitted={mark.submitted_s},stage={mark.stage},seal="
            f"{self._seal(mark, job_id)}"
        )

    def read(self, comment: str | None, job_id: str) -> SlurmMark | None:
        """Return the mark in a comment of this job; None without one that this key has sealed for it."""
        for match in _MARK.finditer(comment or ""):
            try:
                mark = SlurmMark(match["home"], int(match["submitted"]), MarkStage(match["stage"]))
            except ValueError:
                continue
            if match["seal"] and hmac.compare_digest(match["seal"], self._seal(mark, job_id)):
                return mark
        return None

    def _seal(self, mark: SlurmMark, job_id: str) -> str:
        content = json.dumps([self.cluster, job_id, mark.home, mark.submitted_s, mark.stage])
        return hmac.new(self.secret, content.encode(), sha256).hexdigest()[:32]


def texts_like_marks(comment: str | None) -> str:
    """Return what looks like marks in a comment, separated by spaces, without the words around it."""
    return " ".join(match[0] for match in _MARK.finditer(comment or ""))


def read_mark_key(path: Path) -> MarkKey:
    """Return the key of a file. Raises NotFoundError without it, BadInputError when it holds none."""
    try:
        document = strict_json.loads(read_regular(path, _MOST_BYTES))
    except FileNotFoundError:
        raise NotFoundError(f"There is no key {path}.", remedy="The live scheduler makes it.") from None
    except OSError as error:
        raise BadInputError(
            f"The key {path} cannot be read: {error}.", remedy="Let its reader own it."
        ) from error
    except ValueError:
        document = None
    try:
        if document["format"] != FORMAT:
            raise BadInputError(f"The key {path} has format {document['format']!r}, not {FORMAT}.")
        key = MarkKey(str(document["cluster"]), bytes.fromhex(document["secret"]))
    except (TypeError, KeyError, ValueError):
        key = MarkKey("", b"")
    if len(key.secret) < _LEAST_SECRET_BYTES:
        raise BadInputError(
            f"{path} is no key of marks.",
            remedy="Take it from a copy, or remove it: a new one is made, and older marks count no more.",
        )
    return key


def make_mark_key(path: Path, cluster: str) -> MarkKey:
    """Return the key of a file, made for its owner only where there is none.

    Raises as `read_mark_key`, OSError when it cannot be made.
    """
    if path.exists():
        return read_mark_key(path)
    key = MarkKey.fresh(cluster)
    # Where another process was first, its key counts.
    create_file(path, json.dumps({"format": FORMAT, "cluster": cluster, "secret": key.secret.hex()}))
    return read_mark_key(path)
