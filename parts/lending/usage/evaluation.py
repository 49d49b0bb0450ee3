"""Measures the inference load model beside other forecasts: the last bins of a series, forecast from before.

A bin is judged where it and the ten bins before it were measured, so that all are asked the same.
"""

from collections.abc import Callable, Mapping

import numpy as np

from foundation.errors import BadInputError
from lucid_models.evaluation.measures import Floats, Row
from lucid_models.series_windows import DAY_S, shifted
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
    rows = [_row(OURS, series.usage[at], forecast.mean[at]) | {"member": model.scorer.member}]
    covered = {
        level: series.usage[at] <= forecast.quantiles[level][at]
        for level in COVERED
        if level in forecast.quantiles
    }
    rows[0] |= {f"coverage_p{100 * level:g}": float(hit.mean()) for level, hit in covered.items()}
    rows[0] |= _daily(covered[0.9], series.times_s[at]) if 0.9 in covered else {}
    for name, rival in {**NAIVE, **(rivals or {})}.items():
        forecasts = np.clip(rival(series, first), 0.0, 1.0)[at - 1]
        if not np.isnan(forecasts).any():
            rows.append(_row(name, series.usage[at], forecasts))
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


def _seasonal(series: InferenceSeries, first: int) -> Floats:
    return shifted(series.usage, DAY_S // series.bin_s - 1)


NAIVE: Mapping[str, Rival] = {
    "last_value": lambda series, first: series.usage,
    "ewma_0.5": lambda series, first: ewma(series.usage, 0.5),
    "same_time_yesterday": _seasonal,
    "ar_10": ridge_on_window,
}


def _row(name: str, usage: Floats, said: Floats) -> Row:
    error = usage - said
    return {
        "model": name,
        "mse": float(np.square(error).mean()),
        "mae": float(np.abs(error).mean()),
        "p95_under": float(np.quantile(np.maximum(error, 0.0), 0.95)),
        "bins": int(usage.size),
    }


def _daily(hit: "np.ndarray[tuple[int], np.dtype[np.bool_]]", times_s: Floats) -> Row:
    """The least and the most of the days of which at least half the usual bins were judged."""
    days, counts = np.unique(times_s // DAY_S, return_counts=True)
    whole = days[counts >= counts.max() / 2]
    shares = [float(hit[times_s // DAY_S == day].mean()) for day in whole]
    return {"least_day_p90": min(shares), "most_day_p90": max(shares)}
