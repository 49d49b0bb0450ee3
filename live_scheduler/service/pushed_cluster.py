"""A cluster that pushes what it is: the adapter of `lucid live serve`, for schedulers that are not Slurm.

The scheduler is its own hands: it reads the order out of the decision that answers its push, starts what
starts now, and says what became of its jobs. So the daemon is the same as on Slurm, pass by pass; only that a
pass is made when a state is pushed.
"""

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from foundation.errors import ServiceUnavailableError
from live_scheduler.adapter import Change, PriorityRange, Refusal, SetPriority, WriteBack
from live_scheduler.cluster_state import ClusterState, EndedJob, LiveJob
from live_scheduler.daemon import Daemon
from live_scheduler.deciding.decision import Decision
from live_scheduler.service import live_messages, schema
from live_scheduler.service.operations import Forecast, Operations

# So many ends are remembered, so that a report that is sent again is known.
_ENDS_KEPT = 200_000


class PushedCluster:
    """A `ClusterAdapter` over the last state that was pushed and the ends that were reported."""

    priorities = PriorityRange(1, 2**31 - 1)

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = threading.Lock()
        self._state: ClusterState | None = None
        self._ends: dict[str, EndedJob] = {}
        self._given: dict[str, int] = {}  # the priorities that were given: only changes are asked for again

    def push(self, state: ClusterState) -> None:
        """Take over a state."""
        with self._lock:
            self._given = {job_id: self._given[job_id] for job_id in self._given if job_id in state.by_id}
            self._state = replace(state, jobs=tuple(self._ranked(job) for job in state.jobs))

    def report(self, ended: Sequence[EndedJob]) -> list[EndedJob]:
        """Take over what became of jobs; return the ends that were new."""
        new = []
        with self._lock:
            for end in ended:
                before = self._ends.pop(end.job.job_id, None)
                if before is None or before.end_time_s != end.end_time_s:
                    new.append(end)
                self._ends[end.job.job_id] = end
            while len(self._ends) > _ENDS_KEPT:
                del self._ends[next(iter(self._ends))]
        return new

    def read(self) -> ClusterState:
        """Return the last state; raises ServiceUnavailableError before the first."""
        with self._lock:
            if self._state is None:
                raise ServiceUnavailableError(
                    f"Nothing was pushed yet by {self.name}.", remedy="Call Schedule (POST /v1/schedule)."
                )
            return self._state

    def ended(self, job_ids: Collection[str], since_s: float) -> list[EndedJob]:
        """Return what was reported of these jobs, if it ended at or after `since_s`."""
        with self._lock:
            ends = [self._ends[job_id] for job_id in job_ids if job_id in self._ends]
        return [end for end in ends if end.end_time_s >= since_s]

    def ended_since(self, since_s: float) -> list[EndedJob]:
        """Return all reported ends at or after `since_s`, in their order."""
        with self._lock:
            ends = [end for end in self._ends.values() if end.end_time_s >= since_s]
        return sorted(ends, key=lambda end: end.end_time_s)

    def apply(self, changes: Sequence[Change]) -> list[Refusal]:
        """Remember the priorities: the decision that holds them is on its way to the caller."""
        with self._lock:
            for change in changes:
                if isinstance(change, SetPriority):
                    self._given[change.job_id] = change.priority
        return []

    def own_priorities(self, jobs: Sequence[LiveJob]) -> Mapping[str, bool]:
        """Return that all are: the priorities that are remembered here are set from here alone."""
        return {job.job_id: True for job in jobs}

    def write_backs(self) -> WriteBack | None:
        """Return None: priorities are remembered here."""
        return None

    def _ranked(self, job: LiveJob) -> LiveJob:
        given = self._given.get(job.job_id)
        return job if given is None else replace(job, priority=given)


class PushedOperations(Operations):
    """Those of a daemon whose cluster is pushed: every push is a pass, one after the other."""

    def __init__(
        self,
        daemon: Daemon,
        cluster: PushedCluster,
        forecast: Forecast | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(daemon, forecast, clock=clock)
        self._cluster = cluster
        self._turn = threading.Lock()

    def heartbeat_age_s(self) -> float | None:
        """There is none: nothing is changed unseen."""
        return None

    def trouble(self) -> str | None:
        """Return what is wrong at present; that nothing was pushed yet is not."""
        return self.view.problem

    def schedule(self, state: schema.ClusterState) -> schema.Decision:
        """Take the cluster in as it is now, and decide."""
        return live_messages.decision_message(self.order(live_messages.live_cluster(state)))

    def order(self, cluster: ClusterState) -> Decision:
        """Make a pass over a cluster as it is now."""
        with self._turn:
            self._cluster.push(cluster)
            view = self.daemon.pass_once()
        if view.decision is not None:
            return view.decision
        return Decision(
            at_s=cluster.at_s,
            release=view.release.release,
            release_version=None,
            policy=view.settings.policy,
            ranked=(),
            sends_home=(),
            left_alone={},
            latency_s=0.0,
            problem=view.problem or "Nothing was decided.",
        )

    def report_ends(self, ended: schema.EndedJobs) -> schema.EndsTaken:
        """Learn from jobs that ended."""
        new = self.learn(live_messages.live_ends(ended.jobs))
        return schema.EndsTaken(new=new, known=len(ended.jobs) - new)

    def learn(self, ended: Sequence[EndedJob]) -> int:
        """Learn from ends at the next push; from those that no push had, now. Return how many were new."""
        with self._turn:
            new = self._cluster.report(ended)
            self.daemon.learn(new)
        return len(new)
