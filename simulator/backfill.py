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

from bisect import insort
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush, merge
from typing import Any

from simulator.actions import Start
from simulator.placement import FreeGpus, Placement
from simulator.snapshot import JobView, NodePool, RunState
from simulator.waiting_jobs import (
    ANY_LENGTH_S,
    BySubmission,
    DemandQueue,
    WaitingJobs,
)

SHORTEST_BELIEF_S = 1.0  # a belief of nothing could never be doubled
NEVER = 1_000_000  # GPUs that a node lacks which is not there
STALE_RUNS = 32  # runs that are over, before the list of runs is swept

# (job, believed run time that it outlived, how often it did so before) -> a longer belief
Prolong = Callable[[JobView, float, int], float]


def doubled(job: JobView, belief_s: float, times: int) -> float:
    """A job that outlives its estimate is believed to run twice as long as was thought."""
    return 2.0 * belief_s


@dataclass(slots=True)
class Run:
    """A run, and when it is believed to end."""

    end_s: float
    job: JobView
    start_s: float
    placement: Placement
    belief_s: float
    outlived: int = 0
    begins_now: bool = False  # decided on, but not begun yet

    def __lt__(self, other: "Run") -> bool:
        if self.end_s != other.end_s:
            return self.end_s < other.end_s
        return self.job.index < other.job.index


@dataclass(slots=True)
class Reservation:
    """When and where the head of the queue will start, and what the reserved nodes will have to spare."""

    shadow_s: float
    placement: Placement
    spare: dict[int, int] = field(default_factory=dict)  # reserved node -> GPUs


