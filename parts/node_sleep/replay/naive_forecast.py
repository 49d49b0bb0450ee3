"""Forecasts of busy nodes that learn nothing: where there are too few days for a model."""

import numpy as np
from numpy.typing import NDArray

from parts.node_sleep.replay.control import BIN_S, DemandForecast

Floats = NDArray[np.float64]
DAY_BINS = 86_400 // BIN_S


class NaiveForecaster:
    """Of three naive forecasts that which erred least on the bins that have ended.

    They say that the newest bin stays, that the mean of the newest `near_bins` does, and that the same time
    of the day before comes again. Until one can be judged the newest bin stays.
    """

    def __init__(self, near_bins: int) -> None:
        self._near_bins = near_bins

    def forecast(self, busy: Floats, last_bin_start_s: float) -> DemandForecast:
        """Return the means over the bins after those of `busy`, shape (bins,); no quantiles."""
        near = _naive_means(busy, self._near_bins)
        outcome = _means_from(busy, self._near_bins)[1:]  # after each bin, where all of them have ended
        errors = {
            name: np.nanmean(np.abs(said[: len(outcome)] - outcome))
            for name, said in near.items()
            if np.isfinite(said[: len(outcome)]).any()
        }
        best = min(errors, key=errors.__getitem__, default="newest")
        far = _naive_means(busy, 2 * self._near_bins)[best][-1]
        return DemandForecast(float(near[best][-1]), float(far if np.isfinite(far) else near[best][-1]), {})


def _naive_means(busy: Floats, bins: int) -> dict[str, Floats]:
    """What each says at the end of every bin of the mean of the next `bins`; NaN where it cannot."""
    means = _means_from(busy, bins)
    newest_bins, day_before = np.full((2, len(busy)), np.nan)
    newest_bins[bins - 1 :] = means
    # What began a day before the next bin has ended where `bins` are no more than a day.
    if bins <= DAY_BINS <= len(busy):
        day_before[DAY_BINS - 1 :] = means[: len(busy) - DAY_BINS + 1]
    return {"newest": busy, "newest_bins": newest_bins, "day_before": day_before}


def _means_from(busy: Floats, bins: int) -> Floats:
    """The mean of each bin and those after it, `bins` together, of all that have ended."""
    if len(busy) < bins:
        return np.empty(0)
    return np.asarray(np.lib.stride_tricks.sliding_window_view(busy, bins).mean(axis=1), dtype=np.float64)
