"""Finds the bins of many values among a shape function's cuts at once, with NumPy alone.

A binary search among the cuts mispredicts a branch at every other step. Here the range of the cuts is laid
out in up to 4,096 equal buckets, each of which knows the cuts below it: one multiplication finds a value's
bucket, and as many comparisons as a bucket holds cuts (at most three, else it is a binary search again) find
its bin. Rounding cannot misplace a value: the bucket rises with the value, for cuts and values alike.
"""

from bisect import bisect_right

import numpy as np
from numpy.typing import NDArray

_BUCKETS = (256, 512, 1_024, 2_048, 4_096)
_MOST_IN_BUCKET = 3
_FEWEST_CUTS = 4
# For fewer values a search costs less than the dozen calls that it saves.
_FEW_VALUES = 64

Floats = NDArray[np.float64]


class BinFinder:
    """The bins of the values of one feature, counted as by `bin_of`."""

    def __init__(self, cuts: Floats) -> None:
        self._cuts = cuts
        self._depth = 0
        self._listed: list[float] | None = None
        if cuts.size >= _FEWEST_CUTS:
            self._lay_out()

    def of(self, values: Floats) -> NDArray[np.intp]:
        """Bins of the values, shape (values,)."""
        if not self._depth or values.size < _FEW_VALUES:
            return bin_of(values, self._cuts)
        with np.errstate(over="ignore"):
            bins = self._first_bin.take(self._bucket(values))
        for _ in range(self._depth):
            bins += values >= self._upper_edge.take(bins)
        return bins

    def of_one(self, value: float) -> int:
        """The bin of one value; for a few values this is ten times as fast as `of`."""
        if value != value:
            return 0
        if self._listed is None:
            self._listed = self._cuts.tolist()
        return bisect_right(self._listed, value) + 1

    def _lay_out(self) -> None:
        """Choose the fewest buckets that hold one cut each, or the most of them."""
        cuts = self._cuts
        self._low = float(cuts[0])
        for buckets in _BUCKETS:
            with np.errstate(over="ignore", divide="ignore"):
                self._scale = float((buckets - 1) / (cuts[-1] - cuts[0]))
            self._top = float(buckets - 1)
            if not 0 < self._scale < np.inf:
                return
            with np.errstate(over="ignore"):
                held = np.bincount(self._bucket(cuts), minlength=buckets + 1)
            depth = int(held.max())
            if depth == 1 or (buckets == _BUCKETS[-1] and depth <= _MOST_IN_BUCKET):
                self._depth = depth
                self._first_bin = np.cumsum(held) - held + 1
                self._first_bin[0] = 0
                # No value passes NaN: not a missing one, and none in the last bin.
                self._upper_edge = np.concatenate([[np.nan], cuts, [np.nan]])
                return

    def _bucket(self, values: Floats) -> NDArray[np.intp]:
        """Bucket of each value from 1 on; 0: missing."""
        place = values - self._low
        place *= self._scale
        np.maximum(place, 0.0, out=place)
        np.minimum(place, self._top, out=place)
        place += 1.0
        return np.fmax(place, 0.0, out=place).astype(np.intp)


def bin_of(values: Floats, cuts: Floats) -> NDArray[np.intp]:
    """Index into a shape function's table of each value, by binary search; NaN is a missing value."""
    bins = cuts.searchsorted(values, side="right") + 1
    bins[np.isnan(values)] = 0
    return bins
