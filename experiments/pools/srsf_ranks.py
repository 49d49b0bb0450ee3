"""SRSF at work: jobs kept in their order, and what it makes of them predicted.

The remaining GPU time of a waiting job stands still and that of a running one falls, so a running job is
always ahead of a waiting one that came before the last event, and only running jobs change places. Of those
at most one, the last, has fewer GPUs than it can use.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from math import inf

from parts.elastic.active_job import ActiveJob, to_microsecond
from parts.elastic.allocation import Allocator, Pool
from parts.elastic.rules.srsf import remaining_gpu_s

MARGIN_S = 1e-3  # between ends that differ by more than noise
Ranked = tuple[float, int, ActiveJob]  # remaining GPU time, index: no two are equal


class Ranks(Allocator):
    """The running jobs, and the waiting ones in their order."""

    def __init__(self, pool: Pool) -> None:
        super().__init__()
        self.pool = pool
        self.running: dict[int, ActiveJob] = {}
        self.waiting: list[Ranked] = []
        self.odd = 0  # jobs that fewer GPUs may be useless for, or better
        self.most_gpus = 0  # that any job has asked for

    def submit(self, job: ActiveJob) -> None:
        """Let a job wait, or run on if it does."""
        super().submit(job)
        self.odd += self._is_odd(job)
        self.most_gpus = max(self.most_gpus, job.demand)
        if job.gpus:
            self.running[job.index] = job
        else:
            insort(self.waiting, _ranked(job, job.since_s))

    def end(self, job: ActiveJob) -> None:
        """Forget a job."""
        super().end(job)
        self.odd -= self._is_odd(job)
        if self.running.pop(job.index, None) is None:
            self._withdraw(job)

    def holders(self) -> Iterable[ActiveJob]:
        """Return the running jobs."""
        return self.running.values()

    def changes(self, now_s: float) -> list[tuple[ActiveJob, float]]:
        """Serve running and waiting jobs in their common order."""
        waiting = self.waiting
        running = sorted([_ranked(job, now_s) for job in self.running.values()])
        changes: list[tuple[ActiveJob, float]] = []
        left = float(self.pool.gpus)
        started: list[int] = []  # places in `waiting`
        at = 0
        for ranked in running:
            while left and at < len(waiting) and waiting[at] < ranked:
                left -= self._start(at, left, started, changes)
                at += 1
            job = ranked[2]
            gpus = min(left, float(job.demand))
            if self.pool.whole and gpus < job.min_gpus:
                gpus = 0.0
            left -= gpus
            if gpus != job.gpus:
                changes.append((job, gpus))
        while left and at < len(waiting):
            left -= self._start(at, left, started, changes)
            at += 1
        for place in reversed(started):
            del waiting[place]
        for job, gpus in changes:
            if gpus:
                self.running[job.index] = job
            else:
                del self.running[job.index]
                insort(waiting, _ranked(job, now_s))
        return changes

    def _start(
        self, at: int, left: float, started: list[int], changes: list[tuple[ActiveJob, float]]
    ) -> float:
        job = self.waiting[at][2]
        gpus = min(left, float(job.demand))
        if self.pool.whole and gpus < job.min_gpus:
            return 0.0
        started.append(at)
        changes.append((job, gpus))
        return gpus

    def _withdraw(self, job: ActiveJob) -> None:
        at = bisect_left(self.waiting, _ranked(job, job.since_s))
        del self.waiting[at]

    def _is_odd(self, job: ActiveJob) -> bool:
        return (self.pool.whole and job.min_gpus > 1) or not job.speed_up.rising

    def predict_end_s(self, job: ActiveJob, now_s: float) -> float | None:
        """Play the jobs ahead of this one, and those behind only if they could get past it."""
        return None if self.odd else SrsfDrain(self, now_s).end_s(job)


class SrsfDrain:
    """A pool without further arrivals.

    Whenever a job ends, the one that has too few GPUs gets more, then waiting jobs start. Places matter only
    if that is not enough for the former: it may have got past one that has all of its GPUs.
    """

    def __init__(self, ranks: Ranks, now_s: float) -> None:
        self.gpus = ranks.pool.gpus
        self.now_s = now_s
        self.waiting = ranks.waiting
        self.next = 0  # in `waiting`
        self.most_gpus = ranks.most_gpus
        self.preempted: list[_Runner] = []  # ahead of the waiting, in their order
        self.served: list[
            tuple[float, int, _Runner]
        ] = []  # a heap of ends: those that have all of their GPUs
        self.starved: _Runner | None = None  # the one that has fewer
        self.starved_end_s = inf
        self.watched: int | None = None  # the job that may be safe once it has all of its GPUs
        self.fed: tuple[float, _Runner] | None = None  # and when that is so
        for job in ranks.running.values():
            if job.gpus == job.demand:
                self.served.append((job.end_at_s, job.index, _Runner(job)))
            else:
                self.starved, self.starved_end_s = _Runner(job), job.end_at_s
        heapify(self.served)

    def end_s(self, job: ActiveJob) -> float:
        """Return when a job ends."""
        if job.gpus == job.demand and self._is_safe(_Runner(job), job.end_at_s):
            return job.end_at_s
        self.watched = job.index if job.gpus != job.demand else None
        while True:
            served, starved = self.served, self.starved
            if starved is not None and (
                not served or (self.starved_end_s, starved.index) < (served[0][0], served[0][1])
            ):
                ended = starved
                self.now_s = self.starved_end_s
                self.starved = starved = None
            else:
                self.now_s, _, ended = heappop(served)
            if ended.index == job.index:
                return self.now_s
            freed = ended.gpus
            if starved is not None:
                freed = self._feed(starved, freed)
            while freed and self.starved is None:
                runner = self._next()
                if runner is None:
                    break
                freed -= self._hold(runner, min(freed, float(runner.demand)))
            if self.fed is not None:
                end_s, runner = self.fed
                if self._is_safe(runner, end_s):
                    return end_s
                self.fed = self.watched = None

    def _hold(self, runner: "_Runner", gpus: float) -> float:
        end_s = runner.hold(gpus, self.now_s)
        if gpus == runner.demand:
            heappush(self.served, (end_s, runner.index, runner))
            if runner.index == self.watched:
                self.fed = (end_s, runner)
        elif gpus:
            self.starved, self.starved_end_s = runner, end_s
        return gpus

    def _feed(self, starved: "_Runner", freed: float) -> float:
        """Give the starved job more; returns what is left."""
        now = self.now_s
        wanted = starved.demand - starved.gpus
        if freed >= wanted:
            self.starved = None
            self._hold(starved, float(starved.demand))
            return freed - wanted
        if not self.served or starved.rank(now) > max([entry[2].rank(now) for entry in self.served]):
            self._hold(starved, starved.gpus + freed)
        else:
            self._rank_anew(starved)
        return 0.0

    def _rank_anew(self, starved: "_Runner") -> None:
        """Serve all running jobs by their places."""
        now = self.now_s
        entries = [*self.served, (self.starved_end_s, starved.index, starved)]
        entries.sort(key=lambda entry: entry[2].rank(now))
        self.served = []
        self.starved = None
        left = float(self.gpus)
        preempted = []
        for entry in entries:
            runner = entry[2]
            gpus = min(left, float(runner.demand))
            left -= gpus
            if gpus != runner.gpus:
                self._hold(runner, gpus)
                if not gpus:
                    preempted.append(runner)
            elif gpus == runner.demand:
                self.served.append(entry)
            else:
                self.starved, self.starved_end_s = runner, entry[0]
        heapify(self.served)
        self.preempted[:0] = preempted

    def _next(self) -> "_Runner | None":
        if self.preempted:
            return self.preempted.pop(0)
        if self.next == len(self.waiting):
            return None
        self.next += 1
        return _Runner(self.waiting[self.next - 1][2])

    def _is_safe(self, runner: "_Runner", end_s: float) -> bool:
        """Tell whether no job behind one that has all of its GPUs could end, and so get past it, before it.

        Those ahead of it leave it its GPUs, whatever they do.
        """
        now = self.now_s
        needs_s = end_s - now + MARGIN_S
        place = runner.rank(now)
        for other_end_s, _, other in self.served:
            if other_end_s < end_s + MARGIN_S and other.rank(now) > place:
                return False
        behind = self.preempted if self.starved is None else [*self.preempted, self.starved]
        for other in behind:
            key, index = other.rank(now)
            if key < other.demand * needs_s and (key, index) > place:
                return False
        horizon = self.most_gpus * needs_s
        waiting = self.waiting
        for at in range(self.next, len(waiting)):
            key, _, job = waiting[at]
            if key >= horizon:
                break
            if key < job.demand * needs_s:
                return False
        return True


class _Runner:
    """A job in a pool without further arrivals."""

    __slots__ = ("demand", "gpus", "index", "rate", "remaining_s", "since_s", "speed_up")

    def __init__(self, job: ActiveJob) -> None:
        self.index = job.index
        self.demand = job.demand
        self.speed_up = job.speed_up.at
        self.gpus = job.gpus
        self.rate = job.rate
        self.remaining_s = job.remaining_s
        self.since_s = job.since_s

    def rank(self, now_s: float) -> tuple[float, int]:
        remaining_s = self.remaining_s - self.rate * (now_s - self.since_s)
        return self.demand * max(0.0, remaining_s) / self.speed_up(self.demand), self.index

    def hold(self, gpus: float, now_s: float) -> float:
        """Hold so many GPUs; returns when it ends."""
        self.remaining_s = max(0.0, self.remaining_s - self.rate * (now_s - self.since_s))
        self.since_s = now_s
        self.gpus = gpus
        self.rate = rate = self.speed_up(gpus)
        return to_microsecond(now_s + self.remaining_s / rate) if rate else inf


def _ranked(job: ActiveJob, now_s: float) -> Ranked:
    return remaining_gpu_s(job, now_s), job.index, job
