"""Elastic FIFO at work: the jobs that wait, in the order of submission."""

from collections import deque

from parts.elastic.active_job import ActiveJob
from parts.elastic.allocation import AllocationRule, PlainAllocator, Pool
from parts.elastic.rules.whole_shares import least_gpus


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
