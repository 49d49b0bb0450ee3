"""The waiting jobs of a pool, sorted by what a backfilling scheduler asks about them.

A queue in priority order has to be walked to find a job that is small and short enough for a gap. Here jobs
lie by GPU demand, and for each demand the first job that is believed to run at most so long is found in
logarithmic time, so a decision costs the same behind ten waiting jobs and behind ten thousand.
"""

import sys
from bisect import insort
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from typing import Protocol

from simulator.cluster.placement import Demand
from simulator.job_view import JobView, RunState
from simulator.snapshot import NodePool

ANY_LENGTH_S = sys.float_info.max  # every belief is finite
GONE_S = float("inf")  # stands in the tree where no job is
SMALLEST_TREE = 16


def submission_order(job: JobView) -> tuple[float, int]:
    """First come, first served; jobs of the same second in the order of the log."""
    return (job.submit_time_s, job.index)


class DemandQueue(Protocol):
    """Waiting jobs of one GPU demand (and one group), in some order."""

    def __len__(self) -> int: ...

    def add(self, job: JobView, belief_s: float) -> None:
        """Insert a job that is believed to run `belief_s`."""

    def discard(self, job: JobView) -> None:
        """Take a job out, if it is here."""

    def first(self, limit_s: float = ANY_LENGTH_S) -> JobView | None:
        """Return the first job that is believed to run at most `limit_s`; None when there is none."""

    def belief_s(self, job: JobView) -> float:
        """Return how long a job that waits here is believed to run."""

    def order(self, job: JobView) -> tuple[float, ...]:
        """Return what this queue is sorted by."""


class BySubmission:
    """First come, first served. A tournament tree over the beliefs finds the first short job."""

    def __init__(self) -> None:
        self._at: dict[JobView, int] = {}
        self._jobs: list[JobView | None] = []
        self._front = 0  # no job waits before it
        self._size = SMALLEST_TREE
        self._least = [GONE_S] * (2 * SMALLEST_TREE)  # node i: the least belief below it; leaves from _size
        self._last = (-GONE_S, -1)

    def __len__(self) -> int:
        return len(self._at)

    def add(self, job: JobView, belief_s: float) -> None:
        """Insert a job; O(log n), except for one that queues again behind later ones."""
        order = submission_order(job)
        if order < self._last:  # it waited here before, and goes back to its place
            rows = [(submission_order(other), other, self.belief_s(other)) for other in self._at]
            insort(rows, (order, job, belief_s), key=lambda row: row[0])
            self._fill([(other, belief) for _, other, belief in rows])
            return
        if len(self._jobs) == self._size:
            self._fill([(other, self.belief_s(other)) for other in self._at])
        self._last = order
        position = len(self._jobs)
        self._jobs.append(job)
        self._at[job] = position
        self._set(position, belief_s)

    def discard(self, job: JobView) -> None:
        """Take a job out; O(log n)."""
        position = self._at.pop(job, None)
        if position is not None:
            self._jobs[position] = None
            self._set(position, GONE_S)

    def first(self, limit_s: float = ANY_LENGTH_S) -> JobView | None:
        """Return the earliest job with a belief of at most `limit_s`; O(log n)."""
        if not self._at:
            return None
        if limit_s == ANY_LENGTH_S:
            jobs, front = self._jobs, self._front
            while jobs[front] is None:
                front += 1
            self._front = front
            return jobs[front]
        least = self._least
        if least[1] > limit_s:
            return None
        size = self._size
        node = 1
        while node < size:
            node *= 2
            # Left while the left half has a job that is short enough: the leaf is the earliest such job.
            if least[node] > limit_s:
                node += 1
        return self._jobs[node - size]

    def belief_s(self, job: JobView) -> float:
        """Return how long a job that waits here is believed to run."""
        return self._least[self._size + self._at[job]]

    def order(self, job: JobView) -> tuple[float, ...]:
        """Return what this queue is sorted by."""
        return submission_order(job)

    def _set(self, position: int, belief_s: float) -> None:
        least = self._least
        node = self._size + position
        least[node] = belief_s
        while node > 1:
            node //= 2
            left, right = least[2 * node], least[2 * node + 1]
            smaller = left if left < right else right
            if least[node] == smaller:
                return
            least[node] = smaller

    def _fill(self, rows: list[tuple[JobView, float]]) -> None:
        """Start afresh with these jobs, in order, and room for as many more."""
        size = SMALLEST_TREE
        while size < 2 * len(rows):
            size *= 2
        self._size = size
        self._jobs = [job for job, _ in rows]
        self._front = 0
        self._at = {job: i for i, (job, _) in enumerate(rows)}
        least = self._least = [GONE_S] * (2 * size)
        for i, (_, belief) in enumerate(rows):
            least[size + i] = belief
        for node in range(size - 1, 0, -1):
            least[node] = min(least[2 * node], least[2 * node + 1])
        self._last = submission_order(rows[-1][0]) if rows else (-GONE_S, -1)


