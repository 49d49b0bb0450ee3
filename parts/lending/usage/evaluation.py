"""Measures the inference load model beside other forecasts: the last bins of a series, forecast from before.

A bin is judged where it and the ten bins before it were measured, so that all are asked the same.
"""

from collections.abc import Callable, Mapping

import numpy as np

from foundation.errors import BadInputError
from lucid_models.evaluation.measures import Floats, Row
from lucid_models.series.evaluation import coverage, mean_error, model_rows, same_time_before
from lucid_models.series.windows import DAY_S, shifted
from parts.lending.load.series import InferenceSeries
from parts.lending.usage.features import WINDOW_BINS, ewma
from parts.lending.usage.fitting import LoadSettings, judged_bins
from parts.lending.usage.model import InferenceLoadModel

OURS = "inference_load"
# A rival: the series and the number of the first bin that it may not learn from in, what it says at the end
# of every bin of the next one out, shape (bins,), NaN where it knows nothing.
Rival = Callable[[InferenceSeries, int], Floats]
COVERED = (0.8, 0.9, 0.95, 0.99)
RIDGE = 1e-3


def evaluate_inference_load(
    series: InferenceSeries,
    test_start_s: float,
    settings: LoadSettings | None = None,
    rivals: Mapping[str, Rival] | None = None,
) -> list[Row]:
    """A row a model: `model`, `mse`, `mae`, `p95_under` (the 95th percentile of usage above its forecast),
    `against_last_value` (share of its MSE), `bins`.

    Ours, the first, says also its `member`, the share of bins that quantile NN covered (`coverage_pNN`), and
    the least and most of a whole day (`least_day_p90`, `most_day_p90`). It learns from the bins before
    `test_start_s` (seconds since 1970). Raises BadInputError where either part is too short.
    """
    first = int(np.searchsorted(series.times_s, test_start_s))
    at = np.flatnonzero(judged_bins(series.gap))
    at = at[at >= max(first, 1)]
    if not at.size:
        raise BadInputError("No bin of the test follows ten measured ones.", remedy="Test on more bins.")
    model = InferenceLoadModel(settings).fit(series.first(first))
    forecast = model.past_forecasts(series)
    said = {name: rival(series, first) for name, rival in {**NAIVE, **(rivals or {})}.items()}
    # Said at the end of the bin before; a rival that knows nothing of some judged bin is left out.
    of_next = {name: np.concatenate([[np.nan], np.clip(one[:-1], 0.0, 1.0)]) for name, one in said.items()}
    forecasts = {OURS: forecast.mean[:-1]} | {
        name: one for name, one in of_next.items() if not np.isnan(one[at]).any()
    }
    by_target = {name: {"": one} for name, one in forecasts.items()}
    rows = model_rows(by_target, {"": series.usage}, at, _MEASURES)
    quantiles = {level: forecast.quantiles[level][at] for level in COVERED if level in forecast.quantiles}
    rows[0] |= {"member": model.scorer.member, **coverage(series.usage[at], quantiles)}
    if 0.9 in quantiles:
        rows[0] |= _daily(series.usage[at] <= quantiles[0.9], series.times_s[at])
    last = next(row["mse"] for row in rows if row["model"] == "last_value")
    return [row | {"against_last_value": row["mse"] / last if last > 0 else None} for row in rows]


def ridge_on_window(series: InferenceSeries, first: int) -> Floats:
    """AR(10): a ridge regression of the next change on the last ten bins less the newest."""
    columns = [shifted(series.usage, lag) - series.usage for lag in range(1, WINDOW_BINS)]
    matrix = np.stack([np.ones(series.usage.size), *columns], axis=1)
    at = np.flatnonzero(judged_bins(series.gap)[:first])
    rows, change = matrix[at - 1], series.usage[at] - series.usage[at - 1]
    penalty = RIDGE * np.eye(rows.shape[1])
    weights = np.linalg.solve(rows.T @ rows + penalty, rows.T @ change)
    return np.asarray(series.usage + matrix @ weights, dtype=np.float64)


def _same_time_yesterday(series: InferenceSeries, first: int) -> Floats:
    following = np.append(series.usage[1:], np.nan)
    return same_time_before(following, 1, series.bin_s)["same_time_yesterday"]


NAIVE: Mapping[str, Rival] = {
    "last_value": lambda series, first: series.usage,
    "ewma_0.5": lambda series, first: ewma(series.usage, 0.5),
    "same_time_yesterday": _same_time_yesterday,
    "ar_10": ridge_on_window,
}


# Of errors: usage less its forecast.
_MEASURES: Mapping[str, Callable[[Floats], float | None]] = {
    "mse": lambda error: float(np.square(error).mean()),
    "mae": mean_error,
    "p95_under": lambda error: float(np.quantile(np.maximum(error, 0.0), 0.95)),
}


def _daily(hit: "np.ndarray[tuple[int], np.dtype[np.bool_]]", times_s: Floats) -> Row:
    """The least and the most of the days of which at least half the usual bins were judged."""
    days, counts = np.unique(times_s // DAY_S, return_counts=True)
    whole = days[counts >= counts.max() / 2]
    shares = [float(hit[times_s // DAY_S == day].mean()) for day in whole]
    return {"least_day_p90": min(shares), "most_day_p90": max(shares)}
