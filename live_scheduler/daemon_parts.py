"""What a daemon works with: where releases come from, what watches passes, what learns from events."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from live_scheduler.adapter import Profiling
from live_scheduler.client_status import ClientStatus
from live_scheduler.deciding.decision_maker import Estimator
from live_scheduler.deciding.live_pools import ProfileSource
from live_scheduler.live_view import LiveView
from live_scheduler.memory.journal import JobEvent
from live_scheduler.memory.online_state import OnlineState
from live_scheduler.release import Release


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


@dataclass(frozen=True)
class DecisionSources:
    """What decisions are made of, where it is not the release alone."""

    profile_of: ProfileSource | None = None
    profiling: Profiling | None = None
    estimator_of: Callable[[OnlineState], Estimator] | None = None  # others in the place of the estimates


FROM_THE_RELEASE = DecisionSources()