class ShortestFirst:
    """The job that is believed to be shortest first; equal beliefs by submission."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, tuple[float, int], JobView]] = []
        self._beliefs: dict[JobView, float] = {}

    def __len__(self) -> int:
        return len(self._beliefs)

    def add(self, job: JobView, belief_s: float) -> None:
        """Insert a job; O(log n)."""
        self._beliefs[job] = belief_s
        heappush(self._heap, (belief_s, submission_order(job), job))
        if len(self._heap) > 2 * len(self._beliefs) + SMALLEST_TREE:
            self._heap = [(belief, submission_order(job), job) for job, belief in self._beliefs.items()]
            heapify(self._heap)

    def discard(self, job: JobView) -> None:
        """Take a job out; its place in the heap is cleared when it comes up."""
        self._beliefs.pop(job, None)

    def first(self, limit_s: float = ANY_LENGTH_S) -> JobView | None:
        """Return the shortest job, if it is believed to run at most `limit_s`."""
        heap = self._heap
        while heap:
            belief, _, job = heap[0]
            if self._beliefs.get(job) == belief:
                return job if belief <= limit_s else None
            heappop(heap)
        return None

    def belief_s(self, job: JobView) -> float:
        """Return how long a job that waits here is believed to run."""
        return self._beliefs[job]

    def order(self, job: JobView) -> tuple[float, ...]:
        """Return what this queue is sorted by."""
        return (self._beliefs[job], *submission_order(job))


class WaitingJobs:
    """The waiting jobs of one pool by group (a user, say) and GPU demand.

    It follows the pool's queue by newcomers and by what the scheduler took; where that does not add up (a job
    was cancelled, a start did not happen) it reads the queue. It can therefore be thrown away at any time.
    """

    def __init__(
        self,
        believe_s: Callable[[JobView], float],
        group_of: Callable[[JobView], Hashable] | None = None,
        order: Callable[[], DemandQueue] = BySubmission,
    ) -> None:
        self._believe_s = believe_s
        self._group_of = group_of or (lambda job: None)
        self._order = order
        self._where: dict[JobView, tuple[Hashable, DemandQueue]] = {}
        self.by_demand: dict[Demand, dict[Hashable, DemandQueue]] = {}
        self.by_group: dict[Hashable, dict[Demand, DemandQueue]] = {}

    def __len__(self) -> int:
        return len(self._where)

    def add(self, job: JobView, belief_s: float | None = None) -> None:
        """Take note of a job that begins to wait; twice changes nothing."""
        if job in self._where:
            return
        group = self._group_of(job)
        demands = self.by_group.setdefault(group, {})
        demand = (job.gpus, job.nodes)
        queue = demands.get(demand)
        if queue is None:
            queue = demands[demand] = self._order()
            self.by_demand.setdefault(demand, {})[group] = queue
        queue.add(job, self._believe_s(job) if belief_s is None else belief_s)
        self._where[job] = (group, queue)

    def take(self, job: JobView) -> float:
        """Remove a job; return how long it is believed to run."""
        group, queue = self._where.pop(job)
        belief = queue.belief_s(job)
        queue.discard(job)
        if not len(queue):
            demands = self.by_group[group]
            demand = (job.gpus, job.nodes)
            del demands[demand]
            if not demands:
                del self.by_group[group]
            groups = self.by_demand[demand]
            del groups[group]
            if not groups:
                del self.by_demand[demand]
        return belief

    def belief_s(self, job: JobView) -> float:
        """Return how long a waiting job is believed to run."""
        return self._where[job][1].belief_s(job)

    def beliefs(self) -> Iterator[tuple[JobView, float]]:
        """Yield each job and how long it is believed to run."""
        return ((job, queue.belief_s(job)) for job, (_, queue) in self._where.items())

    def follow(self, pool: NodePool) -> None:
        """Catch up with the pool's queue."""
        for job in pool.queue.take_newcomers():
            if waits_in(job, pool):
                self.add(job)
        if len(self._where) != len(pool.queue):
            for job in [job for job in self._where if not waits_in(job, pool)]:
                self.take(job)
            for job in pool.queue:
                self.add(job)

    def ranked(self, ranks: Mapping[Hashable, float]) -> Iterator[JobView]:
        """Yield the jobs by their group's rank, lowest first, and by submission inside and on ties.

        A job that was yielded may be taken before the next one is asked for.
        """
        groups = [(ranks[group], n, demands) for n, (group, demands) in enumerate(self.by_group.items())]
        heapify(groups)
        while groups:
            value, _, demands = heappop(groups)
            queues = list(demands.values())
            while groups and groups[0][0] == value:
                queues += heappop(groups)[2].values()
            yield from _merged(queues)


def _merged(queues: Iterable[DemandQueue]) -> Iterator[JobView]:
    """Yield the first jobs of some queues by submission; they may be taken on the way."""
    heap = [(submission_order(job), queue, job) for queue in queues if (job := queue.first()) is not None]
    heapify(heap)
    while heap:
        _, queue, job = heappop(heap)
        yield job
        following = queue.first()
        if following is not None and following is not job:
            heappush(heap, (submission_order(following), queue, following))


def waits_in(job: JobView, pool: NodePool) -> bool:
    """Whether a job waits in this pool now."""
    return job.state is RunState.PENDING and job.pool == pool.name
