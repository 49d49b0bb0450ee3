"""Elastic FIFO: in the order of submission, each job gets what it can use of what is left."""

from collections import deque
from collections.abc import Sequence

from simulator.elastic.active_job import ActiveJob
from simulator.elastic.allocation import AllocationRule, Allocator, PlainAllocator, Pool
from simulator.elastic.rules.whole_shares import in_turn, least_gpus


class ElasticFifoRule(AllocationRule):
    """Later jobs never take anything from earlier ones."""

    oracle = False
    arrivals_never_delay = True
    keeps_running = True

    def allocate(self, jobs: Sequence[ActiveJob], pool: Pool, now_s: float) -> list[float]:
        """Serve jobs from the front."""
        return in_turn(jobs, pool.gpus) if pool.whole else serve(jobs, pool)

    def allocator(self, pool: Pool) -> Allocator:
        """Keep the jobs that wait."""
        return Line(self, pool)


class Line(PlainAllocator):
    """Elastic FIFO at work: the jobs that hold less than they can use, in the order of submission.

    Only the first of them holds any GPUs. Where jobs ran before the simulation began, that may be otherwise.
    """

    def __init__(self, rule: AllocationRule, pool: Pool) -> None:
        super().__init__(rule, pool)
        self.free = float(pool.gpus)
        self.waiting: deque[ActiveJob] = deque()
        self.plain = False

    def submit(self, job: ActiveJob) -> None:
        """Let a job wait."""
        super().submit(job)
        self.waiting.append(job)
        self.plain = self.plain or job.gpus > 0

    def end(self, job: ActiveJob) -> None:
        """Have its GPUs back."""
        super().end(job)
        self.free += job.gpus
        if job.gpus != job.demand and not self.plain:
            self.waiting.remove(job)

    def changes(self, now_s: float) -> list[tuple[ActiveJob, float]]:
        """Hand out what is free from the front."""
        if self.plain:
            return super().changes(now_s)
        changes: list[tuple[ActiveJob, float]] = []
        while self.free and self.waiting:
            job = self.waiting[0]
            if self.pool.whole and not job.gpus and self.free < least_gpus(job):
                break
            gpus = min(job.gpus + self.free, float(job.demand))
            self.free -= gpus - job.gpus
            changes.append((job, gpus))
            if gpus < job.demand:
                break
            self.waiting.popleft()
        return changes

    def next_change_s(self, now_s: float) -> None:
        """Nothing changes by itself."""


def serve(jobs: Sequence[ActiveJob], pool: Pool) -> list[float]:
    """Give each job in turn what it can use of what is left."""
    left = float(pool.gpus)
    given = []
    for job in jobs:
        gpus = min(left, float(job.demand))
        if pool.whole and gpus < job.min_gpus:
            gpus = 0.0
        given.append(gpus)
        left -= gpus
    return given
