"""How every forecaster of a series is measured: naive forecasts of the same bins, and errors by model."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from lucid_models.evaluation.measures import Floats, Row
from lucid_models.series.windows import DAY_S, WEEK_S, shifted


def same_time_before(outcome: Floats, lead_bins: int, bin_s: int) -> dict[str, Floats]:
    """What came at the same time yesterday and last week, for every bin of `outcome`, shape (bins,).

    `lead_bins`: how many bins after the newest known one an outcome is known; NaN where it was not yet.
    """
    spans = {"same_time_yesterday": DAY_S // bin_s, "same_time_last_week": WEEK_S // bin_s}
    return {
        name: shifted(outcome, bins) if bins >= lead_bins else np.full(outcome.size, np.nan)
        for name, bins in spans.items()
    }


def mean_error(errors: Floats) -> float | None:
    """The mean of the absolute errors that are known; None: none is."""
    return None if np.isnan(errors).all() else float(np.nanmean(np.abs(errors)))


def model_rows(
    forecasts: Mapping[str, Mapping[str, Floats]],
    outcomes: Mapping[str, Floats],
    judged: NDArray[np.bool_] | NDArray[np.intp],
    measures: Mapping[str, Callable[[Floats], float | None]],
) -> list[Row]:
    """A row a model: `model`, each measure of its errors (outcome less forecast) of the bins `judged`, and
    their number `bins`.

    `forecasts`: by model and target; measures are named TARGET_MEASURE, of the target "" by the measure
    alone.
    """
    number = int(np.count_nonzero(judged)) if judged.dtype == np.bool_ else judged.size
    return [
        {
            "model": model,
            **{
                f"{target}_{name}".lstrip("_"): measure((outcome - said[target])[judged])
                for target, outcome in outcomes.items()
                for name, measure in measures.items()
            },
            "bins": number,
        }
        for model, said in forecasts.items()
    ]


def coverage(outcomes: Floats, quantiles: Mapping[float, Floats]) -> dict[str, float]:
    """`coverage_pNN` of each quantile: the share of the outcomes that did not exceed it."""
    return {
        f"coverage_p{100 * level:g}": float((outcomes <= said).mean()) for level, said in quantiles.items()
    }
