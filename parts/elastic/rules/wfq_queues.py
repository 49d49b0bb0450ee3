"""The queues of weighted fair queuing from event to event: only what an event can have changed is looked at.

An event changes the demand of one queue. Another gets another share only when the water-filling of demands
says so; and within a queue jobs are served from the front, so that only those that are served are touched,
about as many as the pool has GPUs, however many wait.
"""

from parts.elastic.active_job import ActiveJob
from parts.elastic.allocation import Allocator, Pool
from parts.elastic.prediction.queue_plans import QueuePlans
from parts.elastic.rules.fair_queue import FairQueue
from parts.elastic.rules.water_filling import WaterFilledShares


class FairQueues(Allocator):
    """All size classes on one pool, in fractions of GPUs."""

    def __init__(self, weights: tuple[float, ...], pool: Pool) -> None:
        super().__init__()
        self.queues = [FairQueue() for _ in weights]
        self._shares = WaterFilledShares(weights, pool.gpus)
        self._demands = [0] * len(weights)
        self._given: tuple[float, ...] = (0.0,) * len(weights)
        self._touched: set[int] = set()
        self._plans = QueuePlans(self.queues, self._shares)

    def submit(self, job: ActiveJob) -> None:
        """Put a job at the end of its queue."""
        super().submit(job)
        at = job.size_class
        queue = self.queues[at]
        if not queue.append(job):
            self._touched.add(at)
            self._plans.forget()
        self._demands[at] = queue.demand

    def end(self, job: ActiveJob) -> None:
        """Take a job out of its queue."""
        super().end(job)
        at = job.size_class
        queue = self.queues[at]
        queue.remove(job)
        self._touched.add(at)
        self._demands[at] = queue.demand

    def changes(self, now_s: float) -> list[tuple[ActiveJob, float]]:
        """Serve the queues that have other jobs or another share than before."""
        changes: list[tuple[ActiveJob, float]] = []
        given = self._shares.of(self._demands)
        if given is not self._given:
            for at, (share, before) in enumerate(zip(given, self._given, strict=True)):
                if share != before:
                    self._touched.add(at)
            self._given = given
        for at in sorted(self._touched):
            self.queues[at].serve(given[at], changes)
        self._touched.clear()
        return changes

    def predict_end_s(self, job: ActiveJob, now_s: float) -> float:
        """Drain the queues until the job has ended."""
        at = job.size_class
        if self._given[at] == self._demands[at] and self._shares.stays_met(at, self._demands, self._given):
            return job.end_at_s  # it holds all that it can use, and will
        return self._plans.end_of(job)
