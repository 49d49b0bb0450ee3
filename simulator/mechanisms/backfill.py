"""EASY backfilling (Lifka, JSSPP '95; Mu'alem and Feitelson, TPDS '01) on real nodes.

Jobs start from the front of the queue. The first that does not fit, the *head*, gets a reservation: the
earliest moment (*shadow time*) at which it will fit, if running jobs end when they are believed to, and the
very nodes that consolidated placement will then give it. A later job may start now if

- it is believed to end by the shadow time, on any free GPUs; or
- on GPUs that the head will not need: all of other nodes, and of the reserved nodes what they will have to
  spare at the shadow time.

Only the head has a reservation (aggressive backfilling). It is computed anew whenever something happened, so
a job that ends early moves it forward. A job that outlives what was believed gets a longer belief; until then
it is taken at its word, and the head may start later than was reserved for it.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush, merge
from math import inf
from typing import Any

from simulator.actions import Start
from simulator.cluster.node_bits import lowest_of, nodes_of
from simulator.cluster.placement import NOWHERE, Demand, FreeGpus, Placement
from simulator.job_view import JobView, RunState
from simulator.mechanisms.freed_gpus import FreedGpus
from simulator.mechanisms.idle_times import IdleTimes
from simulator.mechanisms.waiting_jobs import (
    ANY_LENGTH_S,
    BySubmission,
    DemandQueue,
    WaitingJobs,
)
from simulator.snapshot import NodePool

SHORTEST_BELIEF_S = 1.0  # a belief of nothing could never be doubled

# (job, believed run time that it outlived, how often it did so before) -> a longer belief
Prolong = Callable[[JobView, float, int], float]

# job id -> for how long it is believed to run, and how often it outlived what was believed before
Beliefs = dict[str, tuple[float, int]]

# ((believed end (s), index of the job), run)
Ending = tuple[tuple[float, int], "Run"]

# groups -> their ranks; the lowest is served first
Rank = Callable[[Iterable[Hashable]], Mapping[Hashable, float]]


def doubled(job: JobView, belief_s: float, times: int) -> float:
    """A job that outlives its estimate is believed to run twice as long as was thought."""
    return 2.0 * belief_s


@dataclass(slots=True)
class Run:
    """A run, and for how long it is believed to last."""

    job: JobView
    start_s: float
    placement: Placement
    belief_s: float
    outlived: int = 0

    @property
    def end_s(self) -> float:
        """When it is believed to end (s)."""
        return self.start_s + self.belief_s

    @property
    def key(self) -> tuple[float, int]:
        """Order runs by their believed end; equal ends by submission."""
        return (self.start_s + self.belief_s, self.job.index)


@dataclass(slots=True)
class Reservation:
    """When and where the head of the queue will start.

    `left`: what its nodes will have free then beside it, (GPUs on each, nodes as a set).
    """

    shadow_s: float
    placement: Placement
    left: Sequence[tuple[int, int]] = ()

    @property
    def spare(self) -> dict[int, int]:
        """The same by node."""
        return {node: gpus for gpus, nodes in self.left for node in nodes_of(nodes)}


NEVER = Reservation(inf, NOWHERE)


class Runs:
    """The running jobs of a pool by believed end.

    Starts and completions are reported to it; all else shows in the number of running jobs.
    """

    def __init__(self, prolong: Prolong) -> None:
        self._prolong = prolong
        self._of: dict[JobView, Run] = {}
        self._by_end: list[Ending] = []  # the keys differ
        self._idle: IdleTimes | None = None  # kept from when whole nodes are first reserved

    def __iter__(self) -> Iterator[Run]:
        return iter(self._of.values())

    @property
    def first_end_s(self) -> float:
        """When the first of them is believed to end (s); infinite: none runs."""
        return self._by_end[0][0][0] if self._by_end else inf

    def ended_by(self, at_s: float) -> list[Run]:
        """Return the runs that are believed to have ended by then, in this order."""
        return [run for _, run in self._by_end[: bisect_left(self._by_end, ((at_s, inf),))]]

    def add(self, run: Run) -> None:
        """Take note of a run that has begun; it replaces what was known of the job."""
        self.discard(run.job)
        self._of[run.job] = run
        self._insert(run)

    def discard(self, job: JobView) -> None:
        """Take note that a job stopped, if it was known to run."""
        run = self._of.pop(job, None)
        if run is not None:
            del self._by_end[bisect_left(self._by_end, (run.key,))]
            if self._idle is not None:
                self._idle.discard(run.placement, run.end_s)

    def _insert(self, run: Run) -> None:
        insort(self._by_end, (run.key, run))
        if self._idle is not None:
            self._idle.add(run.placement, run.end_s)

    def follow(self, pool: NodePool, now_s: float, believe_s: Callable[[JobView], float]) -> None:
        """Catch up with the jobs that run; believe longer in those that outlived what was believed."""
        if len(self._of) != len(pool.running):
            for run in [run for run in self._of.values() if not _lasts(run)]:
                self.discard(run.job)
            for job in pool.running:
                if job not in self._of:
                    self.add(Run(job, job.start_time_s, job.placement or NOWHERE, believe_s(job)))
        late = []
        for (end_s, _), run in self._by_end:
            if end_s > now_s:
                break
            late.append(run)
        # Out before any goes in again: a longer belief may lie among those that are still to be looked at.
        del self._by_end[: len(late)]
        for run in late:
            if self._idle is not None:
                self._idle.discard(run.placement, run.end_s)
            while run.start_s + run.belief_s <= now_s:
                run.belief_s = self._prolong(run.job, run.belief_s, run.outlived)
                run.outlived += 1
            self._insert(run)

    def reserve(self, head: JobView, plan: FreeGpus, begun: list[Run]) -> Reservation:
        """Reserve GPUs for the head, which does not fit into `plan` now.

        `begun` are the runs that begin right now, on GPUs that `plan` lacks already. If the head will not
        even fit when all have ended (nodes have left), it holds no job up: the shadow time is infinite.
        """
        size = plan.gpus_per_node
        # `_reserve` is the rule: place the head anew after each end. On equal nodes the same moment is found
        # without placing it, by when nodes come free, for the two demands that most jobs have.
        alike = head.nodes is None and plan.has_equal_nodes
        if alike and head.gpus % size == 0:
            return self._reserve_whole(head.gpus // size, plan, begun)
        begun_by_end = sorted((run.key, run) for run in begun)
        ending = merge(self._by_end, begun_by_end) if begun else self._by_end
        if alike and head.gpus < size:
            return _reserve_on_one(head.gpus, plan, ending)
        return _reserve(head, plan, ending)

    def _reserve_whole(self, count: int, plan: FreeGpus, begun: list[Run]) -> Reservation:
        if self._idle is None:
            self._idle = IdleTimes(plan.gpus_per_node)
            for run in self:
                self._idle.add(run.placement, run.end_s)
        for run in begun:
            self._idle.add(run.placement, run.end_s)
        found = self._idle.first(count, plan)
        for run in begun:
            self._idle.discard(run.placement, run.end_s)
        if found is None:
            return NEVER
        at_s, idle = found
        taken, gpus = lowest_of(idle, count), count * plan.gpus_per_node
        return Reservation(at_s, Placement(((taken, plan.gpus_per_node),), gpus), ((0, taken),))


def _reserve(head: JobView, plan: FreeGpus, ending: Iterable[Ending]) -> Reservation:
    """Try again after each end."""
    later = plan.copy()
    at_s = -1.0
    for (end_s, _), run in ending:
        # All ends of a moment come before: where the head goes must not depend on their order.
        if end_s != at_s:
            placement = later.find(head.gpus, head.nodes)
            if placement is not None:
                break
            at_s = end_s
        later.give(run.placement)
    else:
        placement = later.find(head.gpus, head.nodes)
        if placement is None:
            return NEVER
    later.take(placement)
    return Reservation(at_s, placement, later.by_free(placement.nodes))


def _reserve_on_one(gpus: int, plan: FreeGpus, ending: Iterable[Ending]) -> Reservation:
    """Reserve a part of one node, by looking where runs end."""
    freed = FreedGpus(plan, gpus)
    fitting = 0
    at_s = -1.0
    for (end_s, _), run in ending:
        if end_s != at_s:
            if fitting:
                break
            at_s = end_s
        fitting |= freed.give(run.placement)
    if not fitting:
        return NEVER
    node, free = freed.fullest(fitting)
    return Reservation(at_s, Placement(((1 << node, gpus),), gpus), ((free - gpus, 1 << node),))


def _lasts(run: Run) -> bool:
    return run.job.state is RunState.RUNNING and run.job.start_time_s == run.start_s


class Gaps:
    """The free GPUs around a reservation. Places are taken from `plan`, and from what the head leaves."""

    def __init__(self, plan: FreeGpus, reservation: Reservation, now_s: float) -> None:
        self._plan = plan
        self._window_s = reservation.shadow_s - now_s
        self._unneeded = plan.copy()  # free now, and not needed by the head at the shadow time
        for gpus, nodes in reservation.left:
            self._unneeded.limit(nodes, gpus)

    def longest_s(self, demand: Demand) -> float:
        """Return how long a job of this demand may run that starts now; negative when it does not fit."""
        gpus, nodes = demand
        if self._unneeded.fits(gpus, nodes):
            return ANY_LENGTH_S
        return self._window_s if self._plan.fits(gpus, nodes) else -1.0

    def place(self, demand: Demand, belief_s: float) -> Placement:
        """Place a job that is believed to run so long; raises ValueError when that would delay the head."""
        lasting = belief_s > self._window_s
        placement = (self._unneeded if lasting else self._plan).find(*demand)
        if placement is None:
            raise ValueError(f"{demand[0]} GPUs are not free for {belief_s} s")
        self._plan.take(placement)
        if lasting:
            self._unneeded.take(placement)
        else:
            # Gone by the shadow time, it takes nothing from the head; until then its GPUs are not free.
            for gpus, nodes in self._plan.by_free(placement.nodes):
                self._unneeded.limit(nodes, gpus)
        return placement


@dataclass(slots=True)
class Book:
    """What is known about a pool between decisions."""

    waiting: WaitingJobs
    runs: Runs
    begun: list[Run] = field(default_factory=list)  # at the last decision


class Backfill:
    """EASY backfilling of pools in an order that the policy chooses.

    - `believe_s`: how long a waiting job is believed to run (s, finite); asked once a wait.
    - `prolong`: what is believed of a job that outlived that.
    - `group_of`, with `rank` in `decide`: a group is served in the order of submission, and groups by
      rank, lowest first. Without: all jobs in the order of submission.
    - `order`: in which order jobs are tried for the gaps (inside a group).
    """

    def __init__(
        self,
        believe_s: Callable[[JobView], float],
        *,
        prolong: Prolong = doubled,
        group_of: Callable[[JobView], Hashable] | None = None,
        order: Callable[[], DemandQueue] = BySubmission,
    ) -> None:
        self._believe_s: Callable[[JobView], float] = lambda job: max(SHORTEST_BELIEF_S, believe_s(job))
        self._prolong = prolong
        self._group_of = group_of
        self._order = order
        self._books: dict[str, Book] = {}

    def _book(self, pool: str) -> Book:
        book = self._books.get(pool)
        if book is None:
            waiting = WaitingJobs(self._believe_s, self._group_of, self._order)
            book = self._books[pool] = Book(waiting, Runs(self._prolong))
        return book

    def beliefs(self) -> Beliefs:
        """Return how long each job that runs or waits is believed to run."""
        beliefs_by_job: Beliefs = {}
        for book in self._books.values():
            beliefs_by_job |= {job.job.job_id: (belief_s, 0) for job, belief_s in book.waiting.beliefs()}
            for run in (*book.runs, *book.begun):
                if _lasts(run):
                    beliefs_by_job[run.job.job.job_id] = (run.belief_s, run.outlived)
        return beliefs_by_job

    def resume(self, pools: Mapping[str, NodePool], beliefs: Beliefs) -> None:
        """Take note of what runs and waits from the start; others than in `beliefs` are estimated anew."""
        for name, pool in pools.items():
            book = self._book(name)
            for job in pool.running:
                belief_s, outlived = beliefs.get(job.job.job_id) or (self._believe_s(job), 0)
                book.runs.add(Run(job, job.start_time_s, job.placement or NOWHERE, belief_s, outlived))
            for job in pool.queue:
                if job.job.job_id in beliefs:
                    book.waiting.add(job, beliefs[job.job.job_id][0])

    def ended(self, job: JobView) -> None:
        """Take note of a job that has completed; `decide` finds out by itself, at a cost."""
        self._book(job.pool).runs.discard(job)

    def decide(self, pool: NodePool, now_s: float, rank: Rank | None = None) -> list[Start]:
        """Start jobs from the front, and around the reservation of the first that does not fit."""
        book = self._book(pool.name)
        waiting = book.waiting
        # What was to start at the last decision. A withdrawn job may have left instead of starting.
        for run in book.begun:
            if run.job.state is RunState.RUNNING:
                book.runs.add(run)
        begun = book.begun = []
        waiting.follow(pool)
        if not len(waiting) or not pool.free.total:
            return []
        plan = pool.plan()
        head = None
        ranks: Mapping[Hashable, float] | None = None
        ordered: Iterable[JobView] = pool.queue
        if rank is not None:
            ranks = rank(waiting.by_group)
            ordered = waiting.ranked(ranks)
        for job in ordered:
            placement = plan.place(job.gpus, job.nodes)
            if placement is None:
                head = job
                break
            begun.append(_begin(job, placement, now_s, waiting.take(job)))
        # A reservation takes a walk over the running jobs: only where some job could start around it.
        if head is not None and any(
            gpus <= plan.total and plan.fits(gpus, nodes) for gpus, nodes in waiting.by_demand
        ):
            book.runs.follow(pool, now_s, self._believe_s)
            gaps = Gaps(plan, book.runs.reserve(head, plan, begun), now_s)
            self._fill(gaps, waiting, now_s, ranks, begun)
        return [Start(run.job, run.placement) for run in begun]

    def _fill(
        self,
        gaps: Gaps,
        waiting: WaitingJobs,
        now_s: float,
        ranks: Mapping[Hashable, float] | None,
        begun: list[Run],
    ) -> None:
        """Start what fits around the reservation, best first among the first candidates of each queue."""
        best: list[tuple[Any, ...]] = []

        def offer(demand: Demand, group: Hashable, queue: DemandQueue, longest_s: float) -> None:
            job = queue.first(longest_s)
            if job is not None:
                value = 0.0 if ranks is None else ranks[group]
                # Orders of jobs differ, so that no two demands, groups or queues are ever compared.
                heappush(best, (value, queue.order(job), demand, group, queue, job))

        longest_s = {demand: gaps.longest_s(demand) for demand in waiting.by_demand}
        for demand, groups in waiting.by_demand.items():
            if longest_s[demand] >= 0:
                for group, queue in groups.items():
                    offer(demand, group, queue, longest_s[demand])
        while best and max(longest_s.values()) >= 0:
            _, _, demand, group, queue, job = heappop(best)
            belief_s = queue.belief_s(job)
            if belief_s <= longest_s.get(demand, -1.0):
                placement = gaps.place(demand, belief_s)
                begun.append(_begin(job, placement, now_s, waiting.take(job)))
                longest_s = {other: gaps.longest_s(other) for other, was_s in longest_s.items() if was_s >= 0}
            if longest_s.get(demand, -1.0) >= 0:
                offer(demand, group, queue, longest_s[demand])


def _begin(job: JobView, placement: Placement, now_s: float, belief_s: float) -> Run:
    return Run(job, now_s, placement, belief_s)
