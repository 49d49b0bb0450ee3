"""What a scheduler holds at a moment: a verified release, or the stated heuristic when there is none."""

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
    """No release: jobs are served first in, first out (live_scheduler/fallback.py)."""

    why: str

    def describe(self) -> str:
        """One line for people."""
        return f"fallback, first in first out: {self.why}"


Release = LiveRelease | FallbackRelease
