"""Themis at work: the jobs of a pool as rows of a table, in the order of submission."""

from bisect import bisect_left

from experiments.pools.themis_table import LeaseTable
from parts.elastic.active_job import ActiveJob, to_microsecond
from parts.elastic.allocation import AllocationRule, PlainAllocator, Pool


class Leases(PlainAllocator):
    """Keeps the table, and plays a copy of it forward."""

    def __init__(self, rule: AllocationRule, pool: Pool, lease_s: float) -> None:
        super().__init__(rule, pool)
        self.lease_s = lease_s
        self.table = LeaseTable(pool.gpus)
        self.rows: list[int] = []  # the index of each row's job
        self.demand = 0  # of all jobs (GPUs)
        self.come: list[ActiveJob] = []  # since the last answer; what they count is settled by the next
        self.odd = 0  # jobs that the table has no rules for

    def submit(self, job: ActiveJob) -> None:
        """Add a row."""
        super().submit(job)
        self.demand += job.demand
        self.odd += self._is_odd(job)
        self.rows.append(job.index)
        self.come.append(job)

    def end(self, job: ActiveJob) -> None:
        """Take a row out."""
        super().end(job)
        self.demand -= job.demand
        self.odd -= self._is_odd(job)
        at = bisect_left(self.rows, job.index)
        del self.rows[at]
        self.table.remove(at)

    def changes(self, now_s: float) -> list[tuple[ActiveJob, float]]:
        """Give out new leases."""
        for job in self.come:
            self.table.add(job)
        self.come.clear()
        if not self.rows:
            return []
        if self.odd:
            changes = super().changes(now_s)
            at = [bisect_left(self.rows, job.index) for job, _ in changes]
            self.table.hold(at, [gpus for _, gpus in changes], now_s)
            return changes
        active_count = self.active[self.rows[0]].active_count
        rows, gpus = self.table.lease(now_s, active_count.events, active_count.jobs)
        return [(self.active[self.rows[at]], given) for at, given in zip(rows, gpus, strict=True)]

    def next_change_s(self, now_s: float) -> float | None:
        """Tell when the leases end."""
        return to_microsecond(now_s + self.lease_s) if self.rows else None

    def predict_end_s(self, job: ActiveJob, now_s: float) -> float | None:
        """Play the table forward until every job holds what it can use, or this one has ended."""
        if self.odd:
            return None
        if self.demand <= self.pool.gpus:
            return job.end_at_s
        ahead, lease_end_s = self._to_play(now_s)
        demand = self.demand
        at = bisect_left(self.rows, job.index)
        events, jobs = job.active_count.events, job.active_count.jobs
        while demand > self.pool.gpus:
            ending, now_s = ahead.next_end()
            events += 1
            jobs += ahead.count
            if now_s <= lease_end_s:
                if ending == at:
                    return now_s
                demand -= ahead.remove(ending)
                at -= ending < at
            else:
                now_s = lease_end_s
            ahead.lease(now_s, events, jobs)
            lease_end_s = to_microsecond(now_s + self.lease_s)
        return ahead.end_s(at)

    def _to_play(self, now_s: float) -> tuple[LeaseTable, float]:
        """Return a table to play forward, and when its leases end (s)."""
        return self.table.copy(), to_microsecond(now_s + self.lease_s)

    def _is_odd(self, job: ActiveJob) -> bool:
        return (self.pool.whole and job.min_gpus > 1) or not job.service_s
