"""The keys of all levels that occur in a waiting queue, and what the shape functions say of them now.

A shape function is a step function, and from one decision to the next hardly any value passes a step. So a
row keeps the edges between which its means are on the same step, and the time until which its time spans are:
only rows with a value that passed an edge, or with other statistics, are looked up anew. What comes out
is the same as if all were.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucid_models.bin_finder import bin_of
from lucid_models.duration.features import DurationFeatureState
from lucid_models.duration.key_statistics import (
    EARLIER_SUBMIT,
    NEVER_S,
    OLDEST_START,
    RUNNING,
    SUBMIT,
    SUMS,
    TIME,
    KeyStatistics,
    last_runs,
    log_counts,
    naive_estimates,
    numbers_of,
    shrink,
)
from lucid_models.duration.levels import NAIVE

Floats = NDArray[np.float64]
Positions = NDArray[np.intp]
Rows = NDArray[np.intp]

# Features that stand still between two events of a key.
STILL = ("soft_mean", "last", "last_two", "median", "spread", "log_count", "log_running")
# Features that change with time; the last is the one before it as the newest job of a key sees it, which
# looks at the submission before its own.
GAP = "log_since_submission"
MOVING = ("mean", "raw_mean", NAIVE, "log_oldest_age", GAP, f"{GAP}_of_newest")
FEATURES = (*STILL, *MOVING)
_MEANS, _SPANS = slice(len(STILL), len(STILL) + 3), slice(len(STILL) + 3, None)
_SOFT_MEAN = STILL.index("soft_mean")

_FIRST_CAPACITY = 64
# What is kept of a key's statistics: the features that stand still, and what the others are made of (the
# decayed sums and their time; the start of the oldest running job, the last two submissions).
_KEPT = np.array([*SUMS, TIME, OLDEST_START, SUBMIT, EARLIER_SUBMIT])
_SUMS = slice(len(STILL), len(STILL) + 3)
_WEIGHT, _TIME = len(STILL), len(STILL) + 3
_SINCE = slice(len(STILL) + 4, len(STILL) + 7)


@dataclass(frozen=True)
class Readings:
    """What is read off one feature: its shape functions (cuts, scores), and its cuts in pairs."""

    functions: Sequence[tuple[Floats, Floats]] = ()
    pair_cuts: Floats | None = None


class StepFunctions:
    """One step function a feature: all that an additive model reads off it, the scores of its own terms,
    added up, and its bins in pairs.

    `find` tells at which step a value is; of each step `scores` holds what the shape functions say there,
    added up, `pair_bins` the bin in pairs, and `low` and `high` the edges: a value stays on the step while it
    is neither below `low` nor as high as `high`. A missing value (NaN) stays until there is one.
    """

    def __init__(self, features: Sequence[Readings]) -> None:
        cuts, scores, low, high, bins = [], [], [], [], []
        for readings in features:
            pairs = [] if readings.pair_cuts is None else [readings.pair_cuts]
            own = np.unique(np.concatenate([*(found for found, _ in readings.functions), *pairs, ()]))
            starts = np.array([np.nan, -np.inf, *own])
            cuts.append(own)
            scores.append(
                sum((of.take(bin_of(starts, at)) for at, of in readings.functions), np.zeros(starts.size))
            )
            bins.append(np.zeros(starts.size, dtype=np.intp) if not pairs else bin_of(starts, pairs[0]))
            low.append([np.inf, -np.inf, *own])
            high.append([-np.inf, *own, np.inf])
        sizes = np.array([own.size for own in cuts], dtype=np.intp)
        self._first = np.cumsum(sizes + 2) - (sizes + 2)  # of each feature, its step of missing values
        # One sorted array for all features, so that one binary search finds values of any of them: a call of
        # searchsorted a feature would cost more than the search.
        self._cuts = _behind(np.repeat(np.arange(sizes.size), sizes), np.concatenate([*cuts, ()]))
        self.scores, self.low, self.high = (np.concatenate([*parts, ()]) for parts in (scores, low, high))
        self.pair_bins = np.concatenate([*bins, np.empty(0, dtype=np.intp)])

    def find(self, features: Positions, values: Floats) -> Positions:
        """The steps of the values, of any shape; `features` are their features' positions, likewise."""
        steps = self._cuts.searchsorted(_behind(features, values), side="right")
        steps += 2 * features + 1  # each feature has two steps more than cuts
        missing = np.isnan(values)
        steps[missing] = self._first.take(features[missing])
        return steps


def _behind(features: NDArray[Any], values: Floats) -> NDArray[np.complex128]:
    """Numbers that are ordered by feature, then by value."""
    ordered = np.empty(values.shape, dtype=np.complex128)
    ordered.real, ordered.imag = features, values  # a sum would make NaN of what is infinite
    return ordered


