"""A shape function of one feature as a table, looked up for many values at once with NumPy alone.

A binary search among the cuts mispredicts a branch at every other step. Here the range of the cuts is laid
out in up to 4,096 equal buckets, each of which knows the cuts below it: one multiplication finds a value's
bucket, and as many comparisons as a bucket holds cuts (at most three, else it is a binary search again) find
its bin. Rounding cannot misplace a value: the bucket rises with the value, for cuts and values alike.
"""

import numpy as np
from numpy.typing import NDArray

_BUCKETS = (256, 512, 1_024, 2_048, 4_096)
_MOST_IN_BUCKET = 3
_FEWEST_CUTS = 4
# For fewer values a search costs less than the dozen calls that it saves.
_FEW_VALUES = 64

Floats = NDArray[np.float64]


class ShapeFunction:
    """The score of each value of one feature; NaN is a missing value.

    `scores` has len(cuts) + 3 entries, as in `additive_scorer.Term`: missing, then bin after bin, then one
    that numbers never need.
    """

    def __init__(self, cuts: Floats, scores: Floats) -> None:
        # Sorted behind every number, NaN finds the place behind the last bin by itself.
        self._edges = np.append(cuts, np.nan)
        self._table = np.concatenate([scores[1 : cuts.size + 2], scores[:1]])
        self._depth = 0
        if cuts.size >= _FEWEST_CUTS:
            self._lay_out(cuts)

    def of(self, values: Floats) -> Floats:
        """Scores of the values, of the same shape (one dimension)."""
        if not self._depth or values.size < _FEW_VALUES:
            return self._table.take(self._edges.searchsorted(values, side="right"))
        with np.errstate(over="ignore"):
            place = self._below.take(self._bucket(values))
        for _ in range(self._depth):
            place += values >= self._padded.take(place)
        return self._table.take(place)

    def _lay_out(self, cuts: Floats) -> None:
        """Choose the fewest buckets that hold one cut each, or the most of them."""
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
                self._below = np.cumsum(held) - held
                self._below[0] = cuts.size + 1
                # Never reached by a comparison, whatever the value.
                self._padded = np.append(cuts, np.full(_MOST_IN_BUCKET + 2, np.nan))
                return

    def _bucket(self, values: Floats) -> NDArray[np.intp]:
        """Bucket of each value from 1 on; 0: missing."""
        place = values - self._low
        place *= self._scale
        np.maximum(place, 0.0, out=place)
        np.minimum(place, self._top, out=place)
        place += 1.0
        return np.fmax(place, 0.0, out=place).astype(np.intp)
