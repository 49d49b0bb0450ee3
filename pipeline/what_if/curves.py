"""Curves with few points that hide nothing: what a screen can show of a replay of months.

A span of time that becomes one point keeps the least, the mean and the greatest value that held in it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from simulator.recorders.usage import binned

MOST_POINTS = 2_000
_BODY, _TAIL = 120, 80  # of a distribution: points evenly by share, and ever closer to the longest wait

Floats = NDArray[np.float64]


def summed_steps(at_s: Floats, values: Floats, parts: Sequence[Any]) -> tuple[Floats, Floats]:
    """Return the sum of several step functions of time: its moments (s, ascending) and its values.

    `at_s` and `values` hold the steps of all of them, each one's in order; `parts` names the function that a
    step is of. Each is 0 before it begins.
    """
    change = pd.Series(values).groupby(np.asarray(parts)).diff().to_numpy(dtype=np.float64, copy=True)
    begins = np.isnan(change)
    change[begins] = values[begins]
    order = np.argsort(at_s, kind="stable")
    moments, total = at_s[order], np.cumsum(change[order])
    last = np.append(moments[1:] != moments[:-1], True) if len(moments) else np.zeros(0, dtype=bool)
    return moments[last], total[last]


def binned_curve(at_s: Floats, values: Floats, edges_s: Floats) -> dict[str, list[float]]:
    """Return `mean`, `least` and `most` of a step function in each span between the edges (s, ascending).

    `values[i]` holds from `at_s[i]` until `at_s[i + 1]`, the last for ever; 0 before it begins.
    """
    padded = np.concatenate([[0.0], values])
    first = np.searchsorted(at_s, edges_s[:-1], side="right")
    # Until before the span's end: what begins with the next span belongs to that.
    end = np.maximum(np.searchsorted(at_s, edges_s[1:], side="left") + 1, first + 1)
    spans = np.column_stack([first, end]).ravel()
    guarded = np.append(padded, padded[-1])
    return {
        "mean": _rounded(binned(at_s, values, edges_s)),
        "least": _rounded(np.minimum.reduceat(guarded, spans)[::2]),
        "most": _rounded(np.maximum.reduceat(guarded, spans)[::2]),
    }


def distribution(values: Floats) -> dict[str, list[float]]:
    """Return points (`value`, `share` of the values that are at most it) of an empirical distribution.

    Each point is a measured value; the least and the greatest are among them.
    """
    count = len(values)
    if not count:
        return {"value": [], "share": []}
    ordered = np.sort(values)
    body = np.linspace(0, count - 1, _BODY)
    tail = count - np.geomspace(1, count, _TAIL)
    ranks = np.unique(np.rint(np.concatenate([body, tail])).astype(np.int64).clip(0, count - 1))
    at_most = np.searchsorted(ordered, ordered[ranks], side="right")
    value, first = np.unique(ordered[ranks], return_index=True)
    return {"value": _rounded(value), "share": (at_most[first] / count).round(6).tolist()}


def longest_by_span(at_s: Floats, values: Floats, spans: int) -> NDArray[np.int64]:
    """Return the index of the greatest value in each of so many spans of time, the earliest of equal ones."""
    if not len(at_s):
        return np.zeros(0, dtype=np.int64)
    width = max(float(at_s.max() - at_s.min()) / spans, 1e-9)
    number = np.minimum((at_s - at_s.min()) // width, spans - 1).astype(np.int64)
    order = np.lexsort((at_s, -values, number))
    first = np.append(True, number[order][1:] != number[order][:-1])
    return np.asarray(order[first], dtype=np.int64)


def _rounded(values: Floats) -> list[float]:
    return [float(value) for value in np.round(values, 3).tolist()]
