"""Believes what judge and publisher signed, by the keys of a trust file (`lucid_models/signing`).

The newest publication of a cluster that was ever believed here is kept on disk, and older ones are refused:

    STATE/CLUSTER/newest-publication.json   {"format_version": 1, "sequence": 12, "payload_sha256": ...,
                                             "at": ISO, "signed_by": [key ids], "expired": false}

It is per cluster, whatever server names the releases: an attacker who can turn a scheduler to another server
must not turn it back in time as well. When the keys that signed it are no longer trusted it is forgotten, so
that a thief of a key cannot block a cluster for ever by a high number (TUF specification, section 5.3.11).
"""

import contextlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from foundation.errors import LucidError, ReleaseRefusedError
from foundation.outside_names import read_regular
from foundation.private_files import private_folder
from foundation.process_lock import ProcessLock, acquire_within
from foundation.replaced_files import replace_file
from live_scheduler.beliefs import Backing, Clock
from lucid_models.releases.approval import ReleaseIdentity
from lucid_models.signing.statements import StatementTags
from lucid_models.signing.trust import Trust, read_trust, time_with_offset
from lucid_models.signing.verification import (
    BelievedPublication,
    SeenStatement,
    believe_judgement,
    believe_publication,
)

FILE = "newest-publication.json"
FORMAT_VERSION = 1
_MOST_BYTES = 64 * 1024
PUBLISHED_ALIAS = "champion"
_LOCK_WAIT_S = 10.0


@dataclass(frozen=True)
class NewestPublication:
    """The number and digest of a publication, when it was signed (UTC) and with which keys.

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


class StatementBelief:
    """The statements of one alias of one cluster."""

    def __init__(self, trust_file: Path, home: Path, cluster: str, alias: str, clock: Clock) -> None:
        self._trust_file, self._home = trust_file, home
        self._cluster, self._alias, self._clock = cluster, alias, clock
        self._trust: Trust | None = None
        self._mark: object = None
        self._holding: SeenStatement | None = None

    def refresh(self) -> bool:
        """Read the trust file again when it is another one than before; say whether its word changed.

        While it cannot be read nothing new is believed, by no earlier word of it either: it may be the one
        that revokes a key. What is in use stays in use. Raises NotFoundError, BadInputError.
        """
        try:
            found = self._trust_file.stat()
        except OSError:
            mark = None
        else:
            mark = (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)
        if self._trust is not None and mark is not None and mark == self._mark:
            return False
        trust = read_trust(self._trust_file)
        changed = trust != self._trust
        self._trust, self._mark = trust, mark
        return changed

    def believe(
        self,
        release: ReleaseIdentity,
        verdict_sha256: str | None,
        statements: StatementTags,
        *,
        in_use: bool = False,
    ) -> Backing:
        """As the protocol says. The number of a publication is on the disk before this returns.

        Raises OSError where it cannot be kept there.
        """
        with self._alone():
            newest = self._newest()
            found = self._verify(
                release, verdict_sha256, statements, newest=newest, may_be_expired=in_use, now=self._clock()
            )
            if found.published is not None and (newest is None or found.published.seen != newest.seen):
                write_newest(self._home, NewestPublication.of(found.published))
            return found

    def believe_kept(
        self, release: ReleaseIdentity, verdict_sha256: str | None, statements: StatementTags
    ) -> Backing:
        """As the protocol says."""
        now, newest = self._clock(), self._newest()
        if newest is not None:
            # It was believed before: a clock that has gone back since makes it no forgery.
            now = max(now, newest.at)
        found = self._verify(release, verdict_sha256, statements, newest=None, may_be_expired=True, now=now)
        if found.published is not None and newest is None:
            with self._alone():
                write_newest(self._home, NewestPublication.of(found.published))
        return found

    def expired(self, backing: Backing) -> str | None:
        """As the protocol says; once expired, so it stays until a newer publication is believed."""
        if backing.published is None:
            return None
        publication, now = backing.published.publication, self._clock()
        if now < publication.at - timedelta(seconds=self._trusted().clock_skew_s):
            return (
                f"This machine's clock says {_iso(now)}; what is in use was published at "
                f"{_iso(publication.at)}, so it is not known whether that holds. Set the clock right."
            )
        if not self._has_expired(backing.published, backing.holds_until_s, now):
            return None
        return (
            f"The publication of release {publication.release.version} expired at "
            f"{_iso(publication.expires)}, and no newer one was seen: the registry may answer with what "
            f"is no longer true. Renew it: `lucid release renew --cluster {self._cluster}` or its DAG."
        )

    def _has_expired(self, published: BelievedPublication, holds_until_s: float, now: datetime) -> bool:
        """By either clock, or by what was remembered of it, which is looked up once."""
        if now > published.publication.expires or time.monotonic() > holds_until_s:
            self._remember_expired(published.seen)
            return True
        if self._holding == published.seen:
            return False
        with contextlib.suppress(LucidError, OSError):
            newest = self._newest()
            if newest is not None and newest.seen == published.seen and newest.expired:
                return True
            self._holding = published.seen
        return False

    def _remember_expired(self, seen: SeenStatement) -> None:
        self._holding = None
        with contextlib.suppress(LucidError, OSError), self._alone():
            newest = self._newest()
            if newest is not None and newest.seen == seen and not newest.expired:
                write_newest(self._home, replace(newest, expired=True))

    def _verify(
        self,
        release: ReleaseIdentity,
        verdict_sha256: str | None,
        statements: StatementTags,
        *,
        newest: NewestPublication | None,
        may_be_expired: bool,
        now: datetime,
    ) -> Backing:
        trust = self._trusted()
        published: BelievedPublication | None = None
        holds_until_s = float("inf")
        if self._alias == PUBLISHED_ALIAS:
            published = believe_publication(
                statements.publication,
                release=release,
                verdict_sha256=verdict_sha256,
                trust=trust,
                now=now,
                seen=newest.seen if newest is not None else None,
                may_be_expired=may_be_expired,
            )
            left = published.publication.expires - now
            holds_until_s = time.monotonic() + left.total_seconds()
        believe_judgement(statements.judgement, release=release, verdict_sha256=verdict_sha256, trust=trust)
        roles = ("judge",) if published is None else ("judge", "publisher")
        return Backing(statements, roles, published, holds_until_s)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Clients of a cluster that share the folder remember one after the other."""
        lock = ProcessLock(private_folder(self._home, tighten=False) / ".newest-publication.lock")
        if not acquire_within(lock, _LOCK_WAIT_S, waiting=lambda waited_s: None):
            raise BlockingIOError(f"Another process holds {lock.path}.")
        try:
            yield
        finally:
            lock.release()

    def _newest(self) -> NewestPublication | None:
        """What was believed before by whichever client of the cluster shares the folder."""
        newest = read_newest(self._home)
        return newest if newest is not None and newest.counts_for(self._trusted()) else None

    def _trusted(self) -> Trust:
        if self._trust is None:
            self.refresh()
        return self._trust or Trust()


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


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds")
