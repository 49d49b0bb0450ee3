"""A forecast for replays of jobs: the node demand model, learned from the replay's own finished bins."""

from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from cluster_logs.node_series import NodeSeries
from parts.node_sleep.demand.model import DemandSettings, NodeDemandModel
from parts.node_sleep.replay.control import BIN_S, DemandForecast, NodeForecast, NodeForecaster
from parts.node_sleep.steps.fitted_forecast import LEAST_DAYS

DAY_BINS = 86_400 // BIN_S
LEAST_BINS = LEAST_DAYS * DAY_BINS
ANEW_BINS = 7 * DAY_BINS


class LearningForecaster:
    """Learns when there are LEAST_DAYS of bins, and anew every week, from all bins until then.

    Before, it says that the newest bin goes on: of the control's rule, what the past says is left. Replays
    under several policies may share one: each has learned from its own bins.
    """

    def __init__(self, near_bins: int) -> None:
        self._near_bins = near_bins
        self._learned: dict[str, NodeForecaster] = {}

    def forecast(self, busy: NDArray[np.float64], last_bin_start_s: float) -> NodeForecast:
        """Return the forecast at the end of the newest bin, by what was learned at the last occasion."""
        count = len(busy)
        if count < LEAST_BINS:
            newest = float(busy[-1])
            return DemandForecast(newest, newest, {})
        learned_bins = LEAST_BINS + (count - LEAST_BINS) // ANEW_BINS * ANEW_BINS
        start_s = last_bin_start_s - (count - 1) * BIN_S
        key = sha256(f"{start_s}".encode() + busy[:learned_bins].tobytes()).hexdigest()
        if key not in self._learned:
            self._learned[key] = self._learn(busy[:learned_bins].copy(), start_s)
        return self._learned[key].forecast(busy, last_bin_start_s)

    def _learn(self, busy: NDArray[np.float64], start_s: float) -> NodeForecaster:
        most = np.full(len(busy), max(1.0, float(busy.max())))
        series = NodeSeries(start_s, float(BIN_S), busy, most, np.zeros(len(busy), dtype=np.bool_))
        return NodeDemandModel(DemandSettings(near_bins=self._near_bins)).fit(series).scorer
