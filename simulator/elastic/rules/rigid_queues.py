"""The queues of weighted fair queuing in whole GPUs, as long as all jobs are rigid.

Each runs on all of its GPUs or not at all, and what runs ends on its own: so an event costs what `turns`
costs, and the future of a job is a play of ends and starts until its own. As soon as a job comes that could
do with fewer GPUs, the rule is asked anew about everybody at each event.
"""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from math import inf

from simulator.actions import PolicyError
from simulator.elastic.active_job import ActiveJob, to_microsecond
from simulator.elastic.allocation import AllocationRule, PlainAllocator, Pool
from simulator.elastic.rules.rigid_turns import turns
from simulator.elastic.rules.water_filling import Shares

SWEPT = 256  # jobs that have left a part of the line are swept out when they are more than this and than half


class RigidQueues(PlainAllocator):
    """A pool of classes, kept from event to event."""

    def __init__(self, rule: AllocationRule, weights: Sequence[float], pool: Pool) -> None:
        super().__init__(rule, pool)
        self._shares = Shares(weights, pool.gpus)
        self._held = [0] * len(weights)
        self._line = _Line(len(weights))
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
        """Start those whose turn it is."""
        if not self._all_rigid:
            return super().changes(now_s)
        return [(job, float(job.demand)) for job in self._start(self._held, self._line, now_s)]

    def foretell(self, job: ActiveJob, now_s: float) -> float | None:
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

    def _start(self, held: list[int], line: "_Line", now_s: float) -> list[ActiveJob]:
        gpus = self.pool.gpus
        if gpus - sum(held) < line.least():
            return []
        shares = self._shares.of([own + asked for own, asked in zip(held, line.asked, strict=True)])
        started = turns(shares, held, line, gpus, now_s)
        for job in started:
            held[job.size_class] += job.demand
        return started


class _Line:
    """Who waits, by class and demand, in the order of submission; a copy shares the jobs."""

    __slots__ = ("_parts", "asked")

    def __init__(self, classes: int) -> None:
        # By class and demand: the jobs, and how many of them have left.
        self._parts: list[dict[int, tuple[list[ActiveJob], int]]] = [{} for _ in range(classes)]
        self.asked = [0] * classes  # GPUs, together

    def copy(self) -> "_Line":
        """Return a line that may be taken from while the original stands still."""
        other = _Line(0)
        other._parts = [part.copy() for part in self._parts]
        other.asked = self.asked.copy()
        return other

    def add(self, job: ActiveJob) -> None:
        """Have a job wait behind all others."""
        parts = self._parts[job.size_class]
        jobs, gone = parts.get(job.demand, ([], 0))
        jobs.append(job)
        if gone > SWEPT and gone > len(jobs) / 2:
            del jobs[:gone]
            gone = 0
        parts[job.demand] = jobs, gone
        self.asked[job.size_class] += job.demand

    def least(self) -> float:
        """The fewest GPUs that anybody asks for."""
        return min((gpus for parts in self._parts for gpus in parts), default=inf)

    def first(self, size_class: int, most_gpus: float) -> ActiveJob | None:
        """Return the first of a class that asks for so few GPUs."""
        found = None
        for gpus, (jobs, gone) in self._parts[size_class].items():
            if gpus <= most_gpus:
                job = jobs[gone]
                if found is None or job.index < found.index:
                    found = job
        return found

    def taken(self, job: ActiveJob) -> ActiveJob:
        """Take out the first of its class and demand."""
        parts = self._parts[job.size_class]
        jobs, gone = parts[job.demand]
        if gone + 1 == len(jobs):
            del parts[job.demand]
        else:
            parts[job.demand] = jobs, gone + 1
        self.asked[job.size_class] -= job.demand
        return job
