"""What stands between decisions and the cluster: checks, rate limits, a record of changes, a heartbeat.

One object a daemon. None of it knows a policy or a scheduler.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from live_scheduler.adapter import Change, ClusterAdapter
from live_scheduler.cluster_state import ClusterState
from live_scheduler.deciding.decision import Decision
from live_scheduler.live_settings import LiveSettings
from live_scheduler.live_view import LiveView
from live_scheduler.safety.control_lease import ControlLease
from live_scheduler.safety.guards import OscillationGuard, ReadingGuard, clock_problem, decision_problem
from live_scheduler.safety.heartbeat import Moment
from live_scheduler.safety.rate_limit import RateLimit
from live_scheduler.safety.restoring import Restoration, changes_of_hands_off


class SafetyNet:
    """`take` before the first pass, `leave` after the last; each pass as `Daemon` calls it.

    What changes nodes goes by the `lease` alone.
    """

    def __init__(
        self,
        adapter: ClusterAdapter,
        settings: LiveSettings,
        folder: Path,
        *,
        clock: Callable[[], Moment] = Moment.now,
    ) -> None:
        self._adapter = adapter
        self._clock = clock
        self.lease = ControlLease(folder, settings, clock=clock)
        self._limit = RateLimit(settings.changes_per_pass, settings.changes_per_minute)
        self._reading = ReadingGuard()
        self._oscillation = OscillationGuard()
        self._last: Moment | None = None

    def take(self) -> None:
        """Become this folder's daemon; raises BadInputError where another lives or nothing can be kept."""
        self.lease.take()

    def reading_problem(self, cluster: ClusterState) -> str | None:
        """Return why a reading must not be used, neither to learn from nor to decide on; None: it may."""
        before, self._last = self._last, self._clock()
        return clock_problem(before, self._last, cluster.at_s) or self._reading.problem(cluster)

    def heard(self, cluster: ClusterState) -> ClusterState:
        """Return a reading with what is left as another hand set it (`LiveJob.kept`).

        Raises ServiceUnavailableError when the cluster does not answer, or that cannot be written down.
        """
        return self.lease.heard(cluster, self._adapter)

    def let_go(self, cluster: ClusterState) -> Sequence[Change]:
        """Return what gives back what stands of ours on jobs that are to be left alone now."""
        return changes_of_hands_off(cluster, self.lease.touched, self._adapter.priorities)

    def decision_problem(self, decision: Decision, cluster: ClusterState) -> str | None:
        """Return why a decision must not be followed; None: it may."""
        return decision_problem(decision, cluster) or self._oscillation.problem(decision, time.monotonic())

    def allow(self, changes: Sequence[Change], view: LiveView) -> Sequence[Change]:
        """Return the changes allowed now, after recording the jobs that they touch.

        Raises ServiceUnavailableError when that cannot be written: nothing may be asked for then.
        """
        if view.cluster is None:
            return []
        places = view.decision.places if view.decision else {}
        allowed, _ = self._limit.choose(changes, places)
        self.lease.before(allowed, view.cluster, self._adapter.priorities)
        return allowed

    def writing(self) -> AbstractContextManager[None]:
        """Let what is written to the cluster meanwhile be written under the daemon's lease."""
        return self.lease.writing()

    def beat(self, view: LiveView) -> None:
        """Say that the pass went well; raises ServiceUnavailableError when that cannot be written."""
        self.lease.beat()
        if view.cluster is not None:
            self.lease.forget_ended(view.cluster)

    def leave(self) -> Restoration:
        """Give everything back at a clean end; never raises."""
        return self.lease.leave()
