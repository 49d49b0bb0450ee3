"""What a scheduler holds at a moment: a verified release or the stated heuristic; what its client does."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from lucid_models.releases.manifest import ReleaseManifest

if TYPE_CHECKING:
    from lucid_models.releases.files import ReleaseScorers


Forecaster = TypeVar("Forecaster")


@dataclass(frozen=True)
class Pinned(Generic[Forecaster]):
    """What a release says to a part: its forecast, and the settings that it pins; None: it has none."""

    forecaster: Forecaster | None = None
    settings: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class LiveRelease:
    """A release that was verified and loaded as a whole. `verdict_sha256`: of the verdict that approves it;
    None: it was taken without one, by hand. `signed_by`: which roles' signatures on it were verified.
    """

    alias: str
    version: int
    manifest: ReleaseManifest
    manifest_sha256: str
    verdict_sha256: str | None
    scorers: "ReleaseScorers"
    signed_by: Sequence[str] = ()

    def pinned(self, kind: str, field: str) -> Pinned[Any]:
        """What it says to a part: the model of a kind, and the settings in a field."""
        return Pinned(self.scorers.forecasts.get(kind), self.manifest.parts.get(field))

    def describe(self) -> str:
        """One line for people."""
        word = ", not approved"
        if self.verdict_sha256 is not None:
            word = ", not signed"
            if self.signed_by:
                word = "" if "publisher" in self.signed_by else ", not published"
        word += ", order only: no GPUs are shared" if self.manifest.orders_only else ""
        where = f"{self.alias}, cluster {self.manifest.cluster}{word}"
        return f"{self.manifest.name} version {self.version} ({where})"


@dataclass(frozen=True)
class FallbackRelease:
    """No release: jobs are served first in, first out (live_scheduler/ranking.py)."""

    why: str

    def describe(self) -> str:
        """One line for people."""
        return f"fallback, first in first out: {self.why}"


Release = LiveRelease | FallbackRelease


SIGNED_TRUST, UNSIGNED_TRUST = "signed", "unsigned releases are believed"


@dataclass(frozen=True)
class ClientStatus:
    """What a client does and why; times are ISO, None: never.

    `mode`: "following" the alias, on the "last known good" release while the server is away or the newer one
    is refused, "stale" when the server was away for too many polls or what was published has expired, or on
    the "fallback". `problem` is what stands in the way now, `refused_*` the last refused release
    (`refused_code`: why, in a word), `fetching` how far a fetch is that runs now. `trust`: "signed", or
    "unsigned releases are believed". Of a signed release in use: `published`, whether the publisher signed
    that it is live; the `sequence` number of that publication, when it `expires`, and whether it has
    `expired` (or, by a clock that is wrong, might have).
    """

    alias: str
    mode: str
    release: str
    version: int | None
    verdict: str | None
    last_poll: str | None
    last_contact: str | None
    problem: str | None
    refused_version: int | None
    refused_reason: str | None
    fetching: str | None = None
    refused_code: str | None = None
    trust: str = UNSIGNED_TRUST
    published: bool | None = None
    sequence: int | None = None
    expires: str | None = None
    expired: bool = False
