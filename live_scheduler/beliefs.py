"""What a client of releases believes: signed statements or, by its settings, the registry.

For the alias `champion` the publisher and the judge must have signed; for any other alias the judge alone: it
is not published, and says so. What is believed is asked before anything else of a release is read.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from lucid_models.releases.approval import ReleaseIdentity
from lucid_models.signing.statements import NO_STATEMENTS, StatementTags
from lucid_models.signing.trust import UNSIGNED, trust_place

if TYPE_CHECKING:
    from lucid_models.signing.verification import BelievedPublication

Clock = Callable[[], datetime]
"""Tells the time, aware."""


@dataclass(frozen=True)
class Backing:
    """What stands behind a release: its statements as they came, who signed them, what was published.

    `holds_until_s`: on the monotonic clock, so that a clock that is set back makes nothing hold longer.
    """

    statements: StatementTags = NO_STATEMENTS
    signed_by: tuple[str, ...] = ()
    published: "BelievedPublication | None" = None
    holds_until_s: float = field(default=float("inf"), compare=False)

    @property
    def files(self) -> Mapping[str, str] | None:
        """SHA-256 of each file that was published; None: it is for the manifest alone to say."""
        return None if self.published is None else self.published.publication.files

    def check(self, file: str, payload: bytes) -> None:
        """Raise StatementRefusedError unless a file is byte for byte what was published."""
        if self.published is not None:
            from lucid_models.signing.verification import check_file

            check_file(self.published.publication, file, payload)


class ReleaseBelief(Protocol):
    """Asked by one client about each release that it might use."""

    def refresh(self) -> bool:
        """Look at what it is based on; say whether that changed.

        Raises NotFoundError, BadInputError where it cannot be read.
        """

    def believe(
        self,
        release: ReleaseIdentity,
        verdict_sha256: str | None,
        statements: StatementTags,
        *,
        in_use: bool = False,
    ) -> Backing:
        """What backs a release that a server names; raises StatementRefusedError, ReleaseRefusedError.

        `in_use`: it is used already, so an expired publication makes it stale instead of refusing it.
        """

    def believe_kept(
        self, release: ReleaseIdentity, verdict_sha256: str | None, statements: StatementTags
    ) -> Backing:
        """As `believe`, of one that was believed before: an older number and an expired one are fine."""

    def expired(self, backing: Backing) -> str | None:
        """Why what backs the release in use no longer counts as the truth of today; None: it does."""


class RegistryBelief:
    """Believes the registry, and so everyone with write access to it."""

    def refresh(self) -> bool:
        """Nothing changes."""
        return False

    def believe(
        self,
        release: ReleaseIdentity,
        verdict_sha256: str | None,
        statements: StatementTags,
        *,
        in_use: bool = False,
    ) -> Backing:
        """Anything is fine."""
        return Backing(statements)

    def believe_kept(
        self, release: ReleaseIdentity, verdict_sha256: str | None, statements: StatementTags
    ) -> Backing:
        """Anything is fine."""
        return Backing(statements)

    def expired(self, backing: Backing) -> str | None:
        """Nothing expires."""
        return None


def trust_of(given: str | Path | None, folder: Path) -> Path | None:
    """The trust file: as given (a path, or the word `unsigned`), else LUCID_TRUST's, else `trust.json` in
    `folder`. None: unsigned releases are believed.
    """
    if given is None:
        return trust_place(folder)
    return None if str(given) == UNSIGNED else Path(given)


def belief_of(trust_file: Path | None, home: Path, cluster: str, alias: str, clock: Clock) -> ReleaseBelief:
    """What a client of this alias believes; `home` is where it keeps what it saw of the cluster."""
    if trust_file is None:
        return RegistryBelief()
    from live_scheduler.statement_belief import StatementBelief

    return StatementBelief(trust_file, home, cluster, alias, clock)
