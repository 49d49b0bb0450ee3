"""A bound on overtaking: a job that has waited for too long is served as EASY serves its first job.

A policy that serves short or small jobs first lets a large one wait for as long as smaller ones come. Here
the job of a pool that has waited longest is *overdue* once it has waited `overtaking_bound_s`, or less where
few others wait. It starts before all others as soon as it fits, and until then it has nodes reserved, as EASY
backfilling reserves them for its first job (`backfill.Runs.reserve`): those on which it is believed to fit
first, from the moment on at which the jobs that are in its way are believed to be gone. Another job may start
only

- on GPUs that the reservation does not need: all of other nodes, and of the reserved nodes what is left
  beside the overdue job and the jobs that are not counted on to leave; or
- on any free GPUs, if it is believed to be gone by then.

What is believed of a job is its time limit, where there is one: what runs then drains by the reserved moment,
and the overdue job waits for no longer than its bound, the overdue jobs before it and that drain. An estimate
may be too short: the reservation is made anew at each decision, so it moves with what has turned out, as
EASY's does. One that stands whatever running jobs turn out to last, and lets in only jobs that are sure to be
gone, is kept more strictly; but in a saturated pool, where some job is always overdue, GPUs then idle beside
it and all jobs wait several times longer.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from math import inf

from foundation.checked_settings import CheckedSettings
from simulator.actions import Start
from simulator.cluster.placement import FreeGpus, Placement
from simulator.job_view import JobView
from simulator.mechanisms.backfill import Run
from simulator.mechanisms.believed_runs import BelievedRuns
from simulator.snapshot import NodePool

# A queue's length is looked at so often (s): that takes a look at every job in it.
LOOK_EVERY_S = 3_600.0

# What a bound remembers, by pool: when its queue was looked at last, with the bound that followed from its
# length (s); and the overdue job for which nodes are reserved.
OverdueMemory = tuple[dict[str, tuple[float, float]], dict[str, JobView]]

# A short queue makes a job overdue from this part of the bound on.
LEAST_SHARE = 0.25


@dataclass(frozen=True)
class OvertakingSettings(CheckedSettings):
    """`overtaking_bound_s`: a job that has waited for so long has nodes reserved, and is overtaken only where
    that does not delay it; behind a short queue sooner, from a quarter of it on. 0: it may be overtaken for
    ever.
    """

    overtaking_bound_s: float = 86_400.0


@dataclass(slots=True)
class OverdueFirst:
    """What the bound demands of one decision. The policy plans all else on `plan`: on what is left.

    - `starts`: overdue jobs that start now.
    - `job`: the one that waits on, None: none does; `at_s`: when it is believed to fit.
    - `reserved`: the nodes that it will have then.
    """

    plan: FreeGpus
    starts: list[Start] = field(default_factory=list)
    job: JobView | None = None
    at_s: float = 0.0
    reserved: Collection[int] = ()
    _kept_back: dict[int, int] = field(default_factory=dict)  # reserved node -> free GPUs that others leave
    _runs: BelievedRuns | None = None
    _begun: Sequence[Run] = ()
    _leaving: Collection[JobView] | None = None

    @property
    def until_s(self) -> Mapping[int, float]:
        """The reserved nodes, and when they are due."""
        return dict.fromkeys(self.reserved, self.at_s)

    @property
    def keeps_back(self) -> bool:
        """Whether GPUs are free that only jobs may use that are gone in time."""
        return bool(self._kept_back)

    def has_room(self, job: JobView, now_s: float) -> bool:
        """Whether a job may find a place, beside the overdue one or before it; False: not later either."""
        plan = self.plan
        if plan.find(job.gpus, job.nodes) is not None:
            return True
        kept_back = sum(self._kept_back.values())
        return bool(kept_back) and job.gpus <= plan.total + kept_back and now_s + job.request_s <= self.at_s

    def start(self, job: JobView) -> bool:
        """Start an overdue job if it fits."""
        placement = self.plan.place(job.gpus, job.nodes)
        if placement is None:
            return False
        self.starts.append(Start(job, placement))
        return True

    def reserve(self, job: JobView, runs: BelievedRuns, now_s: float) -> bool:
        """Reserve nodes for an overdue job that does not fit, and take out of the plan what it needs of them.

        `runs` are those of the pool. False: it would not fit even if all had ended (nodes have left), and
        holds no job up.
        """
        plan = self.plan
        begun = [Run(start.job, now_s, start.placement, start.job.request_s) for start in self.starts]
        reservation = runs.reserve(job, plan, begun)
        if reservation.shadow_s == inf:
            return False
        self.job, self.at_s = job, reservation.shadow_s
        self.reserved = reservation.spare
        self._runs, self._begun = runs, begun
        for node, spare in reservation.spare.items():
            free = plan.on_node(node)
            if spare < free:
                self._kept_back[node] = free - max(0, spare)
        plan.take(tuple(self._kept_back.items()))
        return True

    def place_beside(self, job: JobView, now_s: float) -> Placement | None:
        """Place a job on what is kept back, too, where it is believed to be gone by the reserved moment.

        Takes the GPUs from the plan.
        """
        if not self._kept_back or job is self.job or now_s + job.request_s > self.at_s:
            return None
        plan = self.plan
        if job.gpus > plan.total + sum(self._kept_back.values()):
            return None
        plan.give(tuple(self._kept_back.items()))
        placement = plan.find(job.gpus, job.nodes)
        plan.take(placement or ())
        taken = dict(placement or ())
        # The job is one of those that leave: what others may use of these nodes stays the same.
        rest = {node: max(0, gpus - taken.get(node, 0)) for node, gpus in self._kept_back.items()}
        self._kept_back = {node: gpus for node, gpus in rest.items() if gpus}
        plan.take(tuple(self._kept_back.items()))
        return placement

    def is_delayed_by(self, job: JobView, partner: JobView, now_s: float) -> bool:
        """Whether a job that shares the GPUs of another could be in the way of the overdue one."""
        return now_s + job.request_s > self.at_s and partner in self.leaving

    @property
    def leaving(self) -> Collection[JobView]:
        """The jobs on the reserved nodes that are to be gone by then."""
        if self._leaving is None:
            leaving: set[JobView] = set()
            in_time = [] if self._runs is None else self._runs.ended_by(self.at_s)
            for run in (*in_time, *(run for run in self._begun if run.key[0] <= self.at_s)):
                if any(node in self.reserved for node, _ in run.placement):
                    leaving.add(run.job)
                    if run.job.partner is not None:
                        leaving.add(run.job.partner)
            self._leaving = leaving
        return self._leaving


class OvertakingBound:
    """Finds the jobs that are overdue in each pool."""

    def __init__(self, bound_s: float) -> None:
        """`bound_s`: for how long a job may be overtaken at most (s); 0: for ever."""
        self.bound_s = bound_s or inf
        self.queues_s: dict[str, tuple[float, float]] = {}
        self.served_next: dict[str, JobView] = {}
        self._believed: dict[str, BelievedRuns] = {}  # by pool

    def memory(self) -> OverdueMemory:
        """Return what no snapshot shows."""
        return self.queues_s, self.served_next

    def remember(self, memory: OverdueMemory) -> None:
        """Go on with it."""
        self.queues_s, self.served_next = memory

    def overdue(self, pool: NodePool, now_s: float) -> JobView | None:
        """Return the job that has waited longest in a pool, if that was too long."""
        if self.bound_s == inf or not pool.queue.length:
            return None
        longest = pool.queue.longest_waiting()
        if longest is None:
            return None
        waited_s = now_s - longest.pending_since_s
        if waited_s < LEAST_SHARE * self.bound_s or waited_s < self._bound_in_s(pool, now_s):
            return None
        return longest

    def _bound_in_s(self, pool: NodePool, now_s: float) -> float:
        """Return the bound in a pool: as long as all that wait would keep it busy, as far as that is known.

        So long does the order of submission, which is the site's own, make the last of them wait.
        """
        measured_s, bound_s = self.queues_s.get(pool.name, (-inf, 0.0))
        if now_s - measured_s >= LOOK_EVERY_S:
            service_gpu_s = sum([job.gpus * job.estimate_s for job in pool.queue])
            queue_s = service_gpu_s / max(1, pool.total_gpus)
            bound_s = min(self.bound_s, max(LEAST_SHARE * self.bound_s, queue_s))
            self.queues_s[pool.name] = now_s, bound_s
        return bound_s

    def begin(self, pool: NodePool, now_s: float) -> OverdueFirst | None:
        """Begin a decision in a pool: start the overdue jobs that fit, up to the first that does not.

        None: no job is overdue.
        """
        self.served_next.pop(pool.name, None)
        longest = self.overdue(pool, now_s)
        if longest is None:
            return None
        first = OverdueFirst(pool.plan())
        if not self._serve(first, longest, pool, now_s):
            bound_s = self._bound_in_s(pool, now_s)
            with closing(pool.queue.by_wait()) as longest_first:
                for job in islice(longest_first, 1, None):
                    if now_s - job.pending_since_s < bound_s or self._serve(first, job, pool, now_s):
                        break
        return first

    def _serve(self, first: OverdueFirst, job: JobView, pool: NodePool, now_s: float) -> bool:
        """Start an overdue job, or reserve nodes for it; return whether it has some reserved."""
        if first.start(job):
            return False
        believed = self._believed.get(pool.name)
        if believed is None:
            believed = self._believed[pool.name] = BelievedRuns()
        believed.look(pool, now_s)
        if not first.reserve(job, believed, now_s):
            return False
        self.served_next[pool.name] = job
        return True
