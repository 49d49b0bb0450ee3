"""Measures the node demand model beside naive forecasts: the last days of a series, forecast from before."""

from collections.abc import Mapping

import numpy as np

from cluster_logs.node_series import NodeSeries
from foundation.errors import BadInputError
from lucid_models.evaluation.measures import Floats, Row
from lucid_models.series.evaluation import coverage, mean_error, model_rows, same_time_before
from lucid_models.series.windows import HOUR_S, soft_mean
from parts.node_sleep.demand.features import mean_after
from parts.node_sleep.demand.model import DemandSettings, NodeDemandModel, demand_outcomes

OURS = "ebm"
# By target: how many times `near_bins` its mean reaches.
MEANS: Mapping[str, int] = {"near_mean": 1, "far_mean": 2}


def evaluate_node_demand(
    bins: NodeSeries, test_start_s: float, settings: DemandSettings | None = None
) -> list[Row]:
    """A row a model: `model`, mean absolute errors `near_mean_mae` and `far_mean_mae` (nodes; None where a
    rival knows nothing), `bins`, and of ours `coverage_pNN`: the share of bins of which the highest of
    the next hours did not exceed the quantile NN.

    The model learns from the bins before `test_start_s` (seconds since 1970); forecasts are those made at
    the end of the bins from there on. Raises BadInputError where either part is too short.
    """
    first = int(np.searchsorted(bins.times_s, test_start_s))
    model = NodeDemandModel(settings).fit(bins.first(first))
    near_bins = model.settings.near_bins
    outcome = demand_outcomes(bins, near_bins)
    judged = np.arange(bins.running.size) >= first
    judged &= ~np.isnan(outcome["far_mean"])
    if not judged.any():
        raise BadInputError(
            "No bin of the test days is followed by enough others to be judged.", remedy="Test on more days."
        )
    forecasts = {OURS: model.predict_all(bins), **naive_demand(bins, near_bins)}
    means = {target: outcome[target] for target in MEANS}
    rows = model_rows(forecasts, means, judged, {"mae": mean_error})
    highest = forecasts[OURS]["near_peak"][judged]
    rows[0] |= coverage(
        outcome["near_peak"][judged],
        {quantile: highest + offset for quantile, offset in model.scorer.peak_offsets.items()},
    )
    return rows


def naive_demand(bins: NodeSeries, near_bins: int) -> dict[str, dict[str, Floats]]:
    """What needs no training says at the end of every bin, by rival and target; NaN where it knows nothing.

    The last value stays; what followed this time yesterday, or a week ago, follows again; the exponentially
    weighted mean of about the last hour stays.
    """
    busy, bin_s = bins.running, round(bins.step_s)
    constant = {"last_value": busy, "ewma": soft_mean(busy, max(HOUR_S // bin_s, 1))}
    rivals = {name: dict.fromkeys(MEANS, values) for name, values in constant.items()}
    same_time = {
        target: same_time_before(mean_after(busy, times * near_bins), times * near_bins, bin_s)
        for target, times in MEANS.items()
    }
    names = same_time["near_mean"]
    return rivals | {name: {target: same_time[target][name] for target in MEANS} for name in names}
