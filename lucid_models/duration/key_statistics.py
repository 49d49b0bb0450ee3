"""The run-time statistics of one key (a user, a size, a user x name, ...), updated when its jobs start and
end.
"""

import math
from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucid_models.duration.levels import FeatureLayout
from lucid_models.model_format import MAX_ITEMS, Fields

# Times that are not known yet, on disk (JSON has no NaN).
NEVER_S = -1e15
# So many of a key's last run times are kept; their median is deaf to a crash or a hang among them.
RECENT = 5
_MOST = 1e15
# Column -> the range that a saved value may lie in.
_COLUMNS = {
    "count": (0.0, 1e12),
    "weight": (0.0, 1e12),
    "log_sum": (0.0, _MOST),
    "square_sum": (0.0, _MOST),
    "raw_sum": (0.0, 1e18),
    "soft_mean": (0.0, 50.0),
    "time_s": (-_MOST, _MOST),
    "submit_s": (-_MOST, _MOST),
    "earlier_submit_s": (-_MOST, _MOST),
}
# Places in a key's numbers: the columns that are saved, the running jobs and when the oldest of them started
# (NaN: none runs), the last run times (logarithms, the newest at the end; NaN before there were so many).
COUNT, WEIGHT, LOG_SUM, SQUARE_SUM, RAW_SUM, SOFT_MEAN, TIME, SUBMIT, EARLIER_SUBMIT = range(len(_COLUMNS))
RUNNING, OLDEST_START, FIRST_RECENT = range(len(_COLUMNS), len(_COLUMNS) + 3)
NUMBERS = FIRST_RECENT + RECENT
_NEW_KEY = array("d", [0.0] * TIME + [NEVER_S] * 3 + [0.0, math.nan] + [math.nan] * RECENT)
# The sums that fade with time.
SUMS = (WEIGHT, LOG_SUM, RAW_SUM)
# Below this weight a key's own history has faded; it keeps the division defined.
_LEAST_WEIGHT = 1e-12
# Saved statistics of a key with an ended job weigh at least this.
_LEAST_ENDED = 0.5
Floats = NDArray[np.float64]
Rows = NDArray[np.intp]
# What is known of a key of which nothing is.
NOTHING_KNOWN = _NEW_KEY.tobytes()


class KeyStatistics:
    """Time-decayed sums as of a moment, the last run times, the last submissions, the running jobs.

    The `numbers` lie side by side, so that those of many keys are columns at once.
    """

    __slots__ = ("_running", "numbers", "submit_id")

    def __init__(self) -> None:
        self.numbers = _NEW_KEY[:]
        self.submit_id = ""
        self._running: dict[str, float] = {}  # job -> start (s), in the order in which starts were reported

    @property
    def count(self) -> int:
        """How many jobs ended."""
        return int(self.numbers[COUNT])

    def submitted(self, job_id: str, time_s: float) -> None:
        """A job of this key was submitted."""
        if job_id != self.submit_id:
            numbers = self.numbers
            numbers[EARLIER_SUBMIT], numbers[SUBMIT] = numbers[SUBMIT], time_s
            self.submit_id = job_id

    def started(self, job_id: str, time_s: float) -> None:
        """A job of this key started; one that starts again is the youngest."""
        self._running.pop(job_id, None)
        self._running[job_id] = time_s
        self._note_running()

    def stopped(self, job_id: str) -> None:
        """A job runs no longer, if it did."""
        if self._running.pop(job_id, None) is not None:
            self._note_running()

    def ended(
        self,
        job_id: str,
        time_s: float,
        duration_s: float,
        logarithm: float,
        half_life_s: float,
        soft_weight: float,
    ) -> None:
        """A job of this key ended: decay what is known to `time_s` and add its run time."""
        numbers = self.numbers
        if numbers[COUNT]:
            elapsed = time_s - numbers[TIME]
            decay = math.exp2(-elapsed / half_life_s) if elapsed > 0 else 1.0
            numbers[WEIGHT] = numbers[WEIGHT] * decay + 1.0
            numbers[LOG_SUM] = numbers[LOG_SUM] * decay + logarithm
            numbers[SQUARE_SUM] = numbers[SQUARE_SUM] * decay + logarithm * logarithm
            numbers[RAW_SUM] = numbers[RAW_SUM] * decay + duration_s
            numbers[SOFT_MEAN] += soft_weight * (logarithm - numbers[SOFT_MEAN])
            if elapsed > 0:
                numbers[TIME] = time_s
        else:
            numbers[WEIGHT], numbers[LOG_SUM], numbers[SQUARE_SUM] = 1.0, logarithm, logarithm * logarithm
            numbers[RAW_SUM] = duration_s
            numbers[SOFT_MEAN] = logarithm
            numbers[TIME] = max(NEVER_S, time_s)
        numbers[COUNT] += 1.0
        del numbers[FIRST_RECENT]
        numbers.append(logarithm)
        if self._running:
            self.stopped(job_id)

    def latest_s(self) -> float:
        """When the key was last heard of."""
        return max(self.numbers[TIME], self.numbers[SUBMIT])

    def is_running(self) -> bool:
        """Whether a job of this key runs."""
        return bool(self._running)

    def copy(self) -> "KeyStatistics":
        """An independent copy."""
        twin = KeyStatistics()
        twin.numbers = self.numbers[:]
        twin.submit_id = self.submit_id
        twin._running = dict(self._running)
        return twin

    def _note_running(self) -> None:
        # Starts are observed in the order of time, so the first is the oldest.
        self.numbers[RUNNING] = len(self._running)
        self.numbers[OLDEST_START] = next(iter(self._running.values()), math.nan)


