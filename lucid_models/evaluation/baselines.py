"""Naive forecasts and pair rules that the models are measured beside, and that a model must beat.

Run time estimates by simple methods are in rival_estimates.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lucid_models.series.evaluation import same_time_before
from lucid_models.series.windows import rolling, shifted

# Sum of the two jobs' GPU utilisations up to which sharing a GPU pays on the RTX 3090 data.
UTILISATION_SUM_PCT = 117.7


def throughput_baselines(
    counts: NDArray[np.float64], lead_bins: int, bin_s: int
) -> dict[str, NDArray[np.float64]]:
    """Forecasts of every bin by the naive rivals, each from bins at least `lead_bins` before it (NaN before
    that).
    """
    forecasts: dict[str, NDArray[np.float64]] = {"zero": np.zeros(counts.size)}
    forecasts["last_value"] = shifted(counts, lead_bins)
    for window in (12, 18):
        forecasts[f"rolling_median_{window}"] = shifted(rolling(counts, window, np.median), lead_bins)
    forecasts["rolling_mean_6"] = shifted(rolling(counts, 6, np.mean), lead_bins)
    return forecasts | same_time_before(counts, lead_bins, bin_s)


def duration_baselines(features: pd.DataFrame) -> dict[str, NDArray[np.float64]]:
    """Run times in seconds by the naive rivals, from the same causal statistics that the model reads.

    `size_alone`: moving average of log run time per size, or of all jobs where the model has no such level.
    `ewma`: that of the finest of the model's levels of which a job has ended.
    """
    averages = [column for column in map(str, features.columns) if column.endswith(":soft_mean")]
    return {
        "size_alone": np.exp(_first_known(features, ("size:soft_mean", "all:soft_mean"))),
        "ewma": np.exp(_first_known(features, tuple(reversed(averages)))),
    }


def majority_class(scores: NDArray[np.intp]) -> int:
    """The most frequent Sharing Score (the lighter one on ties)."""
    return int(np.argmax(np.bincount(scores, minlength=3)))


def utilisation_sum_rule(utilisation_pct: Mapping[str, float], pairs: pd.DataFrame) -> NDArray[np.bool_]:
    """Whether each pair's summed solo GPU utilisation stays under UTILISATION_SUM_PCT."""
    total = pairs["job_type_1"].map(utilisation_pct) + pairs["job_type_2"].map(utilisation_pct)
    return np.asarray(total.to_numpy(dtype=np.float64) <= UTILISATION_SUM_PCT, dtype=np.bool_)


def scaled(model: Any) -> Any:
    """Return a model of standardised features."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), model)


def _first_known(features: pd.DataFrame, columns: tuple[str, ...]) -> NDArray[np.float64]:
    """The first of the columns that is known, row by row; one minute where none is."""
    result = np.full(len(features), np.nan)
    for column in columns:
        if column in features:
            result = np.where(np.isnan(result), features[column].to_numpy(dtype=np.float64), result)
    return np.where(np.isnan(result), np.log(60.0), result)
