"""Leases of Themis over columns: what `ThemisRule.allocate` says of each job, of all at once.

The arithmetic is that of `ActiveJob`, operation by operation, so that both agree to the last bit.
"""

from collections.abc import Sequence
from math import inf

import numpy as np
from numpy.typing import NDArray

from parts.elastic.active_job import ActiveJob
from simulator.workload.speed_up import SpeedUp

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]

FIELDS = 11
SUBMIT, SERVICE, DEMAND, EVENTS, JOBS, REMAINING, SINCE, RATE, GPUS, END, CURVE = range(FIELDS)


class LeaseTable:
    """One row a job, in the order of submission; times in s, work in s on one GPU."""

    def __init__(self, pool_gpus: int, capacity: int = 64) -> None:
        self.pool_gpus = pool_gpus
        self.count = 0
        self.columns: Floats = np.zeros((FIELDS, capacity))
        self.curves: dict[SpeedUp, int] = {}
        self.rates: Floats = np.zeros((0, pool_gpus + 1))  # by curve and GPUs

    def copy(self) -> "LeaseTable":
        """Return a copy, to play forward; nothing is added to it."""
        other = LeaseTable.__new__(LeaseTable)
        other.pool_gpus = self.pool_gpus
        other.count = self.count
        other.columns = self.columns[:, : self.count].copy()
        other.curves = self.curves
        other.rates = self.rates
        return other

    def add(self, job: ActiveJob) -> None:
        """Add a job after all others."""
        if self.count == self.columns.shape[1]:
            self.columns = np.concatenate([self.columns, np.zeros_like(self.columns)], axis=1)
        curve = self.curves.get(job.speed_up)
        if curve is None:
            curve = self.curves[job.speed_up] = len(self.curves)
            rates = [job.speed_up.at(gpus) for gpus in range(self.pool_gpus + 1)]
            self.rates = np.concatenate([self.rates, [rates]])
        events, jobs = job.count_before
        self.columns[:, self.count] = (
            job.submit_time_s,
            job.service_s,
            job.demand,
            events,
            jobs,
            job.remaining_s,
            job.since_s,
            job.rate,
            job.gpus,
            job.end_at_s,
            curve,
        )
        self.count += 1

    def remove(self, at: int) -> int:
        """Take a row out; returns the job's demand."""
        columns = self.columns
        demand = int(columns[DEMAND, at])
        last = self.count = self.count - 1
        columns[:, at:last] = columns[:, at + 1 : last + 1]
        return demand

    def next_end(self) -> tuple[int, float]:
        """Return the row that ends next, the first one of equals, and when."""
        ends = self.columns[END, : self.count]
        at = int(ends.argmin())
        return at, float(ends[at])

    def end_s(self, at: int) -> float:
        """Return when a row's job ends."""
        return float(self.columns[END, at])

    def lease(self, now_s: float, events: int, jobs: int) -> tuple[list[int], list[float]]:
        """Give out leases, `jobs` having been counted at so many `events`; returns what changes, to what."""
        columns = self.columns[:, : self.count]
        demand = columns[DEMAND]
        mean_jobs = (jobs - columns[JOBS]) / (events - columns[EVENTS])
        fair_s = columns[SERVICE] / np.minimum(self.pool_gpus / mean_jobs, demand)
        elapsed_s = now_s - columns[SUBMIT]
        remaining_s = columns[REMAINING] - columns[RATE] * (now_s - columns[SINCE])
        given = grant(elapsed_s, remaining_s, fair_s, demand, self.pool_gpus)
        rows = (given != columns[GPUS]).nonzero()[0]
        gpus = given[rows]
        self.hold(rows, gpus, now_s)
        return rows.tolist(), gpus.tolist()

    def hold(self, rows: Rows | Sequence[int], gpus: Floats | Sequence[float], now_s: float) -> None:
        """Let jobs hold so many GPUs from now on, as `ActiveJob.hold` does."""
        if not len(rows):
            return
        held = np.asarray(gpus, dtype=np.float64)
        part = self.columns[:, rows]
        remaining_s = np.maximum(0.0, part[REMAINING] - part[RATE] * (now_s - part[SINCE]))
        rate = self.rates[part[CURVE].astype(np.intp), np.minimum(held, part[DEMAND]).astype(np.intp)]
        runs = rate > 0
        ends = np.floor((now_s + remaining_s / np.where(runs, rate, 1.0)) * 1e6 + 0.5) / 1e6
        part[REMAINING] = remaining_s
        part[SINCE] = now_s
        part[RATE] = rate
        part[GPUS] = held
        part[END] = np.where(runs, ends, np.where(remaining_s > 0, inf, now_s))
        self.columns[:, rows] = part


def grant(elapsed_s: Floats, remaining_s: Floats, fair_s: Floats, demand: Floats, pool_gpus: int) -> Floats:
    """Return the GPUs of each job: the one with the largest rho is served first, time after time.

    A job's rho counts on all that it can use, or on all that is left if that is less. So the order of rho
    stands until less is left than some job can use.
    """
    given = np.zeros(len(demand))
    most = min(float(demand.max()), pool_gpus)
    rho = (elapsed_s + remaining_s / np.minimum(demand, pool_gpus)) / fair_s
    order = (-rho).argsort(kind="stable")
    held = demand[order].cumsum()
    sure = int(held.searchsorted(pool_gpus - most, side="right")) + 1
    top = order[:sure]
    given[top] = np.minimum(demand[top], pool_gpus)
    left = pool_gpus - int(given[top].sum())
    if left and sure < len(order):
        # From here on jobs of one GPU keep their places, and those of more may move up.
        rest = order[sure:]
        small = rest[demand[rest] == 1][:left]
        large = np.sort(rest[demand[rest] > 1])
        _share_rest(
            given,
            left,
            list(zip(rho[small].tolist(), small.tolist(), strict=True)),
            large,
            elapsed_s[large],
            remaining_s[large],
            fair_s[large],
            demand[large],
        )
    return given


def _share_rest(
    given: Floats,
    left: int,
    small: list[tuple[float, int]],  # rho and row of jobs of one GPU, the first served first
    large: Rows,
    elapsed_s: Floats,
    remaining_s: Floats,
    fair_s: Floats,
    demand: Floats,
) -> None:
    """Hand out the last GPUs, between jobs of one GPU and larger ones, by what rho is on what is left."""
    at_most = np.arange(left, 0, -1.0)  # by line: the GPUs that are left
    if len(large):
        rho = (elapsed_s + remaining_s / np.minimum(demand, at_most[:, None])) / fair_s
        first = rho.argmax(axis=1)
        worst = rho[np.arange(left), first]
    else:
        worst = np.full(left, -inf)
    line = turn = 0
    while line < left:
        mine, row = small[turn] if turn < len(small) else (-inf, len(given))
        theirs = worst[line]
        if theirs == -inf and mine == -inf:
            return
        if mine > theirs or (mine == theirs and row < large[first[line]]):
            given[row] = 1.0
            line += 1
            turn += 1
            continue
        column = first[line]
        gpus = min(float(demand[column]), float(left - line))
        given[large[column]] = gpus
        line += int(gpus)
        rho[:, column] = -inf
        first[line:] = rho[line:].argmax(axis=1)
        worst[line:] = rho[np.arange(line, left), first[line:]]
