"""The product's own forecast of busy nodes, fitted on the bins before a moment."""

import numpy as np
from numpy.typing import NDArray

from cluster_logs.node_series import NodeSeries
from parts.node_sleep.demand.model import DemandSettings, NodeDemandModel
from parts.node_sleep.demand.scorer import NodeDemandScorer
from parts.node_sleep.replay.control import BIN_S, DemandForecast, NodeForecaster
from parts.node_sleep.replay.series_forecast import RememberingForecaster

LEAST_DAYS = 7  # of bins to learn from: every day of the week


class FittedForecaster:
    """A node demand model as a control asks it.

    It reads a series with its gaps held, also where the control takes them for zeros: what telemetry did not
    count is no demand that could be forecast.
    """

    def __init__(self, scorer: NodeDemandScorer, held_bins: NodeSeries) -> None:
        self._scorer = scorer
        self._bins = held_bins

    def forecast(self, busy: NDArray[np.float64], last_bin_start_s: float) -> DemandForecast:
        """Return the model's forecast at the end of the bin that began at `last_bin_start_s`."""
        finished = round((last_bin_start_s - self._bins.start_s) / BIN_S) + 1
        forecast = self._scorer.forecast(self._bins.running[:finished], last_bin_start_s)
        return DemandForecast(forecast.near_mean, forecast.far_mean, forecast.near_peak)


def fit_forecaster(
    held_bins: NodeSeries, until_s: float, near_bins: int, *, utc_offset_s: int = 0
) -> NodeForecaster | None:
    """Return a forecaster that has learned from the bins that ended by `until_s` (s since 1970), gaps held.

    `utc_offset_s` is the cluster's local time minus UTC. None where there are less than LEAST_DAYS of bins.
    """
    bins = held_bins
    count = int((until_s - bins.start_s) // BIN_S)
    if count * BIN_S < LEAST_DAYS * 86_400:
        return None
    before = NodeSeries(
        bins.start_s, bins.step_s, bins.running[:count], bins.total[:count], bins.held[:count]
    )
    model = NodeDemandModel(DemandSettings(near_bins=near_bins, utc_offset_s=utc_offset_s)).fit(before)
    return RememberingForecaster(FittedForecaster(model.scorer, bins))