LevelTable = dict[str, KeyStatistics]


def forget_oldest(table: LevelTable, most: int) -> list[str]:
    """Drop the least recently updated keys beyond `most`, and return them; a key with running jobs stays."""
    if len(table) <= most:
        return []
    ranked = sorted(table, key=lambda key: (not table[key].is_running(), -table[key].latest_s(), key))
    dropped = [key for key in ranked[most:] if not table[key].is_running()]
    for key in dropped:
        del table[key]
    return dropped


def numbers_of(statistics: Iterable[KeyStatistics | None]) -> NDArray[np.float64]:
    """The numbers of keys in columns, shape (NUMBERS, keys); None: a key of which nothing is known."""
    rows = b"".join([NOTHING_KNOWN if one is None else one.numbers for one in statistics])
    columns: NDArray[np.float64] = np.frombuffer(rows).reshape(-1, NUMBERS).T
    return columns


def write_level(table: LevelTable) -> dict[str, Any]:
    """A level's table as columns, in the order of keys."""
    keys = sorted(table)
    numbers = numbers_of(table[key] for key in keys)
    recent = numbers[FIRST_RECENT:].T
    columns = {name: numbers[place].tolist() for place, name in enumerate(_COLUMNS)}
    return {
        "keys": keys,
        "submit_id": [table[key].submit_id for key in keys],
        "recent": recent[~np.isnan(recent)].tolist(),
        **columns,
        "count": numbers[COUNT].astype(np.int64).tolist(),
    }


def read_level(fields: Fields, most: int) -> LevelTable:
    """Read what `write_level` wrote; raises CorruptModelError."""
    keys = fields.texts("keys", unique=True)
    submit_ids = fields.texts("submit_id")
    columns = {name: fields.numbers(name, *bounds) for name, bounds in _COLUMNS.items()}
    for name, size in (("submit_id", len(submit_ids)), *((name, len(columns[name])) for name in _COLUMNS)):
        if size != len(keys):
            raise fields.fail(name, f"has {size} entries for {len(keys)} keys")
    columns["count"] = np.floor(columns["count"])
    contradicted = (columns["count"] > 0) & ~(columns["weight"] >= 0.5)
    if contradicted.any():
        key = keys[int(contradicted.argmax())]
        raise fields.fail("count", f"and weight of the key {key!r} contradict each other")
    kept = np.minimum(columns["count"], RECENT).astype(np.intp)
    recent = fields.numbers("recent", 0.0, 50.0, most=RECENT * MAX_ITEMS)
    if len(recent) != kept.sum():
        raise fields.fail("recent", f"has {len(recent)} entries, the counts ask for {kept.sum()}")
    numbers = np.tile(np.array(_NEW_KEY), (len(keys), 1))
    numbers[:, : len(_COLUMNS)] = np.stack(list(columns.values()), axis=1)
    # The newest at the end: a key with fewer run times has none before them.
    numbers[:, FIRST_RECENT:][np.arange(RECENT) >= RECENT - kept[:, None]] = recent
    table: LevelTable = {}
    for key, submit_id, row in zip(keys, submit_ids, numbers, strict=True):
        statistics = table[key] = KeyStatistics()
        statistics.numbers = array("d", row.tobytes())
        statistics.submit_id = submit_id
    return table


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
    # E[x^2] - E[x]^2 of logarithms of seconds: they lie within 0 and 20, so that what cancels leaves ten
    # digits of a variance.
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
    # A key's mean as if `prior_jobs` jobs of the level above had run at that level's mean (empirical Bayes,
    # as in James and Stein, 1961): a key of two jobs says little, one of two hundred stands for itself.
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
    """What is known of the keys of jobs at a moment of each job: the one form in which features are computed.

    A job reads the rows of its keys, one a level. What is the same for all jobs of a key is worked out once a
    key, the rest once a job and level.

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
