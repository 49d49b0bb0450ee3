"""Looks up many values of many features at once: their scores, and the edges between which these stay.

All that an additive model reads off one feature is a step function of it: the scores of its own terms, added
up, and its bins in pairs. The steps of all features lie in one sorted array of complex numbers, the feature
before the comma and the cut behind it, which NumPy orders by the feature first: one binary search finds
values of any features.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucid_models.bin_finder import bin_of

Floats = NDArray[np.float64]
Positions = NDArray[np.intp]


@dataclass(frozen=True)
class Readings:
    """What is read off one feature: its shape functions (cuts, scores), and its cuts in pairs."""

    functions: Sequence[tuple[Floats, Floats]] = ()
    pair_cuts: Floats | None = None


class StepFunctions:
    """One step function a feature.

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
