"""Statistics of the keys of many jobs worked out as columns: the one form in which features are computed.

What is known of a key stands in one row of numbers (`key_statistics`); a job reads the rows of its keys, one
a level. What is the same for all jobs of a key is worked out once a key, the rest once a job and level.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lucid_models.duration.key_statistics import (
    COUNT,
    EARLIER_SUBMIT,
    FIRST_RECENT,
    LOG_SUM,
    NEVER_S,
    OLDEST_START,
    RAW_SUM,
    RECENT,
    RUNNING,
    SOFT_MEAN,
    SQUARE_SUM,
    SUBMIT,
    TIME,
    WEIGHT,
)
from lucid_models.duration.levels import FeatureLayout

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]

# The sums that fade with time.
SUMS = (WEIGHT, LOG_SUM, RAW_SUM)
# Below this weight a key's own history has faded; it keeps the division defined.
_LEAST_WEIGHT = 1e-12
# Saved statistics of a key whose job ended weigh at least this.
_LEAST_ENDED = 0.5


def exactly(function: Callable[[float], float], values: Floats) -> Floats:
    """A function of `math`, value by value: NumPy's own may differ in the last bit, by processor."""
    results = np.fromiter(map(function, values.ravel().tolist()), np.float64, values.size)
    return results.reshape(values.shape)


def exactly_where(known: NDArray[np.bool_], function: Callable[[float], float], values: Floats) -> Floats:
    """`exactly` of the values that are known; NaN for the others."""
    if known.all():
        return exactly(function, values)
    results = np.full(values.shape, np.nan)
    results[known] = exactly(function, values[known])
    return results


def log_counts(counts: Floats) -> Floats:
    """log(1 + each count)."""
    logs = np.zeros(counts.shape)
    some = counts > 0
    logs[some] = exactly(math.log1p, counts[some])
    return logs


