"""What a scheduler holds at a moment: a verified release, or the stated heuristic when there is none."""

from dataclasses import dataclass

from lucid_models.releases.files import ReleaseScorers
from lucid_models.releases.manifest import ReleaseManifest


@dataclass(frozen=True)
class LiveRelease:
    """A release that was verified and loaded as a whole. `verdict_sha256`: of the verdict that approves it;
    None: it was taken without one, by hand.
    """

    alias: str
    version: int
    manifest: ReleaseManifest
    manifest_sha256: str
    verdict_sha256: str | None
    scorers: ReleaseScorers

    def describe(self) -> str:
        """One line for people."""
        word = "" if self.verdict_sha256 else ", not approved"
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
