"""Inference Load Model: how much of the inference servers will be in use, so that the others may be lent.

Lyra (section 6) forecasts the next five minutes of inference usage with two LSTM layers over ten bins. Ours
is additive, averaged with an exponentially weighted mean where that did better, and says upper quantiles
beside the mean, of which headroom is made. Below two days of history the weighted mean or the last value
answers alone, whichever erred less.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from foundation.float_sums import add_in_order
from lucid_models.explanation.additive import explain_additive_global, explain_additive_row
from lucid_models.scorer_model import ScorerModel, check_bin_length
from lucid_models.series.windows import Floats
from lucid_models.serving_frames import ServingFrame, first_bin_s
from parts.lending.load.series import InferenceSeries
from parts.lending.usage.features import LEVEL, ewma
from parts.lending.usage.fitting import LoadSettings, fit_load_scorer
from parts.lending.usage.scorer import MEMBERS, InferenceLoadScorer, PastForecasts

# The weighted mean of the newest bin's history, which is no feature of the additive model.
AVERAGED = "weighted_mean"
_UNIT = "share of the servers"


class InferenceLoadModel(ScorerModel[InferenceLoadScorer]):
    """Forecast of the usage of one cluster's inference servers."""

    kind = "inference_load"
    words, fit_words = "inference load model", "fit(series)"
    scorer_type = InferenceLoadScorer

    def __init__(self, settings: LoadSettings | None = None) -> None:
        self.settings = settings or LoadSettings()

    def fit(self, series: InferenceSeries) -> "InferenceLoadModel":
        """Learn from a series; raises BadInputError when it is too short."""
        self._scorer = fit_load_scorer(series, self.settings)
        return self

    def predict(self, series: InferenceSeries) -> Floats:
        """The usage of the next bin, forecast at the end of every bin, shape (bins,)."""
        self._check(series)
        return self.scorer.predict_series(series.usage, round(series.start_s))

    def past_forecasts(self, series: InferenceSeries) -> PastForecasts:
        """What would have been said of every bin before it began: mean and quantiles."""
        self._check(series)
        return self.scorer.past_forecasts(series.usage, round(series.start_s), series.gap)

    def features_of(self, series: InferenceSeries) -> pd.DataFrame:
        """The features of the forecast at the end of each bin, and the weighted mean that it goes back to."""
        self._check(series)
        features = self.scorer.features
        matrix = features.matrix(series.usage, round(series.start_s))
        averaged = ewma(series.usage, self.scorer.ewma_weight)
        return pd.DataFrame(matrix, columns=list(features.names)).assign(**{AVERAGED: averaged})

    def explain_global(self) -> dict[str, Any]:
        """Importances and shape functions of the additive model, in shares of the servers; `member` says how
        much of it a forecast takes. A model of a short history has none.
        """
        boosted, averaged = MEMBERS[self.scorer.member]
        return {
            **explain_additive_global(self.scorer.additive, self.kind, _UNIT),
            "member": self.scorer.member,
            "share_of_shapes": boosted,
            "share_of_weighted_mean": averaged,
            "ewma_weight": self.scorer.ewma_weight,
        }

    def explain_local(self, row: "pd.Series[float] | Mapping[str, float]") -> dict[str, Any]:
        """What each feature and the weighted mean add to one forecast, and its `reason` in words; `row` as in
        `features_of`.
        """
        scorer = self.scorer
        values = [float(row[name]) for name in scorer.features.names]
        newest, averaged = float(row[LEVEL]), float(row[AVERAGED])
        account = scorer.account(values, averaged)
        share, way = MEMBERS[scorer.member]
        explained = explain_additive_row(scorer.additive, values, account.forecast)
        terms = [{**term, "contribution": share * term["contribution"]} for term in explained["terms"]]
        terms.append({"term": AVERAGED, "values": [averaged], "contribution": way * (averaged - newest)})
        intercept = newest + share * scorer.additive.intercept
        return {
            "model": self.kind,
            **explained,
            "intercept": intercept,
            "score": add_in_order((term["contribution"] for term in terms), intercept),
            "terms": sorted(terms, key=lambda term: -abs(term["contribution"])),
            "unit": _UNIT,
            "score_unit": _UNIT,
            "newest": newest,
            "member": scorer.member,
            "reason": account.sentence(),
        }

    def _check(self, series: InferenceSeries) -> None:
        check_bin_length(series.bin_s, self.scorer.features.bin_s, "series")


def _score(scorer: InferenceLoadScorer, table: pd.DataFrame) -> pd.DataFrame:
    start_s = first_bin_s(table, scorer.features.bin_s)
    forecasts = scorer.predict_series(table["usage"].to_numpy(dtype=np.float64), start_s)
    return pd.DataFrame({"usage_forecast": forecasts}, index=table.index)


# A table is a history of bins: each row is answered with what follows it, from the rows up to it.
FRAME = ServingFrame(
    {"bin_start_s": ("long", True), "usage": ("double", True)},
    {"usage_forecast": ("double", True)},
    _score,
)
