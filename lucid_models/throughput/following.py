"""The weights of a forecast's parts follow the errors that the parts made lately.

What training chose holds until habits change: a silence that begins, a holiday, a new group of users. Each
part's weight falls with how much more than the best of them it was off in total over the last day, by a power
of e (Hedge: Freund and Schapire, J. Computer and System Sciences 55, 1997, over a window, not all time).
Errors are measured in the mean error of all parts, so that no unit and no size of a cluster matters. A part
that training gave no weight gets none.
"""

import numpy as np
from numpy.typing import NDArray

from lucid_models.series_windows import Floats

FOLLOWED_DAYS = 1
# By how much the logarithm of a weight falls for each bin in which the part is off by a mean error more.
RATE = 0.05
# Sums of numbers with so many binary digits after the point are exact, wherever a history begins.
_STEPS = 2.0**20


def followed_weights(weights: Floats, errors: Floats, newest: NDArray[np.intp], window: int) -> Floats:
    """The weights of the parts of each row's forecast, shape (rows, parts).

    `weights`: as training chose them, of that shape; `errors`, shape (bins, parts): how far each part was off
    in each bin (NaN: not known); `newest`: the newest bin that each row knows (negative: none), of which and
    the bins before it `window` count. A row that knows no error keeps its weights.
    """
    is_known = np.logical_not(np.isnan(errors).any(axis=1))
    rounded = np.rint(np.where(is_known[:, None], errors, 0.0) * _STEPS) / _STEPS
    totals = np.concatenate([np.zeros((1, errors.shape[1])), np.cumsum(rounded, axis=0)])
    bins = np.concatenate([[0], np.cumsum(is_known)])
    end = np.maximum(newest + 1, 0)
    start = np.maximum(end - window, 0)
    lost, counted = totals[end] - totals[start], bins[end] - bins[start]
    mean = lost.mean(axis=1, keepdims=True)
    # Beside the best of those that weigh at all: on short bins the others' powers would all round to nothing.
    best = np.where(weights > 0.0, lost, np.inf).min(axis=1, keepdims=True)
    worse = np.maximum(lost - best, 0.0) / np.where(mean > 0.0, mean, 1.0)
    followed = weights * np.exp(-RATE * counted[:, None] * worse)
    followed /= followed.sum(axis=1, keepdims=True)
    return np.where(counted[:, None] > 0, followed, weights)
