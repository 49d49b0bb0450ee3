"""What stands between decisions and the cluster: checks, rate limits, a record of changes, a heartbeat.

One object a daemon. None of it knows a policy or a scheduler. The guards compare passes: a reading that
cannot be right is not decided on, a decision that cannot be right is not followed.
"""

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from live_scheduler.adapter import Change, ClusterAdapter
from live_scheduler.cluster_state import ClusterState
from live_scheduler.deciding.decision import Decision
from live_scheduler.live_settings import LiveSettings
from live_scheduler.live_view import LiveView
from live_scheduler.safety.control_lease import ControlLease
from live_scheduler.safety.heartbeat import Moment
from live_scheduler.safety.rate_limit import RateLimit
from live_scheduler.safety.restoring import Restoration, changes_of_hands_off

# A leap of the time of day beside the monotonic clock; time servers slew by far less between two passes.
CLOCK_JUMP_S = 5.0
# The cluster's clock beside ours: waiting times, and what "long" means, would be wrong by as much.
CLOCK_SKEW_S = 60.0
# What tells an order that goes to and fro (`OscillationGuard`).
_TURNED, _PASSES, _MOST_SWINGS, _LEAST_JOBS = 0.25, 10, 6, 8


@dataclass
class ReadingGuard:
    """Tells a cluster that has emptied from one that does not know its jobs (yet): a restart, a lost state.

    A reading without nodes is never right. One in which most of many jobs are gone at once is believed when
    it was read `confirmations` times running.
    """

    confirmations: int = 3
    many: int = 8
    most_gone: float = 0.9
    _last: frozenset[str] = frozenset()
    _doubted: int = 0

    def problem(self, state: ClusterState) -> str | None:
        """Look at the next reading; what it says is to be used only if nothing is wrong."""
        jobs = frozenset(state.by_id)
        if not state.nodes:
            return "The cluster named no node."
        gone = self._last - jobs
        doubtful = len(self._last) >= self.many and len(gone) > self.most_gone * len(self._last)
        if doubtful and self._doubted + 1 < self.confirmations:
            self._doubted += 1
            return f"{len(gone)} of {len(self._last)} jobs are gone at once: it is read again."
        self._last, self._doubted = jobs, 0
        return None


class OscillationGuard:
    """Tells a queue that changes from a decision that cannot make up its mind.

    It went to and fro when more than `_TURNED` of the neighbours in the last order stand the other way round
    now (`turned`), and not half as many of those in an earlier one of the last `_PASSES` orders: what is
    learnt of jobs leads to new orders, not to old ones. A decision that does so in `_MOST_SWINGS` of them is
    doubted for `rest_s` (monotonic seconds).
    """

    def __init__(self, *, rest_s: float = 300.0) -> None:
        self._rest_s = rest_s
        self._swings: deque[bool] = deque(maxlen=_PASSES)
        self._orders: deque[Decision] = deque(maxlen=_PASSES)
        self._until_s = -math.inf

    def problem(self, decision: Decision, monotonic_s: float) -> str | None:
        """Look at the next decision."""
        if self._orders:
            self._swings.append(self._swings_back(decision))
        self._orders.append(decision)
        if sum(self._swings) >= _MOST_SWINGS:
            self._swings.clear()
            self._until_s = monotonic_s + self._rest_s
        if monotonic_s >= self._until_s:
            return None
        return (
            f"The order went to and fro in {_MOST_SWINGS} of the last passes: it is left alone for"
            f" {self._until_s - monotonic_s:.0f} s."
        )

    def _swings_back(self, decision: Decision) -> bool:
        *earlier, last = self._orders
        if turned(last, decision, least_jobs=_LEAST_JOBS) <= _TURNED:
            return False
        return any(
            turned(before, decision, least_jobs=_LEAST_JOBS) <= _TURNED / 2 for before in reversed(earlier)
        )


def turned(before: Decision, now: Decision, *, least_jobs: int = 2) -> float:
    """Return the share of neighbours of `before`, within pools, that stand the other way round in `now`.

    0 with fewer than `least_jobs` jobs in both orders.
    """
    kept = [
        (job.pool, job.place, later.place)
        for job in before.ranked
        if (later := now.by_id.get(job.job_id)) is not None and later.pool == job.pool
    ]
    if len(kept) < max(least_jobs, 2):
        return 0.0
    kept.sort()
    pairs = [(one, other) for one, other in pairwise(kept) if one[0] == other[0]]
    return sum(one[2] > other[2] for one, other in pairs) / len(pairs) if pairs else 0.0


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


def clock_jump_s(before: Moment, now: Moment) -> float:
    """Return by how much the time of day was set between two moments of one boot (+: forward)."""
    if before.boot_id != now.boot_id:
        return 0.0
    return (now.at_s - before.at_s) - (now.monotonic_s - before.monotonic_s)


def clock_problem(before: Moment | None, now: Moment, cluster_at_s: float) -> str | None:
    """Say whether the time of day was set since the last pass, or is not the cluster's."""
    jump_s = clock_jump_s(before, now) if before is not None else 0.0
    if abs(jump_s) > CLOCK_JUMP_S:
        return f"The clock was set by {jump_s:+.0f} s since the last pass."
    skew_s = now.at_s - cluster_at_s
    if not abs(skew_s) <= CLOCK_SKEW_S:
        return f"The cluster's clock and this machine's differ by {skew_s:+.0f} s."
    return None


def decision_problem(decision: Decision, state: ClusterState) -> str | None:
    """Say whether a decision cannot be followed: numbers that are none, jobs that are not there or twice."""
    if decision.problem is not None:
        return decision.problem
    ranked, jobs = decision.ranked, state.by_id
    for job in ranked:
        estimate = job.estimated_duration_s
        if estimate is not None and not 0.0 <= estimate < math.inf:
            return f"The estimated run time of job {job.job_id} is {estimate}."
        if not _finite(job.rank):
            return f"The rank of job {job.job_id} is {job.rank}."
        live_job = jobs.get(job.job_id)
        if live_job is None or live_job.start_time_s is not None or live_job.held:
            return f"Job {job.job_id} was ranked, but does not wait."
    if len(decision.by_id) < len(ranked):
        twice, _ = Counter(job.job_id for job in ranked).most_common(1)[0]
        return f"Job {twice} was ranked twice."
    if len({(job.pool, job.place) for job in ranked}) < len(ranked):
        (pool, place), _ = Counter((job.pool, job.place) for job in ranked).most_common(1)[0]
        return f"Two jobs have the place {place} in {pool}."
    return None


def _finite(rank: Any) -> bool:
    """Whether all numbers of a rank are; what else a policy orders by is its own business."""
    if isinstance(rank, tuple):
        return all(map(_finite, rank))
    return not isinstance(rank, float) or math.isfinite(rank)
