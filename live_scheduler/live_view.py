"""What the daemon knows after a pass, as one value, and what it works with: sources, watchers, learners."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from foundation.errors import ServiceUnavailableError
from live_scheduler.adapter import Change, Refusal
from live_scheduler.capability import PartStatus
from live_scheduler.cluster_state import ClusterState, EndedJob
from live_scheduler.deciding.decision import Decision
from live_scheduler.live_settings import LiveSettings
from live_scheduler.memory.journal import JobEvent
from live_scheduler.release import ClientStatus, Release


@dataclass(frozen=True)
class LiveView:
    """One pass of the daemon. Times are Unix seconds.

    `cluster` and `decision` are None before the first pass that could read and decide. `asked` are the
    changes that were asked of the cluster (that would have been, below the mode `control`), `refused` those
    that it refused, `deferred` how many a rate limit put off. `ended` are the jobs whose end this pass learnt
    of. `problem` is what stood in the way of this pass. `counts` add up over the daemon's life. `seconds` are
    the sections of the pass (read, decide, apply). `parts` are the last looks of parts by their names
    (`live_scheduler.capability`).
    """

    at_s: float
    started_s: float
    settings: LiveSettings
    release: ClientStatus
    cluster: ClusterState | None = None
    decision: Decision | None = None
    asked: tuple[Change, ...] = ()
    refused: tuple[Refusal, ...] = ()
    deferred: int = 0
    ended: tuple[EndedJob, ...] = ()
    problem: str | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    parts: Mapping[str, PartStatus] = field(default_factory=dict)

    def read_cluster(self) -> ClusterState:
        """Return the cluster as this pass read it; raises ServiceUnavailableError when it could not."""
        if self.cluster is None:
            problem = self.problem or "The first pass is not over yet."
            raise ServiceUnavailableError(
                f"The cluster is not known at present: {problem}", remedy="Ask again in a few seconds."
            )
        return self.cluster


class ReleaseSource(Protocol):
    """Where releases come from (`live_scheduler.client.ReleaseClient`)."""

    @property
    def current(self) -> Release:
        """The release in use."""

    def poll(self) -> Release:
        """Look for a newer one; never raises."""

    def status(self) -> ClientStatus:
        """What it does and why."""


class Watcher(Protocol):
    """What is called after each pass: the decision log, hindsight."""

    def passed(self, view: LiveView) -> None:
        """Take a pass in. What it raises is logged, and no more."""


class EventLearner(Protocol):
    """What learns from what happens to jobs, besides the release's own statistics."""

    def observe(self, event: JobEvent) -> object:
        """Take in what happened; called under the daemon's lock. What is known changes nothing."""
