"""Forecasts inference usage from finished bins, with NumPy alone: what a scheduler holds of the model.

A forecast is the newest bin plus a share of the additive model's change (lucid_models/additive_scorer.py) and
a share of the way to an exponentially weighted mean; MEMBERS names the shares. Upper quantiles follow the
misses of the history that the forecast is made of (`quantile_tracker`), so that a scorer keeps no state: the
same bins give the same forecast.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foundation.errors import BadInputError
from lucid_models.additive_scorer import AdditiveScorer, require_features
from lucid_models.model_format import Fields, make_document
from lucid_models.quantile_levels import read_by_level
from lucid_models.series_windows import Floats
from parts.lending.usage.features import LoadFeatures, ewma
from parts.lending.usage.quantile_tracker import MOST_SCALES, TrackerStart, tracked_offsets
from parts.lending.usage.reasons import LoadAccount, account_for_load

QUANTILES = (0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995)
# Member -> share of the additive model's change, share of the way to the weighted mean.
MEMBERS: Mapping[str, tuple[float, float]] = {
    "last_value": (0.0, 0.0),
    "ewma": (0.0, 1.0),
    "ebm": (1.0, 0.0),
    "ebm_ewma": (0.5, 0.5),
}
# A month of five-minute bins; what lies before has no part in a forecast.
HISTORY_BINS = 9_000

_Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class InferenceLoadForecast:
    """The usage (0 to 1) of the bin that follows: its mean, and upper quantiles by their level."""

    mean: float
    quantiles: Mapping[float, float]


@dataclass(frozen=True, slots=True)
class PastForecasts:
    """What was said of each bin before it began, arrays of shape (bins + 1,): the last is of the bin to come.

    Before the first bin nothing is known: a usage of 1 is said, so that nothing is lent.
    """

    mean: Floats
    quantiles: Mapping[float, Floats]


class InferenceLoadScorer:
    """Shape functions over `LoadFeatures` and a weighted mean; forecasts are within 0 and 1.

    `member`: of MEMBERS; `ewma_weight`: of the newest bin in the weighted mean; `start`: of the quantiles.
    """

    kind = "inference_load"

    def __init__(
        self,
        features: LoadFeatures,
        additive: AdditiveScorer,
        member: str,
        ewma_weight: float,
        start: TrackerStart,
        training: Mapping[str, Any] | None = None,
    ) -> None:
        require_features(additive, features.names, "The inference load model")
        self.features, self.additive, self.member = features, additive, member
        self.ewma_weight, self.start = ewma_weight, start
        self.training = dict(training or {})

    def forecast(
        self, usage: Floats, last_bin_start_s: float, gap: _Mask | None = None
    ) -> InferenceLoadForecast:
        """What follows `usage`: that of every finished bin, shape (bins,), oldest first, gaps held.

        The newest bin began at `last_bin_start_s` (seconds since 1970). `gap` marks bins that were not
        measured, of which quantiles learn nothing. At most HISTORY_BINS bins are read. Raises BadInputError
        for no bins and for usages outside 0 and 1.
        """
        values = checked_usage(usage)[-HISTORY_BINS:]
        first_bin_s = round(last_bin_start_s) - (values.size - 1) * self.features.bin_s
        forecasts = self.past_forecasts(values, first_bin_s, None if gap is None else gap[-values.size :])
        quantiles = {level: float(series[-1]) for level, series in forecasts.quantiles.items()}
        return InferenceLoadForecast(float(forecasts.mean[-1]), quantiles)

    def predict_series(self, usage: ArrayLike, first_bin_s: int, rows: slice = slice(None)) -> Floats:
        """The usage of the next bin, forecast at the end of every bin of `rows`, shape (rows,)."""
        values = checked_usage(usage)
        boosted, averaged = MEMBERS[self.member]
        newest = values[rows]
        change = averaged * (ewma(values, self.ewma_weight)[rows] - newest)
        if boosted:
            change += boosted * self.additive.predict(self.features.matrix(values, first_bin_s, rows))
        return np.clip(newest + change, 0.0, 1.0)

    def past_forecasts(self, usage: ArrayLike, first_bin_s: int, gap: _Mask | None = None) -> PastForecasts:
        """What would have been said of every bin, made of the bins before it; `gap` as in `forecast`."""
        values = checked_usage(usage)
        mean = np.concatenate([[1.0], self.predict_series(values, first_bin_s)])
        is_judged = np.ones(values.size, dtype=np.bool_)
        if gap is not None:
            is_judged = ~gap
            is_judged[1:] &= ~gap[:-1]
        is_judged[0] = False
        offsets = tracked_offsets(self.start, values - mean[:-1], is_judged)
        quantiles = {level: np.clip(mean + offset, 0.0, 1.0) for level, offset in offsets.items()}
        for series in quantiles.values():
            series[0] = 1.0
        return PastForecasts(mean, quantiles)

    def account(self, values: Sequence[float], averaged: float) -> LoadAccount:
        """Why one feature row is forecast as it is, in numbers; `averaged`: the weighted mean of that bin."""
        share, way = MEMBERS[self.member]
        contributions = dict(
            zip(self.additive.term_names, self.additive.contributions_one(values), strict=True)
        )
        return account_for_load(
            values[0],
            share * self.additive.intercept,
            {name: share * value for name, value in contributions.items()},
            way * (averaged - values[0]),
            float(self.features.bin_s),
        )

    def to_data(self) -> dict[str, Any]:
        """The saved form (model_format)."""
        return make_document(
            self.kind,
            {
                "features": self.features.to_data(),
                "additive": self.additive.to_data(),
                "member": self.member,
                "ewma_weight": self.ewma_weight,
                "scale": self.start.scale,
                "quantiles": list(self.start.multiples),
                "multiples": list(self.start.multiples.values()),
                "training": self.training,
            },
        )

    @classmethod
    def from_data(cls, document: Mapping[str, Any]) -> "InferenceLoadScorer":
        """Read what `to_data` wrote; raises CorruptModelError."""
        fields = Fields(document, "model").child("model")
        return cls(
            LoadFeatures.from_data(fields.child("features")),
            AdditiveScorer.from_data(fields.child("additive")),
            fields.text("member", choices=tuple(MEMBERS)),
            fields.number("ewma_weight", 0.01, 0.99),
            TrackerStart(fields.number("scale", 0.0, 1.0), read_by_level(fields, "multiples", MOST_SCALES)),
            fields.training(),
        )


def checked_usage(usage: ArrayLike) -> Floats:
    """A history of usage as an array; raises BadInputError for one that is none."""
    values = np.array(usage, dtype=np.float64)
    if values.ndim != 1 or not values.size:
        raise BadInputError(
            f"A history of usage has the shape {values.shape}.", remedy="Give one usage a bin."
        )
    if not np.isfinite(values).all() or values.min() < 0 or values.max() > 1:
        raise BadInputError(
            "The history of usage holds a value outside 0 and 1, or none.",
            remedy="Hold the last usage in gaps (parts.lending.load.series).",
        )
    return values
