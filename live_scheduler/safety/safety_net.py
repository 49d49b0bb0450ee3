"""What stands between decisions and the cluster: checks, rate limits, a record of changes, a heartbeat.

One object a daemon (`live_scheduler.daemon_parts.Safety`). None of it knows a policy or a scheduler.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from live_scheduler.adapter import Change, ClusterAdapter
from live_scheduler.cluster_state import ClusterState
from live_scheduler.deciding.decision import Decision
from live_scheduler.live_settings import LiveSettings
from live_scheduler.live_view import LiveView
from live_scheduler.loans.loan_record import LoanRecord, LoanStep
from live_scheduler.node_sleep.node_power import NodeChange, PowerReading
from live_scheduler.safety.control_lease import ControlLease
from live_scheduler.safety.guards import OscillationGuard, ReadingGuard, clock_problem, decision_problem
from live_scheduler.safety.heartbeat import Moment
from live_scheduler.safety.rate_limit import RateLimit, TokenBucket
from live_scheduler.safety.restoring import Restoration


class SafetyNet:
    """`take` before the first pass, `leave` after the last; each pass as `Daemon` calls it."""

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
        self._lease = ControlLease(folder, settings, clock=clock)
        self._limit = RateLimit(settings.changes_per_pass, settings.changes_per_minute)
        nodes_per_minute = settings.node_sleep.nodes_per_minute if settings.node_sleep else 1
        self._nodes_limit = TokenBucket(nodes_per_minute, nodes_per_minute)
        loans_per_minute = settings.loans.nodes_per_minute if settings.loans else 1
        self._loans_limit = TokenBucket(loans_per_minute, loans_per_minute)
        self._reading = ReadingGuard()
        self._oscillation = OscillationGuard()
        self._last: Moment | None = None

    def take(self) -> None:
        """Become this folder's daemon; raises BadInputError where another lives or nothing can be kept."""
        self._lease.take()

    def reading_problem(self, cluster: ClusterState) -> str | None:
        """Return why a reading must not be used, neither to learn from nor to decide on; None: it may."""
        before, self._last = self._last, self._clock()
        return clock_problem(before, self._last, cluster.at_s) or self._reading.problem(cluster)

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
        self._lease.before(allowed, view.cluster, self._adapter.priorities)
        return allowed

    def nodes_seen(self, reading: PowerReading) -> None:
        """Take nodes off the record that are awake again; raises ServiceUnavailableError."""
        self._lease.nodes_seen(reading)

    def allow_nodes(self, changes: Sequence[NodeChange]) -> Sequence[NodeChange]:
        """Return the changes of nodes allowed now, after recording them; raises ServiceUnavailableError."""
        allowed = changes[: self._nodes_limit.room()]
        self._nodes_limit.take(len(allowed))
        self._lease.before_nodes(allowed)
        return allowed

    def nodes_asked(self, changes: Sequence[NodeChange]) -> None:
        """Record them again where the dead man's switch has taken them off meanwhile: this process hung."""
        self._lease.before_nodes(changes)

    @property
    def loan_record(self) -> LoanRecord:
        """The nodes on loan by this product's hand."""
        return self._lease.loan_record

    def allow_loans(self, nodes: Sequence[str]) -> Sequence[str]:
        """Return the nodes that may be lent or taken back now, the first ones."""
        allowed = nodes[: self._loans_limit.room()]
        self._loans_limit.take(len(allowed))
        return allowed

    def before_loans(self, nodes: Sequence[str], step: LoanStep, at_s: float, why: str) -> None:
        """Record what becomes of nodes on loan; raises ServiceUnavailableError."""
        self._lease.before_loans(nodes, step, at_s, why)

    def beat(self, view: LiveView) -> None:
        """Say that the pass went well; raises ServiceUnavailableError when that cannot be written."""
        self._lease.beat()
        if view.cluster is not None:
            self._lease.forget_ended(view.cluster)

    def leave(self) -> Restoration:
        """Give everything back at a clean end; never raises."""
        return self._lease.leave()