def last_runs(numbers: Floats) -> Floats:
    """What the last run times of keys say, shape (6, keys).

    The fast moving mean, the last run time, the mean of the last two, the median of the last RECENT, the
    standard deviation (logarithms all; NaN where no job ended, and a deviation of one), and log(1 + jobs).
    """
    count, recent = numbers[COUNT], numbers[FIRST_RECENT:]
    columns = np.empty((6, count.size))
    soft_mean, last, last_two, median, spread, log_count = columns
    soft_mean[:] = numbers[SOFT_MEAN]
    soft_mean[count == 0] = np.nan
    last[:] = recent[-1]
    single = count < 2
    last_two[:] = 0.5 * (np.where(single, last, recent[-2]) + last)
    ordered = np.sort(recent, axis=0)  # missing ones come last
    kept = np.minimum(np.maximum(count, 1), RECENT).astype(np.intp)
    keys = np.arange(count.size)
    median[:] = 0.5 * (ordered[(kept - 1) // 2, keys] + ordered[kept // 2, keys])
    # The bound is for keys without any ended job.
    mean, mean_square = numbers[LOG_SUM : SQUARE_SUM + 1] / np.maximum(numbers[WEIGHT], _LEAST_ENDED)
    spread[:] = np.sqrt(np.maximum(mean_square - mean * mean, 0.0))
    spread[single] = np.nan
    log_count[:] = log_counts(count)
    return columns


def shrink(sums: Floats, above: Floats | None, nothing: NDArray[np.bool_], prior_jobs: float) -> Floats:
    """Means of log run time and of run time, shape (2, ...), in the place of decayed `sums` of weight, log
    run time and run time, shape (3, ...).

    They lean on the means `above` (None: no level is), which stand in where `nothing` is known. A key's job
    is a job of every level above: these know something where it does.
    """
    means = sums[1:]
    if above is None:
        means /= np.maximum(sums[0], _LEAST_WEIGHT)
        means[:, nothing] = np.nan
        return means
    means += prior_jobs * above
    means /= np.maximum(sums[0] + prior_jobs, _LEAST_WEIGHT)
    np.copyto(means, above, where=nothing)
    return means


def naive_estimates(means: Floats, soft_means: Floats) -> Floats:
    """The naive estimate: half the decayed mean of log run time, half the fast moving one, of the same key or
    of the closest above it that is known.
    """
    return 0.5 * (means + soft_means)


@dataclass(frozen=True)
class KeyColumns:
    """What is known of the keys of jobs at a moment of each job.

    `numbers` (NUMBERS, keys); `rows` (levels, jobs) are the keys of a job in it; `is_newest` (flight levels,
    jobs) tells where the job itself is the last one submitted of its key; `time_s` (jobs,).
    """

    layout: FeatureLayout
    numbers: Floats
    rows: Rows
    is_newest: NDArray[np.bool_]
    time_s: Floats
    half_life_s: float
    prior_jobs: float

    def statistics(self) -> Floats:
        """The features of all levels, shape (features, jobs)."""
        layout = self.layout
        result = np.empty((len(layout.names), self.time_s.size))
        means, soft_means = self._means(), self._soft_means()
        result[layout.means] = means
        result[layout.soft_means] = soft_means
        if layout.with_naive.size:
            closest = self._closest_soft_means(soft_means)[layout.with_naive]
            result[layout.naive] = naive_estimates(means[0, layout.with_naive], closest)
        fine = self.rows[layout.fine]
        first = fine.min() if fine.size else 0  # the fine levels are the last ones
        result[layout.last_runs] = last_runs(self.numbers[:, first:])[1:].take(fine - first, axis=1)
        result[layout.in_flight] = self._in_flight()
        return result

    @cached_property
    def decay(self) -> Floats:
        """By how much what each key knew has faded, shape (levels, jobs); 0 where no job ended."""
        has_ended = self.ended
        elapsed = np.minimum(self.numbers[TIME].take(self.rows) - self.time_s, 0.0) / self.half_life_s
        weights = np.zeros(has_ended.shape)
        weights[has_ended] = exactly(math.exp2, elapsed[has_ended])
        return weights

    @cached_property
    def ended(self) -> NDArray[np.bool_]:
        """Whether a job of the key ended, shape (levels, jobs)."""
        counts: Floats = self.numbers[COUNT].take(self.rows)
        return counts > 0

    def _means(self) -> Floats:
        """Shrunk means of log run time and of run time (its logarithm), shape (2, levels, jobs)."""
        nothing = ~self.ended
        sums = self.numbers[list(SUMS)].take(self.rows, axis=1) * self.decay
        means = np.empty((2, *nothing.shape))
        for levels, parents in self.layout.depths:
            above = means[:, parents] if parents.size else None
            means[:, levels] = shrink(sums[:, levels], above, nothing[levels], self.prior_jobs)
        means[1] = exactly_where(means[1] > 0, math.log, means[1])
        return means

    def _soft_means(self) -> Floats:
        means: Floats = np.where(self.numbers[COUNT] > 0, self.numbers[SOFT_MEAN], np.nan).take(self.rows)
        return means

    def _closest_soft_means(self, soft_means: Floats) -> Floats:
        """Soft means, of a key without ended jobs that of the level above."""
        closest = soft_means.copy()
        for levels, parents in self.layout.depths:
            if parents.size:
                own = closest[levels]
                closest[levels] = np.where(np.isnan(own), closest[parents], own)
        return closest

    def _in_flight(self) -> Floats:
        """log(1 + running jobs), log(1 + age of the oldest) and log(1 + time since another job's submission),
        shape (3, flight levels, jobs).
        """
        rows = self.rows[self.layout.flights]
        running = log_counts(self.numbers[RUNNING]).take(rows)
        oldest_s = self.numbers[OLDEST_START].take(rows)
        since_s = np.where(
            self.is_newest, self.numbers[EARLIER_SUBMIT].take(rows), self.numbers[SUBMIT].take(rows)
        )
        ages = [
            exactly_where(is_set, math.log1p, np.maximum(self.time_s - moment, 0.0))
            for moment, is_set in ((oldest_s, ~np.isnan(oldest_s)), (since_s, since_s > NEVER_S))
        ]
        return np.stack([running, *ages])
