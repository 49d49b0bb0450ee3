"""Forecasts of busy nodes that are read from a series: published ones, and the future itself."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foundation.errors import BadInputError
from parts.node_sleep.replay.control import BIN_S, DemandForecast, NodeForecast, NodeForecaster


@dataclass(frozen=True)
class SeriesForecaster:
    """A forecast of bins that are known beforehand.

    `values` has busy nodes a bin, shape (bins,), from `start_s` (s since 1970) on. Of actual values it is an
    oracle. Means are cut at the end of the series.
    """

    start_s: float
    values: NDArray[np.float64]
    near_bins: int

    def forecast(self, busy: NDArray[np.float64], last_bin_start_s: float) -> DemandForecast:
        """Return the means over the bins after the one that began at `last_bin_start_s`; no quantiles.

        Raises BadInputError where the series has no such bin; after its last one the last value stays.
        """
        at = round((last_bin_start_s - self.start_s) / BIN_S) + 1
        if not 0 <= at <= len(self.values):
            raise BadInputError(
                f"The forecast has no bin after {last_bin_start_s:.0f} s since 1970.",
                remedy="Give a forecast of all bins that are replayed.",
            )
        after = self.values[at : at + 2 * self.near_bins] if at < len(self.values) else self.values[-1:]
        return DemandForecast(float(after[: self.near_bins].mean()), float(after.mean()), {})


class RememberingForecaster:
    """Asks another forecaster once a bin, for replays of one series with many settings."""

    def __init__(self, forecaster: NodeForecaster) -> None:
        self._forecaster = forecaster
        self._answers: dict[float, NodeForecast] = {}

    def forecast(self, busy: NDArray[np.float64], last_bin_start_s: float) -> NodeForecast:
        """Return the other's forecast at the end of this bin."""
        if last_bin_start_s not in self._answers:
            self._answers[last_bin_start_s] = self._forecaster.forecast(busy, last_bin_start_s)
        return self._answers[last_bin_start_s]
