"""Forecasts busy nodes from finished bins, with NumPy alone: what a scheduler holds of the node demand model.

A forecast is the newest bin plus a sum of shape functions (lucid_models/additive_scorer.py), one such sum for
each of three targets: the mean of the next `near_bins` bins, of the next twice as many, and the highest of
the next `near_bins`. Quantiles of the highest are its forecast plus offsets that were calibrated on days that
the shapes were not learned from (split conformal prediction; Lei et al., JASA 2018).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from foundation.errors import ReleaseRefusedError
from lucid_models.additive_scorer import AdditiveScorer, require_features
from lucid_models.model_format import Fields, make_document
from lucid_models.series.scoring import ALWAYS, ChangeAccount, ChangeWords, checked_history, read_by_level
from lucid_models.series.windows import Floats
from parts.node_sleep.demand.features import DemandFeatures

TARGETS = ("near_mean", "far_mean", "near_peak")
QUANTILES = (0.5, 0.8, 0.9, 0.95)
MOST_NODES = 1e7
_HOURS, _DAYS, _CALENDAR = "the last hours", "the pattern of the last days", "the hour and the day"
_WORDS = ChangeWords(
    forecast=lambda nodes, ahead: f"{_nodes(nodes)} busy on average over the next {ahead}",
    newest=lambda nodes: f"{nodes} are busy now",
    bounds="what the cluster can have",
    singular=(_DAYS, ALWAYS),
)


@dataclass(frozen=True, slots=True)
class NodeDemandForecast:
    """What is expected at the end of the newest finished bin, in nodes.

    `near_mean`: mean of busy nodes over the next `near_bins` bins; `far_mean`: over the next twice as many;
    `near_peak`: quantile -> that quantile of the highest bin of the next `near_bins`.
    """

    near_mean: float
    far_mean: float
    near_peak: Mapping[float, float]


class NodeDemandScorer:
    """Shape functions over `DemandFeatures`; forecasts are finite and within [0, `ceiling`].

    `additive`: by target of TARGETS; `peak_offsets`: nodes by quantile, rising. A simulator's control takes
    it for its forecaster as it is (parts/node_sleep/replay/control.py).
    """

    kind = "node_demand"

    def __init__(
        self,
        features: DemandFeatures,
        additive: Mapping[str, AdditiveScorer],
        peak_offsets: Mapping[float, float],
        ceiling: float,
        training: Mapping[str, Any] | None = None,
    ) -> None:
        for target in TARGETS:
            require_features(additive[target], features.names, "The node demand model")
        self.features, self.ceiling = features, ceiling
        self.additive = {target: additive[target] for target in TARGETS}
        self.peak_offsets = dict(sorted(peak_offsets.items()))
        self.training = dict(training or {})

    def forecast(self, busy: Floats, last_bin_start_s: float) -> NodeDemandForecast:
        """What follows `busy`: the busy nodes of every finished bin, shape (bins,), oldest first, gaps held.

        The newest bin began at `last_bin_start_s` (seconds since 1970). Raises BadInputError for no bins and
        for counts that are negative or not finite.
        """
        values = _history(busy)[-self.features.history_bins :]
        first_bin_s = round(last_bin_start_s) - (values.size - 1) * self.features.bin_s
        row = self.features.matrix(values, first_bin_s, slice(-1, None))[0].tolist()
        newest = float(values[-1])
        near, far, peak = (
            min(max(newest + self.additive[target].score_one(row), 0.0), self.ceiling) for target in TARGETS
        )
        peaks = {
            quantile: min(max(peak + offset, 0.0), self.ceiling)
            for quantile, offset in self.peak_offsets.items()
        }
        return NodeDemandForecast(near, far, peaks)

    def predict_series(self, busy: ArrayLike, first_bin_s: int) -> dict[str, Floats]:
        """The forecast at the end of every bin, by target of TARGETS, each of shape (bins,); row t is made of
        bins up to t. `near_peak` is without its offsets.
        """
        values = _history(busy)
        rows = self.features.matrix(values, first_bin_s)
        return {
            target: np.clip(values + self.additive[target].predict(rows), 0.0, self.ceiling)
            for target in TARGETS
        }

    def account(self, values: Sequence[float], newest: float, target: str = "near_mean") -> ChangeAccount:
        """Why one feature row of a bin with `newest` busy nodes is forecast as it is, in numbers."""
        additive = self.additive[target]
        parts = dict.fromkeys((_HOURS, _DAYS, _CALENDAR), 0.0) | {ALWAYS: additive.intercept}
        for name, value in zip(additive.term_names, additive.contributions_one(values), strict=True):
            parts[_group(name)] += value
        ahead_s = self.features.near_bins * self.features.bin_s * (2 if target == "far_mean" else 1)
        return ChangeAccount.of(_WORDS, newest, self.ceiling, parts, ahead_s)

    def to_data(self) -> dict[str, Any]:
        """The saved form (model_format)."""
        return make_document(
            self.kind,
            {
                "features": self.features.to_data(),
                "additive": {target: self.additive[target].to_data() for target in TARGETS},
                "quantiles": list(self.peak_offsets),
                "peak_offsets": list(self.peak_offsets.values()),
                "ceiling": self.ceiling,
                "training": self.training,
            },
        )

    @classmethod
    def from_data(cls, document: Mapping[str, Any]) -> "NodeDemandScorer":
        """Read what `to_data` wrote; raises CorruptModelError."""
        fields = Fields(document, "model").child("model")
        additive = fields.child("additive")
        return cls(
            DemandFeatures.from_data(fields.child("features")),
            {target: AdditiveScorer.from_data(additive.child(target)) for target in TARGETS},
            read_by_level(fields, "peak_offsets", MOST_NODES),
            fields.number("ceiling", 0.0, MOST_NODES),
            fields.training(),
        )


def check_pinned(nodes: NodeDemandScorer, node_sleep: Mapping[str, Any]) -> None:
    """Refuse a forecast that a release pins where it looks ahead another time than the control's settings say
    (Helios' f), or answers a plain input with what cannot be.
    """
    wanted, near_bins = node_sleep.get("near_bins"), nodes.features.near_bins
    if node_sleep.get("control") == "forecast" and wanted != near_bins:
        raise ReleaseRefusedError(
            f"The forecast of nodes looks {near_bins} bins ahead; the settings of sleeping nodes say "
            f"near_bins = {wanted}.",
            remedy=f"Set near_bins to {near_bins}, or train with it: lucid train nodes --near-bins {wanted}.",
        )
    ahead = nodes.forecast(np.ones(300), 0.0)
    if not all(0 <= value < math.inf for value in (ahead.near_mean, ahead.far_mean)):
        raise ReleaseRefusedError(f"The node demand model forecasts {ahead.near_mean} busy nodes on a probe.")


def _history(busy: ArrayLike) -> Floats:
    return checked_history(busy, "busy nodes", "count", gaps_in="cluster_logs.node_series")


def _group(term: str) -> str:
    if not term.startswith("busy_"):
        return _CALENDAR
    return _DAYS if term.startswith("busy_after_") else _HOURS


def _nodes(number: int) -> str:
    return f"{number} {'node' if number == 1 else 'nodes'}"