class Runs:
    """The running jobs of a pool by believed end."""

    def __init__(self, prolong: Prolong) -> None:
        self._prolong = prolong
        self._runs: list[Run] = []

    def add(self, job: JobView, belief_s: float) -> None:
        """Take note of a running job."""
        start_s = job.start_time_s
        insort(self._runs, Run(start_s + belief_s, job, start_s, job.placement or (), belief_s))

    def follow(self, pool: NodePool, now_s: float, believe_s: Callable[[JobView], float]) -> None:
        """Catch up with the jobs that run; believe longer in those that outlived what was believed."""
        runs = self._runs
        if len(runs) > 2 * len(pool.running) + STALE_RUNS:
            runs = self._runs = [run for run in runs if _lasts(run)]
        if len(runs) < len(pool.running):
            known = {run.job for run in runs if _lasts(run)}
            for job in pool.running:
                if job not in known:
                    self.add(job, believe_s(job))
        outlived = 0
        while outlived < len(runs) and runs[outlived].end_s <= now_s:
            outlived += 1
        late = [run for run in runs[:outlived] if _lasts(run)]
        del runs[:outlived]
        for run in late:
            while run.end_s <= now_s:
                run.belief_s = self._prolong(run.job, run.belief_s, run.outlived)
                run.end_s = run.start_s + run.belief_s
                run.outlived += 1
            insort(runs, run)

    def reserve(self, head: JobView, plan: FreeGpus, begun: list[Run]) -> Reservation:
        """Reserve GPUs for the head, which does not fit into `plan` now.

        `begun` are the runs that begin right now, on GPUs that `plan` lacks already. If the head will not
        even fit when all have ended (nodes have left), it holds nobody up: the shadow time is infinite.
        """
        size = plan.gpus_per_node
        gpus = head.gpus
        enough = min(gpus, size)  # a node with so many free GPUs can take the job, or a whole part of it
        missing = max(1, gpus // size)  # so many nodes of that kind have to be there
        if gpus > size:
            missing -= len(plan.idle_nodes())
        lacks = [
            enough - plan.on_node(node) if plan.is_present(node) else NEVER for node in range(plan.nodes)
        ]
        before = lacks[:]
        running = RunState.RUNNING
        at_s = -1.0
        for run in merge(self._runs, sorted(begun)) if begun else self._runs:
            job = run.job
            if not run.begins_now and (job.state is not running or job.start_time_s != run.start_s):
                continue
            if run.end_s != at_s:
                if missing <= 0:
                    later = _later(plan, before, lacks)
                    if (found := later.find(gpus)) is not None:
                        return _reservation(at_s, found, later)
                at_s = run.end_s
            for node, held in run.placement:
                lack = lacks[node]
                lacks[node] = lack - held
                if lack - held <= 0 < lack:
                    missing -= 1
        later = _later(plan, before, lacks)
        found = later.find(gpus)
        return Reservation(float("inf"), ()) if found is None else _reservation(at_s, found, later)


def _later(plan: FreeGpus, before: list[int], after: list[int]) -> FreeGpus:
    """Return the plan when each node has gained what it lacks less."""
    later = plan.copy()
    later.give(
        tuple((n, had - has) for n, (had, has) in enumerate(zip(before, after, strict=True)) if had > has)
    )
    return later


def _lasts(run: Run) -> bool:
    return run.job.state is RunState.RUNNING and run.job.start_time_s == run.start_s


def _reservation(at_s: float, placement: Placement, then: FreeGpus) -> Reservation:
    return Reservation(at_s, placement, {node: then.on_node(node) - gpus for node, gpus in placement})


class Gaps:
    """The free GPUs around a reservation. Places are taken from `plan`, and from what the head leaves."""

    def __init__(self, plan: FreeGpus, reservation: Reservation, now_s: float) -> None:
        self._plan = plan
        self._window_s = reservation.shadow_s - now_s
        self._spare = reservation.spare
        self._unneeded = plan.copy()  # free now, and not needed by the head at the shadow time
        for node in self._spare:
            self._withhold(node)

    def _withhold(self, node: int) -> None:
        """Leave of a reserved node only what is free now and will be to spare."""
        unneeded = self._unneeded
        excess = unneeded.on_node(node) - min(self._plan.on_node(node), self._spare[node])
        if excess:
            unneeded.take(((node, excess),))

    def longest_s(self, gpus: int) -> float:
        """Return how long a job of this demand may run that starts now; negative when it does not fit."""
        if self._unneeded.find(gpus) is not None:
            return ANY_LENGTH_S
        return self._window_s if self._plan.find(gpus) is not None else -1.0

    def place(self, gpus: int, belief_s: float) -> Placement | None:
        """Place a job that is believed to run so long; None when that would delay the head."""
        lasting = belief_s > self._window_s
        placement = (self._unneeded if lasting else self._plan).find(gpus)
        if placement is None:
            return None
        self._plan.take(placement)
        for node, taken in placement:
            if node in self._spare:
                self._spare[node] -= taken if lasting else 0
                self._withhold(node)
            else:
                self._unneeded.take(((node, taken),))
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
        self._believe_s = lambda job: max(SHORTEST_BELIEF_S, believe_s(job))
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

    def decide(
        self, pool: NodePool, now_s: float, rank: Callable[[Hashable], float] | None = None
    ) -> list[Start]:
        """Start jobs from the front, and around the reservation of the first that does not fit."""
        book = self._book(pool.name)
        waiting = book.waiting
        for run in book.begun:
            if run.job.state is RunState.RUNNING:
                book.runs.add(run.job, run.belief_s)
        begun = book.begun = []
        waiting.follow(pool)
        if not len(waiting) or not pool.free.total:
            return []
        plan = pool.plan()
        head = None
        ordered: Iterator[JobView] = iter(pool.queue) if rank is None else waiting.ranked(rank)
        for job in ordered:
            placement = plan.place(job.gpus)
            if placement is None:
                head = job
                break
            begun.append(_begin(job, placement, now_s, waiting.take(job)))
        if head is not None and any(
            gpus <= plan.total and plan.find(gpus) is not None for gpus in waiting.by_demand
        ):
            book.runs.follow(pool, now_s, self._believe_s)
            gaps = Gaps(plan, book.runs.reserve(head, plan, begun), now_s)
            self._fill(gaps, waiting, now_s, rank, begun)
        return [Start(run.job, run.placement) for run in begun]

    def _fill(
        self,
        gaps: Gaps,
        waiting: WaitingJobs,
        now_s: float,
        rank: Callable[[Hashable], float] | None,
        begun: list[Run],
    ) -> None:
        """Start what fits around the reservation, best first among the first candidates of each queue."""
        best: list[tuple[Any, ...]] = []

        def offer(gpus: int, group: Hashable, queue: DemandQueue, longest_s: float) -> None:
            job = queue.first(longest_s)
            if job is not None:
                value = 0.0 if rank is None else rank(group)
                heappush(best, (value, queue.order(job), gpus, group, queue, job))

        for gpus, groups in waiting.by_demand.items():
            longest_s = gaps.longest_s(gpus)
            if longest_s >= 0:
                for group, queue in groups.items():
                    offer(gpus, group, queue, longest_s)
        while best:
            _, _, gpus, group, queue, job = heappop(best)
            belief_s = queue.belief_s(job)
            placement = gaps.place(gpus, belief_s)
            if placement is not None:
                begun.append(_begin(job, placement, now_s, waiting.take(job)))
            longest_s = gaps.longest_s(gpus)
            if longest_s >= 0:
                offer(gpus, group, queue, longest_s)


def _begin(job: JobView, placement: Placement, now_s: float, belief_s: float) -> Run:
    return Run(now_s + belief_s, job, now_s, placement, belief_s, begins_now=True)
