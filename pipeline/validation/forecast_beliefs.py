"""What a release's throughput model forecasts over a replay: for the policy, and to be judged by.

Each forecast of a bin was made its lead before, from the bins that had ended by then.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cluster_logs.lake import Lake
from foundation.errors import BadInputError, NotFoundError
from foundation.site import Site
from lucid_models.throughput.model import binned_series
from lucid_models.throughput.scorer import SERIES, ThroughputForecasts
from simulator.workload.forecast import ThroughputForecast

Floats = NDArray[np.float64]
HOUR_S = 3_600.0
DAY_S = 86_400
HISTORY = timedelta(weeks=5)  # the longest that a feature looks back, and the lead


@dataclass(frozen=True)
class SeriesForecast:
    """One series bin by bin, shape (bins,): what was counted (NaN: unknown) and what had been forecast.

    A policy reads loads, not bins: a single bin is noise, and of a sparse series most are empty.
    """

    first_bin_s: int
    bin_s: int
    lead_bins: int
    counted: Floats
    forecast: Floats

    @property
    def starts_s(self) -> NDArray[np.int64]:
        """Where each bin begins (Unix seconds)."""
        return self.first_bin_s + self.bin_s * np.arange(self.counted.size, dtype=np.int64)

    @property
    def present(self) -> Floats:
        """Mean of the last hour's bins as known when each bin begins, per bin; NaN where none is known."""
        bins = np.arange(self.counted.size)
        return _mean_over(self.counted, bins - max(1, round(HOUR_S / self.bin_s)), bins)

    @property
    def to_come(self) -> Floats:
        """Mean of the forecasts that exist when each bin begins: of that bin and on, as far as the lead."""
        return self._ahead(self.forecast)

    @property
    def came(self) -> Floats:
        """What `to_come` should have been; NaN where nothing was counted."""
        return self._ahead(self.counted)

    @property
    def a_day_before(self) -> Floats:
        """What came at the same time of the day before; NaN where unknown."""
        bins = DAY_S // self.bin_s
        return np.concatenate([np.full(bins, np.nan), self.came])[: self.counted.size]

    def _ahead(self, values: Floats) -> Floats:
        bins = np.arange(values.size)
        return _mean_over(values, bins, bins + self.lead_bins)


def forecast_series(forecaster: ThroughputForecasts, throughput: pd.DataFrame) -> dict[str, SeriesForecast]:
    """Forecast every bin of a throughput table from those before it, by series.

    Raises BadInputError when the model was trained on bins of another length.
    """
    forecasts = {}
    for series in SERIES:
        scorer = forecaster.scorer(series)
        bins = binned_series(throughput, series)
        if bins.bin_s != scorer.features.bin_s:
            raise BadInputError(
                f"The throughput table has bins of {bins.bin_s} s, the model was trained on "
                f"{scorer.features.bin_s} s.",
                remedy="Train the throughput model on this table.",
            )
        forecasts[series] = SeriesForecast(
            bins.first_bin_s,
            bins.bin_s,
            scorer.features.lead_bins,
            bins.counts,
            scorer.predict_series(bins.counts, bins.first_bin_s),
        )
    return forecasts


def read_window_throughput(site: Site, start: datetime, end: datetime) -> pd.DataFrame | None:
    """Read the throughput of [start, end) and the history that forecasts of it need; None: there is none."""
    try:
        table = Lake(site.lake).read_throughput(site.cluster, start=start - HISTORY, end=end)
    except NotFoundError:
        return None
    return None if table.empty else table


def believed_throughput(
    series: Mapping[str, SeriesForecast], start: datetime, end: datetime
) -> ThroughputForecast:
    """The load as a scheduler knows it at each moment from `start` (second 0 of a replay) on.

    An hour without any known bin counts as an hour without load.
    """
    some = series[SERIES[0]]
    steps = max(1, int((end - start).total_seconds() // some.bin_s) + 1)
    at_s = start.timestamp() + some.bin_s * np.arange(steps)
    # The bin in which a step begins has not ended: what is known ends with the one before.
    bins = np.clip((at_s - some.first_bin_s) // some.bin_s, 0, some.counted.size - 1).astype(np.intp)
    per_hour = HOUR_S / some.bin_s

    def column(values: Floats) -> list[float]:
        return [float(value) for value in np.nan_to_num(values[bins]) * per_hour]

    jobs, gpus = (series[name] for name in SERIES)
    return ThroughputForecast(
        some.bin_s, column(jobs.present), column(jobs.to_come), column(gpus.present), column(gpus.to_come)
    )


def _mean_over(values: Floats, first: NDArray[np.intp], end: NDArray[np.intp]) -> Floats:
    """Mean of the known values in [first, end), element by element; NaN where none is known."""
    is_counted = np.isfinite(values)
    total = np.concatenate([[0.0], np.cumsum(np.where(is_counted, values, 0.0))])
    count = np.concatenate([[0], np.cumsum(is_counted)])
    low, high = (np.clip(edge, 0, values.size) for edge in (first, end))
    number = count[high] - count[low]
    mean: Floats = np.where(number > 0, (total[high] - total[low]) / np.maximum(number, 1), np.nan)
    return mean
