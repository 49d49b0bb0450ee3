"""The queues of weighted fair queuing in whole GPUs, as long as all jobs are rigid.

Each runs on all of its GPUs or not at all, and what runs ends on its own: so an event costs what `admit`
costs, and the future of a job is a play of ends and starts until its own. As soon as a job comes that could
do with fewer GPUs, the rule is asked anew about all jobs at each event.
"""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from parts.elastic.active_job import ActiveJob, to_microsecond
from parts.elastic.allocation import AllocationRule, PlainAllocator, Pool
from parts.elastic.rules.rigid_admission import WaitingLine, admit
from parts.elastic.rules.water_filling import WaterFilledShares
from simulator.actions import PolicyError


class RigidQueues(PlainAllocator):
    """A pool of classes, kept from event to event."""

    def __init__(self, rule: AllocationRule, weights: Sequence[float], pool: Pool) -> None:
        super().__init__(rule, pool)
        self._shares = WaterFilledShares(weights, pool.gpus)
        self._held = [0] * len(weights)
        self._line: WaitingLine[ActiveJob] = WaitingLine(len(weights))
        self._all_rigid = True

    def submit(self, job: ActiveJob) -> None:
        """Have a job wait, or go on if it runs already."""
        super().submit(job)
        self._all_rigid &= job.min_gpus == job.demand
        if job.gpus:
            self._held[job.size_class] += job.demand
        else:
            self._line.add(job)

    def end(self, job: ActiveJob) -> None:
        """Take its GPUs back."""
        super().end(job)
        self._held[job.size_class] -= job.demand

    def changes(self, now_s: float) -> list[tuple[ActiveJob, float]]:
        """Start the jobs that the rule admits."""
        if not self._all_rigid:
            return super().changes(now_s)
        return [(job, float(job.demand)) for job in self._start(self._held, self._line, now_s)]

    def predict_end_s(self, job: ActiveJob, now_s: float) -> float | None:
        """Play ends and starts until the job has started."""
        if not self._all_rigid:
            return None
        if job.gpus:
            return job.end_at_s
        held, line = self._held.copy(), self._line.copy()
        ends = [(other.end_at_s, other.index, other) for other in self.active.values() if other.gpus]
        heapify(ends)
        while ends:
            end_s, _, ended = heappop(ends)
            held[ended.size_class] -= ended.demand
            for started in self._start(held, line, end_s):
                own_end_s = to_microsecond(end_s + started.service_s / started.speed_up.at(started.demand))
                if started is job:
                    return own_end_s
                heappush(ends, (own_end_s, started.index, started))
        raise PolicyError(f"Nothing would ever start {job!r}.")

    def _start(self, held: list[int], line: WaitingLine[ActiveJob], now_s: float) -> list[ActiveJob]:
        gpus = self.pool.gpus
        if gpus - sum(held) < line.least():
            return []
        shares = self._shares.of([own + asked for own, asked in zip(held, line.asked, strict=True)])
        started = admit(shares, held, line, gpus, now_s)
        for job in started:
            held[job.size_class] += job.demand
        return started
