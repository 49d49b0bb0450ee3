"""Node Demand Model: how many nodes will be busy in the hours to come, so that the others may sleep.

The forecast of Helios' Cluster Energy Saving service (Hu et al., SC '21, section 4.3), which is there a
gradient-boosted forest of each bin to come. Ours is additive and says at the end of a bin, made of finished
bins alone, the means and the highest of what the control asks for; targets are differences from the newest
bin. The loss is nearly the absolute error (pseudo-Huber), which single surges cannot steer. What telemetry
did not count is learned from neither as a start nor as an outcome. Validation bags are whole weeks, and the
offsets of the highest bin's quantiles come from each week's errors by a bag that did not learn from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import pandas as pd

from cluster_logs.node_series import NodeSeries
from foundation.errors import BadInputError
from lucid_models.boosting import BoostedModel, BoostingSettings
from lucid_models.explanation.additive import explain_additive_global, explain_additive_row
from lucid_models.scorer_model import ScorerModel, check_bin_length
from lucid_models.series.fitting import BinClock, boost_bins, check_history, longest_span_s
from lucid_models.series.windows import DAY_S, Floats, rolling
from lucid_models.serving_frames import ServingFrame, first_bin_s
from parts.node_sleep.demand.features import DemandFeatures, highest_after, mean_after
from parts.node_sleep.demand.scorer import QUANTILES, TARGETS, NodeDemandScorer

BOOSTING = BoostingSettings(objective="pseudo_huber:delta=1.0", max_bins=32, learning_rate=0.02)
MIN_HISTORY_S = 4 * DAY_S
LEAST_ROWS = 200


@dataclass(frozen=True)
class DemandSettings:
    """How the model is trained.

    `near_bins`: how many bins the forecast looks ahead, as the control's settings say. `utc_offset_s`: the
    cluster's local time minus UTC. `holidays`: local days that are no working days, ascending.
    """

    near_bins: int = 30
    utc_offset_s: int = 0
    holidays: tuple[date, ...] = ()
    boosting: BoostingSettings = BOOSTING


class NodeDemandModel(ScorerModel[NodeDemandScorer]):
    """Forecast of the busy nodes of one cluster."""

    kind = "node_demand"
    words, fit_words = "node demand model", "fit(bins)"
    scorer_type = NodeDemandScorer

    def __init__(self, settings: DemandSettings | None = None) -> None:
        self.settings = settings or DemandSettings()

    def fit(self, bins: NodeSeries) -> "NodeDemandModel":
        """Learn from bins (`NodeSeries.bins`); four days are the least, and longer spans are read as they
        become available.

        Raises BadInputError when the history is too short.
        """
        busy, step_s, start_s = bins.running, round(bins.step_s), round(bins.start_s)
        check_history(busy.size * step_s, MIN_HISTORY_S, "busy nodes")
        settings = self.settings
        longest_s = longest_span_s(busy.size * step_s)
        features = DemandFeatures(
            settings.near_bins, step_s, settings.utc_offset_s, longest_s, settings.holidays
        )
        matrix = features.matrix(busy, start_s)
        clock = BinClock(start_s, step_s, settings.utc_offset_s)
        boosted = {}
        for target, outcome in demand_outcomes(bins, settings.near_bins).items():
            rows = np.flatnonzero(~np.isnan(outcome))
            rows = rows[rows >= min(features.day_bins, busy.size // 3)]
            if rows.size < LEAST_ROWS:
                raise BadInputError(
                    f"{rows.size} bins with what followed them in {settings.near_bins} bins are too few.",
                    remedy="Give a longer history, or look fewer bins ahead (near_bins).",
                )
            change = outcome[rows] - busy[rows]
            fitted = boost_bins(rows, matrix[rows], change, features.names, settings.boosting, clock)
            boosted[target] = (fitted, change)
        self._scorer = NodeDemandScorer(
            features,
            {target: fitted.scorer for target, (fitted, _) in boosted.items()},
            _offsets(*boosted["near_peak"]),
            float(max(bins.total.max(), busy.max())),
            {
                "first_bin_s": start_s,
                "last_bin_s": round(bins.times_s[-1]),
                "rows": int(boosted["near_mean"][1].size),
                "held_bins": int(bins.held.sum()),
                "boosting": settings.boosting.to_data(),
            },
        )
        return self

    def predict(self, bins: NodeSeries) -> Floats:
        """The mean of the next `near_bins` bins, forecast at the end of every bin, shape (bins,)."""
        return self.predict_all(bins)["near_mean"]

    def predict_all(self, bins: NodeSeries) -> dict[str, Floats]:
        """All that is forecast at the end of every bin, by target; each of shape (bins,)."""
        self._check_bins(bins)
        return self.scorer.predict_series(bins.running, round(bins.start_s))

    def features_of(self, bins: NodeSeries) -> pd.DataFrame:
        """The features that the forecast at the end of each bin is made of; `busy` is the bin's own count."""
        self._check_bins(bins)
        features = self.scorer.features
        matrix = features.matrix(bins.running, round(bins.start_s))
        return pd.DataFrame(matrix, columns=list(features.names)).assign(busy=bins.running)

    def explain_global(self) -> dict[str, Any]:
        """Importances and shape functions of the mean of the next bins, in nodes that a feature adds."""
        return explain_additive_global(self.scorer.additive["near_mean"], self.kind, "nodes")

    def explain_targets(self) -> dict[str, dict[str, Any]]:
        """The same of every target, by its name."""
        return {
            target: explain_additive_global(additive, self.kind, "nodes")
            for target, additive in self.scorer.additive.items()
        }

    def explain_local(self, row: "pd.Series[float] | Mapping[str, float]") -> dict[str, Any]:
        """What each feature adds to one forecast of the next bins' mean, in nodes, and its `reason` in words;
        `row` as in `features_of`.
        """
        values = [float(row[name]) for name in self.scorer.features.names]
        account = self.scorer.account(values, float(row["busy"]))
        explained = explain_additive_row(self.scorer.additive["near_mean"], values, account.forecast)
        for name in ("intercept", "score"):
            explained[name] += account.newest
        return {
            "model": self.kind,
            **explained,
            "unit": "nodes",
            "score_unit": "nodes",
            "newest": account.newest,
            "reason": account.sentence(),
        }

    def _check_bins(self, bins: NodeSeries) -> None:
        check_bin_length(round(bins.step_s), self.scorer.features.bin_s, "series")