class _LevelKeys:
    """The keys of one level that occur in the queue: a row each, counted from the level's first."""

    def __init__(self, first: int) -> None:
        self.first, self.capacity = first, _FIRST_CAPACITY
        self.row_of: dict[str | int, int] = {}  # a job without a key at this level: its parent's row instead
        self.keys: list[str | int | None] = []
        self.uses: list[int] = []
        self.vacant: list[int] = []
        self.stale: set[int] = set()  # rows with statistics that may have changed

    def use(self, key: str | int) -> int:
        """The row of a key, which one more job uses."""
        row = self.row_of.get(key)
        if row is None:
            if self.vacant:
                row = self.vacant.pop()
            else:
                row = len(self.keys)
                self.keys.append(None)
                self.uses.append(0)
            self.row_of[key] = row
            self.keys[row] = key
        self.stale.add(row)
        self.uses[row] += 1
        return row

    def release(self, row: int) -> None:
        """One job less uses a row."""
        self.uses[row] -= 1
        if not self.uses[row]:
            keys_of_row = self.keys[row]
            if keys_of_row is not None:
                del self.row_of[keys_of_row]
            self.keys[row] = None
            self.stale.discard(row)
            self.vacant.append(row)


class KeyRows:
    """The keys of all levels: a row each, with the row of the parent's key.

    The rows of a level follow each other, and so do the levels that are as far from the top.

    `functions` are those of each level's FEATURES, level after level. `scores` holds what they say of a key,
    added up, shape (rows, 2): to other jobs of the key, and to its newest. `pair_bins` are the bins of the
    FEATURES where pairs need them, shape (features, rows).
    """

    def __init__(self, state: DurationFeatureState, functions: StepFunctions) -> None:
        self._state, self._functions = state, functions
        self._depths = [levels.tolist() for levels, _ in state.layout.depths]
        in_rows = [position for depth in self._depths for position in depth]
        self._levels = [_LevelKeys(in_rows.index(at) * _FIRST_CAPACITY) for at in range(len(in_rows))]
        self._changes = state.watch()
        rows = len(in_rows) * _FIRST_CAPACITY
        self._level_of = np.repeat(np.array(in_rows, dtype=np.intp), _FIRST_CAPACITY)
        self.newest = np.full(rows, -1, dtype=np.int64)  # serial number of the key's newest job
        self.scores = np.zeros((rows, 2))
        self.pair_bins = np.zeros((len(FEATURES), rows), dtype=np.intp)
        self._parents = np.zeros(rows, dtype=np.intp)
        self._numbers = np.zeros((len(STILL) + len(_KEPT), rows))
        # A row that is in use is looked up because it is stale; one that is not never is.
        self._low, self._high = np.full((3, rows), -np.inf), np.full((3, rows), np.inf)  # of the means
        self._until_s = np.full(rows, np.inf)  # when the first time span passes an edge
        self._followed_s = -math.inf

    @property
    def firsts(self) -> Rows:
        """The first row of each level, which its rows are counted from."""
        return np.array([level.first for level in self._levels], dtype=np.intp)

    def use(self, keys: Sequence[str | None]) -> list[int]:
        """The rows of a job's keys, in each level counted from its first; one more job uses them."""
        rows: list[int] = []
        for key, level, parent in zip(keys, self._levels, self._state.layout.parents, strict=True):
            above = rows[parent] if parent >= 0 else 0
            row = level.use(above if key is None else key)
            if row == level.capacity:
                self._grow(level)
            if parent >= 0:
                self._parents[level.first + row] = self._levels[parent].first + above
            rows.append(row)
        return rows

    def release(self, rows: Sequence[int]) -> None:
        """One job less uses the rows, one a level."""
        for level, row in zip(self._levels, rows, strict=True):
            level.release(row)

    def follow(self, at_s: float, serials: Mapping[str, int]) -> Rows:
        """Bring `scores`, `newest` and `pair_bins` up to date; return the rows with other bins in pairs.

        `serials` are the numbers of the jobs in the queue.
        """
        stale = self._refresh(serials)
        means = self._means(at_s)
        passed = means < self._low
        passed |= means >= self._high
        concerned = passed.any(axis=0)
        concerned |= self._until_s <= at_s
        concerned[stale] = True
        # `_until_s` is good for time that goes on; after a clock was set back spans are shorter than they
        # were.
        if at_s < self._followed_s:
            concerned[:] = True
        self._followed_s = at_s
        return self._look_up(concerned.nonzero()[0], means, at_s)

    def _refresh(self, serials: Mapping[str, int]) -> list[int]:
        """Take the statistics of the stale rows, and return these."""
        rows: list[int] = []
        stale: list[KeyStatistics | None] = []
        for level, heard, table in zip(self._levels, self._changes, self._state.tables, strict=True):
            row_of = level.row_of
            level.stale.update([row_of[key] for key in heard if key in row_of])
            heard.clear()
            for row in level.stale:
                key = level.keys[row]
                stale.append(table.get(key) if isinstance(key, str) else None)
                rows.append(level.first + row)
            level.stale.clear()
        if rows:
            numbers = numbers_of(stale)
            still = [last_runs(numbers), log_counts(numbers[RUNNING])[None]]
            self._numbers[:, rows] = np.concatenate([*still, numbers.take(_KEPT, axis=0)])
            self.newest[rows] = [-1 if one is None else serials.get(one.submit_id, -1) for one in stale]
        return rows

    def _means(self, at_s: float) -> Floats:
        """Decayed means of log run time and of run time (its logarithm), shrunk towards the parent's, and the
        naive estimates of log run time.

        Shape (3, rows).
        """
        prior_jobs, half_life_s = self._state.settings.prior_jobs, self._state.settings.half_life_s
        # All rows at each decision, used or not: the sums of one key fade between its events, and a few
        # multiplications a row are cheaper than finding the rows that matter.
        nothing = self._numbers[_WEIGHT] == 0
        sums = self._numbers[_SUMS] * np.exp2(np.minimum(self._numbers[_TIME] - at_s, 0.0) / half_life_s)
        means, soft_means = np.full((3, nothing.size), np.nan), self._numbers[_SOFT_MEAN].copy()
        for depth, positions in enumerate(self._depths):
            last = self._levels[positions[-1]]
            here = slice(self._levels[positions[0]].first, last.first + len(last.keys))
            parents = self._parents[here]
            above = means[:2].take(parents, axis=1) if depth else None
            means[:2, here] = shrink(sums[:, here], above, nothing[here], prior_jobs)
            if depth:
                own = soft_means[here]
                np.copyto(own, soft_means.take(parents), where=np.isnan(own))
        means[2] = naive_estimates(means[0], soft_means)
        has_weight = means[1] > 0
        np.log(means[1], out=means[1], where=has_weight)
        means[1, ~has_weight] = np.nan
        return means

    def _look_up(self, rows: Rows, means: Floats, at_s: float) -> Rows:
        """Score these rows anew; returns those with other bins in pairs."""
        numbers = self._numbers.take(rows, axis=1)
        since_s = numbers[_SINCE]
        since_s[since_s <= NEVER_S] = np.nan
        spans = np.log1p(np.maximum(at_s - since_s, 0.0))
        values = np.concatenate([numbers[: len(STILL)], means.take(rows, axis=1), spans])
        features = self._level_of.take(rows) * len(FEATURES) + np.arange(len(FEATURES))[:, None]
        functions = self._functions
        steps = functions.find(features, values)
        scores = functions.scores.take(steps)
        alike = scores[:-2].sum(axis=0)
        self.scores[rows] = (alike + scores[-2:]).T
        self._low[:, rows] = functions.low.take(steps[_MEANS])
        self._high[:, rows] = functions.high.take(steps[_MEANS])
        # When the first span passes its edge, solved for time. A little early: log1p and expm1 do not invert
        # each other to the last bit, and a row that has not passed yet is only looked up once more.
        until_s = since_s + np.expm1(functions.high.take(steps[_SPANS])) * (1 - 1e-12) - 1e-5
        self._until_s[rows] = np.fmin.reduce(until_s)
        bins = functions.pair_bins.take(steps)
        changed: Rows = rows[(bins != self.pair_bins.take(rows, axis=1)).any(axis=0)]
        self.pair_bins[:, rows] = bins
        return changed

    def _grow(self, level: _LevelKeys) -> None:
        """Make room for twice as many rows of a level; those of later levels move up."""
        end, more = level.first + level.capacity, level.capacity
        self._parents[self._parents >= end] += more
        self.scores = with_room(self.scores.T, end, more).T.copy()
        self.newest = with_room(self.newest, end, more, -1)
        self._level_of = with_room(self._level_of, end, more, self._levels.index(level))
        self._parents, self._numbers, self.pair_bins = (
            with_room(array, end, more) for array in (self._parents, self._numbers, self.pair_bins)
        )
        self._low = with_room(self._low, end, more, -np.inf)
        self._high, self._until_s = (
            with_room(array, end, more, np.inf) for array in (self._high, self._until_s)
        )
        level.capacity += more
        for other in self._levels:
            if other.first >= end:
                other.first += more


def with_room(columns: NDArray[Any], at: int, more: int, fill: float = 0) -> NDArray[Any]:
    """The same columns, and from `at` on so many more that hold `fill`."""
    room = np.full((*columns.shape[:-1], more), fill, dtype=columns.dtype)
    return np.concatenate([columns[..., :at], room, columns[..., at:]], axis=-1)
