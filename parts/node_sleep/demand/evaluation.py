"""Measures the node demand model beside naive forecasts: the last days of a series, forecast from before."""

from collections.abc import Mapping

import numpy as np

from cluster_logs.node_series import NodeSeries
from foundation.errors import BadInputError
from lucid_models.evaluation.measures import Floats, Row
from lucid_models.series_windows import DAY_S, HOUR_S, WEEK_S, shifted, soft_mean
from parts.node_sleep.demand.features import mean_after
from parts.node_sleep.demand.model import DemandSettings, NodeDemandModel, demand_outcomes

OURS = "ebm"
# By target: how many times `near_bins` its mean reaches.
MEANS: Mapping[str, int] = {"near_mean": 1, "far_mean": 2}


def evaluate_node_demand(
    bins: NodeSeries, test_start_s: float, settings: DemandSettings | None = None
) -> list[Row]:
    """A row a model: `model`, mean absolute errors `near_mean_mae` and `far_mean_mae` (nodes; None where a
    rival knows nothing), `bins`, and of ours `coverage_pNN`: the share of bins whose highest of the next
    hours the quantile NN did not exceed.

    The model learns from the bins before `test_start_s` (seconds since 1970); forecasts are those made at
    the end of the bins from there on. Raises BadInputError where either part is too short.
    """
    first = int(np.searchsorted(bins.times_s, test_start_s))
    model = NodeDemandModel(settings).fit(first_bins(bins, first))
    near_bins = model.settings.near_bins
    outcome = demand_outcomes(bins, near_bins)
    judged = np.arange(bins.running.size) >= first
    judged &= ~np.isnan(outcome["far_mean"])
    if not judged.any():
        raise BadInputError(
            "No bin of the test days is followed by enough others to be judged.", remedy="Test on more days."
        )
    forecasts = model.predict_all(bins)
    rows: list[Row] = []
    naive = naive_demand(bins, near_bins)
    for name, forecast in {OURS: forecasts, **naive}.items():
        errors = {target: np.abs(forecast[target] - outcome[target])[judged] for target in MEANS}
        rows.append(
            {
                "model": name,
                **{
                    f"{target}_mae": None if np.isnan(error).all() else float(np.nanmean(error))
                    for target, error in errors.items()
                },
                "bins": int(judged.sum()),
            }
        )
    offsets = model.scorer.peak_offsets
    rows[0] |= {
        f"coverage_p{100 * quantile:g}": float(
            (outcome["near_peak"] <= forecasts["near_peak"] + offset)[judged].mean()
        )
        for quantile, offset in offsets.items()
    }
    return rows


def first_bins(bins: NodeSeries, count: int) -> NodeSeries:
    """The first `count` bins of a series."""
    part = slice(0, count)
    return NodeSeries(bins.start_s, bins.step_s, bins.running[part], bins.total[part], bins.held[part])


def naive_demand(bins: NodeSeries, near_bins: int) -> dict[str, dict[str, Floats]]:
    """What needs no training says at the end of every bin, by rival and target; NaN where it knows nothing.

    The last value stays; what followed this time yesterday, or a week ago, follows again; the exponentially
    weighted mean of about the last hour stays.
    """
    busy, bin_s = bins.running, round(bins.step_s)
    constant = {"last_value": busy, "ewma": soft_mean(busy, max(HOUR_S // bin_s, 1))}
    rivals = {name: dict.fromkeys(MEANS, values) for name, values in constant.items()}
    for name, span_s in (("same_time_yesterday", DAY_S), ("same_time_last_week", WEEK_S)):
        span = span_s // bin_s
        rivals[name] = {
            target: shifted(mean_after(busy, times * near_bins), span)
            if times * near_bins <= span
            else np.full(busy.size, np.nan)
            for target, times in MEANS.items()
        }
    return rivals