def demand_outcomes(bins: NodeSeries, near_bins: int) -> dict[str, Floats]:
    """What followed each bin, by target of the scorer's TARGETS, each of shape (bins,), in nodes; NaN where
    that has not ended, or where it or the bin itself was not counted.
    """
    held = bins.held.astype(np.float64)
    outcomes = {}
    for target, ahead, follow in (
        ("near_mean", near_bins, mean_after),
        ("far_mean", 2 * near_bins, mean_after),
        ("near_peak", near_bins, highest_after),
    ):
        uncounted = np.full(held.size, np.nan)
        if held.size > ahead:
            uncounted[:-ahead] = rolling(held, ahead + 1, np.max)[ahead:]
        outcomes[target] = np.where(uncounted == 0.0, follow(bins.running, ahead), np.nan)
    return outcomes


def _offsets(boosted: BoostedModel, change: Floats) -> dict[float, float]:
    """Nodes to add to the forecast of the highest bin, by quantile of QUANTILES.

    The smallest of the errors that at least a share `quantile` of n + 1 do not exceed (split conformal
    prediction), each by a bag that did not learn from its week.
    """
    errors = np.sort(change - boosted.held_out_scores)
    ranks = {quantile: int(np.ceil(quantile * (errors.size + 1))) for quantile in QUANTILES}
    return {quantile: float(errors[min(rank, errors.size) - 1]) for quantile, rank in ranks.items()}


def _score(scorer: NodeDemandScorer, table: pd.DataFrame) -> pd.DataFrame:
    start_s = first_bin_s(table, scorer.features.bin_s)
    forecasts = scorer.predict_series(table["busy"].to_numpy(dtype=np.float64), start_s)
    return pd.DataFrame(forecasts, index=table.index)


# A table is a history of bins: each row is answered with what follows it, from the rows up to it.
FRAME = ServingFrame(
    {"bin_start_s": ("long", True), "busy": ("double", True)},
    dict.fromkeys(TARGETS, ("double", True)),
    _score,
)
