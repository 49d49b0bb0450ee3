"""AFS-L at work: what its tournaments lead to kept up to date, and predicted.

While there are at least as many jobs as GPUs, the shortest ones have one GPU each. Waiting jobs keep their
length and running ones shrink, so that no waiting job but one that has just come ever gets ahead of a running
one. With fewer jobs than GPUs each has one, and only those that can use more contest the others.
"""

from bisect import bisect_left, insort

from experiments.pools.afs_drain import AfsDrain, start_and_contest
from parts.elastic.active_job import ActiveJob
from parts.elastic.allocation import AllocationRule, PlainAllocator, Pool
from parts.elastic.rules.afs_tournament import Player, start_speed

Changes = list[tuple[ActiveJob, float]]
Ranked = tuple[float, int, ActiveJob]  # the fastest first, then the last submitted: no two are equal


class AfsShares(PlainAllocator):
    """Waiting jobs in the order in which they get their first GPU."""

    def __init__(self, rule: AllocationRule, pool: Pool) -> None:
        super().__init__(rule, pool)
        self.running: dict[int, ActiveJob] = {}
        self.waiting: list[Ranked] = []
        self.demand = 0  # of all jobs (GPUs)
        self.odd = 0  # jobs that need real tournaments
        self.unsettled = False  # whether a waiting job could be ahead of a running one

    def submit(self, job: ActiveJob) -> None:
        """Let a job wait, or run on if it does."""
        super().submit(job)
        self.demand += job.demand
        self.odd += self._is_odd(job)
        self.unsettled = True
        if job.gpus:
            self.running[job.index] = job
        else:
            insort(self.waiting, _ranked(job, job.since_s))

    def end(self, job: ActiveJob) -> None:
        """Forget a job."""
        super().end(job)
        self.demand -= job.demand
        self.odd -= self._is_odd(job)
        if self.running.pop(job.index, None) is None:
            del self.waiting[bisect_left(self.waiting, _ranked(job, job.since_s))]

    def changes(self, now_s: float) -> Changes:
        """Ask for no more than what has changed can change."""
        gpus = self.pool.gpus
        if self.odd:
            changes = super().changes(now_s)
            self.unsettled = True
        elif self.demand <= gpus:
            jobs = self.active.values()
            changes = [(job, float(job.demand)) for job in jobs if job.gpus != job.demand]
        elif len(self.active) >= gpus:
            changes = self._one_each(now_s)
        else:
            changes = self._contested(now_s)
        for job, share in changes:
            if not share:
                del self.running[job.index]
                insort(self.waiting, _ranked(job, now_s))
            elif not job.gpus:
                self.running[job.index] = job
                del self.waiting[bisect_left(self.waiting, _ranked(job, now_s))]
        return changes

    def _one_each(self, now_s: float) -> Changes:
        """Give the shortest jobs one GPU each."""
        waiting = self.waiting
        at = self.pool.gpus - len(self.running)
        changes = [(ranked[2], 1.0) for ranked in waiting[:at]]
        lost: set[int] = set()
        if self.unsettled and at < len(waiting):
            for ranked in sorted([_ranked(job, now_s) for job in self.running.values()], reverse=True):
                if at == len(waiting) or ranked < waiting[at]:
                    break
                changes += [(ranked[2], 0.0), (waiting[at][2], 1.0)]
                lost.add(ranked[1])
                at += 1
        self.unsettled = False
        for job in self.running.values():
            if job.gpus != 1.0 and -job.index not in lost:
                changes.append((job, 1.0))
        return changes

    def _contested(self, now_s: float) -> Changes:
        """Let each job have one GPU, and hold tournaments for the others."""
        jobs = list(self.active.values())
        players = [
            Player(at, job.demand, job.speed_up, max(0.0, job.remaining_at(now_s)))
            for at, job in enumerate(jobs)
            if job.demand > 1
        ]
        given = [1.0] * len(jobs)
        start_and_contest(players, self.pool.gpus - len(jobs))
        for player in players:
            given[player.at] = float(player.gpus)
        return [(job, gpus) for job, gpus in zip(jobs, given, strict=True) if job.gpus != gpus]

    def next_change_s(self, now_s: float) -> None:
        """Nothing changes by itself."""

    def predict_end_s(self, job: ActiveJob, now_s: float) -> float | None:
        """Start waiting jobs as others end; contest GPUs once there are fewer jobs than GPUs."""
        if self.odd:
            return None
        if job.gpus and (job.demand == 1 or self.demand <= self.pool.gpus):
            return job.end_at_s
        drain = AfsDrain(self.pool.gpus, self.running.values(), len(self.active), self.demand)
        end_s = drain.start_waiting(job, [ranked[2] for ranked in self.waiting])
        return drain.contest_until(job.index) if end_s is None else end_s

    def _is_odd(self, job: ActiveJob) -> bool:
        return job.speed_up.steep or (self.pool.whole and job.min_gpus > 1)


def _ranked(job: ActiveJob, now_s: float) -> Ranked:
    return -start_speed(max(0.0, job.remaining_at(now_s)), job.speed_up), -job.index, job
