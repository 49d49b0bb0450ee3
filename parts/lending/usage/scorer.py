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

from foundation.errors import ReleaseRefusedError
from lucid_models.additive_scorer import AdditiveScorer, require_features
from lucid_models.model_format import Fields, make_document
from lucid_models.series.scoring import ALWAYS, ChangeAccount, ChangeWords, checked_history, read_by_level
from lucid_models.series.windows import Floats
from parts.lending.usage.features import LoadFeatures, ewma
from parts.lending.usage.quantile_tracker import MOST_SCALES, TrackerStart, tracked_offsets

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

_BINS, _MEAN, _LEVEL, _HOUR = (
    "the last bins",
    "the way to their weighted mean",
    "the present level",
    "the hour",
)
_WORDS = ChangeWords(
    forecast=lambda tenths, ahead: f"{tenths / 10:g} % of the servers used over the next {ahead}",
    newest=lambda tenths: f"{tenths / 10:g} % are used now",
    bounds="none and all of them",
    singular=(_MEAN, _LEVEL, _HOUR, ALWAYS),
    scale=1_000,
    moves="in tenths of a per cent ",
)

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

    def account(self, values: Sequence[float], averaged: float) -> ChangeAccount:
        """Why one feature row is forecast as it is, in numbers; `averaged`: the weighted mean of that bin."""
        share, way = MEMBERS[self.member]
        newest, always = values[0], share * self.additive.intercept
        parts = {_BINS: 0.0, _MEAN: way * (averaged - newest), _LEVEL: 0.0, _HOUR: 0.0, ALWAYS: always}
        terms = zip(self.additive.term_names, self.additive.contributions_one(values), strict=True)
        for name, value in terms:
            parts[_HOUR if name.endswith("hour") else _LEVEL if name == "usage" else _BINS] += share * value
        return ChangeAccount.of(_WORDS, newest, 1.0, parts, float(self.features.bin_s))

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
    return checked_history(usage, "usage", "usage", most=1.0, gaps_in="parts.lending.load.series")


def check_pinned(load: InferenceLoadScorer, loaning: Mapping[str, Any]) -> None:
    """Refuse a forecast that a release pins where it lacks the quantile that the settings of servers on loan
    go by, or answers a plain input with what cannot be.
    """
    wanted, levels = loaning.get("quantile"), list(load.start.multiples)
    if loaning.get("usage") == "forecast" and wanted not in levels:
        raise ReleaseRefusedError(
            f"The forecast of inference has no quantile {wanted}, by which the settings lend servers.",
            remedy=f"Set quantile to one of {', '.join(f'{level:g}' for level in levels)}.",
        )
    usage = load.forecast(np.full(300, 0.5), 0.0)
    if not all(0 <= value <= 1 for value in (usage.mean, *usage.quantiles.values())):
        raise ReleaseRefusedError(f"The inference load model forecasts a usage of {usage.mean} on a probe.")
