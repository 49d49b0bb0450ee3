"""Throughput Predict Model: how many jobs, or GPUs, will be asked for in a bin to come.

An additive model (GA2M) over calendar and history, as in Lucid section 3.5.2, of multiples of the present
level (features.py). Its loss is nearly the absolute error (pseudo-Huber), which a few extreme bins
cannot steer, weighted so that it counts jobs or GPUs; a bin counts half as much for every two months that it
is older than the newest one. Validation bags are whole weeks. The newest part of the history chooses how far
forecasts lean on naive ones instead (blend); since then the errors of the last day move that.
Nothing is learned from unusual silences (silences).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foundation.errors import BadInputError
from lucid_models.boosting import BoostingSettings
from lucid_models.explanation.additive import explain_additive_global, explain_additive_row
from lucid_models.scorer_model import ScorerModel, check_bin_length
from lucid_models.series.fitting import BinClock, boost_bins, check_history, longest_span_s
from lucid_models.series.windows import DAY_S
from lucid_models.throughput.blend import FOLLOWED_DAYS, PARTS, Blend, best_blend, held_out_bins
from lucid_models.throughput.features import LEVEL, ThroughputFeatures
from lucid_models.throughput.scorer import NAIVE_TERMS, SERIES, ThroughputScorer
from lucid_models.throughput.silences import newest_known, usual_silence_bins

DEFAULT_LEAD_BINS = 5
BOOSTING = BoostingSettings(
    objective="pseudo_huber:delta=0.1",
    max_bins=64,
    learning_rate=0.03,
    smoothing_rounds=200,
    patience_rounds=50,
)
MIN_HISTORY_S = 2 * DAY_S
HALF_LIFE_DAYS = 60.0  # a bin that is older by this counts half in training
LEAST_WEIGHT = 2.0**-30  # of the oldest bins: the library takes no weights that vanish beside others


@dataclass(frozen=True)
class ThroughputSettings:
    """How the model is trained.

    `lead_bins` >= 1: how many bins a forecast bin lies after the newest one that it is made from.
    `utc_offset_s`: the cluster's local time minus UTC. `missing_bins`: what a bin means that the table lacks
    between its first and last one ("zero": nothing was submitted, "unknown": not counted).
    """

    lead_bins: int = DEFAULT_LEAD_BINS
    utc_offset_s: int = 0
    missing_bins: str = "unknown"
    boosting: BoostingSettings = BOOSTING

    def __post_init__(self) -> None:
        if self.lead_bins < 1:
            raise BadInputError(
                f"A lead of {self.lead_bins} bins would read the bin to forecast.",
                remedy="Choose at least 1.",
            )
        if self.missing_bins not in ("zero", "unknown"):
            raise BadInputError(
                f"missing_bins={self.missing_bins!r} is not known.", remedy="Choose 'zero' or 'unknown'."
            )


@dataclass(frozen=True)
class BinnedSeries:
    """One count a bin without gaps: `counts[i]` belongs to the bin at `first_bin_s + i * bin_s`, NaN when
    unknown.
    """

    counts: NDArray[np.float64]
    first_bin_s: int
    bin_s: int
    position: NDArray[np.intp]  # of each row of the table, in `counts`


def binned_series(throughput: pd.DataFrame, series: str, missing_bins: str = "unknown") -> BinnedSeries:
    """One column of a throughput table (THROUGHPUT_SCHEMA) as a series without gaps.

    Raises BadInputError for an empty table, mixed bin lengths, bins off the grid or counted twice, negative
    counts.
    """
    if series not in SERIES:
        raise BadInputError(f"Unknown series {series!r}.", remedy=f"Choose one of: {', '.join(SERIES)}.")
    for name in ("bin_start", "bin_s", series):
        if name not in throughput.columns:
            raise BadInputError(
                f"The throughput table lacks the column {name}.", remedy="Read it with Lake.read_throughput."
            )
    if throughput.empty:
        raise BadInputError("The throughput table is empty.", remedy="Ingest a log that covers the period.")
    lengths = throughput["bin_s"].unique()
    if len(lengths) != 1:
        raise BadInputError(
            f"The throughput table mixes bins of {sorted(lengths)} s.", remedy="Use one length."
        )
    bin_s = int(lengths[0])
    seconds = pd.to_datetime(throughput["bin_start"], utc=True).astype("datetime64[s, UTC]").astype("int64")
    start = seconds.to_numpy(dtype=np.int64)
    first = int(start.min())
    position, rest = np.divmod(start - first, bin_s)
    if rest.any() or np.unique(position).size != position.size:
        raise BadInputError(
            f"The throughput table has bins off the grid of {bin_s} s or the same bin twice.",
            remedy="Give the table of one cluster, as Lake.read_throughput returns it.",
        )
    size = int(position.max()) + 1
    if size > 20_000_000:
        raise BadInputError(f"The throughput table spans {size} bins.", remedy="Check its dates.")
    counts = np.full(size, 0.0 if missing_bins == "zero" else np.nan)
    counts[position] = throughput[series].astype("Float64").to_numpy(dtype=np.float64, na_value=np.nan)
    if (np.nan_to_num(counts) < 0).any():
        raise BadInputError(f"The series {series} holds a negative count.", remedy="Ingest the log again.")
    return BinnedSeries(counts, first, bin_s, position.astype(np.intp))


class ThroughputPredictModel(ScorerModel[ThroughputScorer]):
    """Forecast of one series at one lead."""

    kind = "throughput"
    words, fit_words = "throughput model", "fit(throughput)"
    scorer_type = ThroughputScorer

    def __init__(self, settings: ThroughputSettings | None = None) -> None:
        self.settings = settings or ThroughputSettings()

    def fit(
        self,
        throughput: pd.DataFrame,
        series: str = "submitted_gpu_jobs",
        lead_bins: int | None = None,
    ) -> "ThroughputPredictModel":
        """Learn from a throughput table; two days are the least, and longer spans are used as they become
        available. `lead_bins` stands in for that of the settings.

        Raises BadInputError when the history is too short or holds no count.
        """
        lead_bins = self.settings.lead_bins if lead_bins is None else lead_bins
        data = binned_series(throughput, series, self.settings.missing_bins)
        known_s = int((~np.isnan(data.counts)).sum()) * data.bin_s
        check_history(known_s, MIN_HISTORY_S, "throughput")
        blend = self._validated_blend(data, series, lead_bins)
        self._scorer = self._fitted(data, series, lead_bins)
        end_s = data.first_bin_s + data.counts.size * data.bin_s
        followed_bins = FOLLOWED_DAYS * DAY_S // data.bin_s
        self._scorer.blend = replace(blend, followed_bins=followed_bins, since_s=end_s)
        return self

    def _validated_blend(self, data: BinnedSeries, series: str, lead_bins: int) -> Blend:
        """What a model of the older bins says of the newest ones decides how far this one is trusted."""
        held_out = held_out_bins(data.counts.size, DAY_S // data.bin_s)
        older = replace(data, counts=data.counts[: data.counts.size - held_out])
        try:
            scorer = self._fitted(older, series, lead_bins)
        except BadInputError:
            return Blend.of_share(0.0)  # too short to hold anything out: the learned forecast is not proven
        newest = slice(older.counts.size, None)
        rows = scorer.features.matrix(data.counts, data.first_bin_s, newest)
        truth = newest_known(data.counts, scorer.features.usual_silence_bins)[newest]
        return best_blend(truth, scorer.parts(rows), DAY_S // data.bin_s)

    def _fitted(self, data: BinnedSeries, series: str, lead_bins: int) -> ThroughputScorer:
        """A scorer of shape functions alone."""
        silence_bins = usual_silence_bins(data.counts, DAY_S // data.bin_s)
        is_known = ~np.isnan(newest_known(data.counts, silence_bins))
        known_s = int(is_known.sum()) * data.bin_s
        features = ThroughputFeatures(
            data.bin_s, lead_bins, self.settings.utc_offset_s, longest_span_s(known_s), silence_bins
        )
        matrix = features.matrix(data.counts, data.first_bin_s)
        warm_up = min(max((*features.mean_bins, lead_bins)), data.counts.size // 3)
        rows = np.flatnonzero(is_known)
        rows = rows[rows >= warm_up]
        if rows.size < 100:
            raise BadInputError(
                f"{rows.size} bins with a known history at lead {lead_bins} are too few to learn from.",
                remedy="Give a longer history or choose a shorter lead.",
            )
        matrix = matrix[rows]
        target = data.counts[rows]
        level = np.exp(matrix[:, features.names.index(LEVEL)])
        known_levels = level[~np.isnan(level)]
        usual_level = float(np.median(known_levels)) if known_levels.size else 1.0
        level = np.where(np.isnan(level), usual_level, level)
        recency = np.exp2((rows - rows[-1]) * (data.bin_s / DAY_S / HALF_LIFE_DAYS))
        recency = np.maximum(recency, LEAST_WEIGHT)
        # An error counts by its size in jobs or GPUs, not in levels.
        weights = recency * level
        boosted = boost_bins(
            rows,
            matrix[:, :-1],
            target / level,
            features.learned_names,
            self.settings.boosting,
            BinClock(data.first_bin_s, data.bin_s, self.settings.utc_offset_s),
            weights / weights.mean(),
        )
        return ThroughputScorer(
            series,
            features,
            boosted.scorer,
            float(max(10.0, 2.0 * target.max())),
            usual_level,
            {
                "first_bin_s": data.first_bin_s,
                "last_bin_s": data.first_bin_s + (data.counts.size - 1) * data.bin_s,
                "rows": int(rows.size),
                "mean": float(target.mean()),
                "boosting": self.settings.boosting.to_data(),
            },
        )

    def predict(self, throughput: pd.DataFrame) -> NDArray[np.float64]:
        """Forecast of each row's bin from the bins of the table that lie at least the lead before it.

        Give the history together with the rows of interest; shape (rows of the table,).
        """
        data = self._binned(throughput)
        return self.scorer.predict_series(data.counts, data.first_bin_s)[data.position]

    def predict_next(self, history: pd.DataFrame, horizon: int) -> NDArray[np.float64]:
        """Forecast of the `horizon` bins after the table's last one, shape (horizon,)."""
        data = self._binned(history)
        return self.scorer.predict_next(data.counts, data.first_bin_s, horizon)

    def features_of(self, throughput: pd.DataFrame) -> pd.DataFrame:
        """The features that each row of the table is forecast from."""
        data = self._binned(throughput)
        matrix = self.scorer.features.matrix(data.counts, data.first_bin_s)[data.position]
        return pd.DataFrame(matrix, columns=list(self.scorer.features.names), index=throughput.index)

    def weights_of(self, throughput: pd.DataFrame) -> NDArray[np.float64]:
        """What each of blend.PARTS weighs in the forecast of each row of the table, shape (rows, 3)."""
        data = self._binned(throughput)
        return self.scorer.weights_of_series(data.counts, data.first_bin_s)[data.position]

    def explain_global(self) -> dict[str, Any]:
        """Importances and shape functions, Figure 7 (a, b): how much of the level a feature's value adds."""
        return explain_additive_global(self.scorer.additive, self.kind, "multiple of the level")

    def explain_local(
        self, row: pd.Series | Mapping[str, float], weights: NDArray[np.float64] | None = None
    ) -> dict[str, Any]:
        """What each feature adds to one forecast, in jobs or GPUs a bin, and its `reason` in words
        (reasons.py); `row` as in `features_of`, `weights` as in `weights_of` (None: as since
        training).
        """
        values = [float(row[name]) for name in self.scorer.features.names]
        account = self.scorer.account(values, weights)
        explained = explain_additive_row(self.scorer.additive, values, account.forecast)
        # Scores are multiples of the level; times the level they add up in the unit of the forecast.
        row_alone = np.array([values])
        weights, said = np.array(account.weights), self.scorer.parts(row_alone)[0]
        for name in ("intercept", "score"):
            explained[name] *= account.level * weights[0]
        for term in explained["terms"]:
            term["contribution"] *= account.level * weights[0]
        newest = values[self.scorer.features.names.index(self.scorer.features.newest_name)]
        for name, value, weight, naive in zip(
            NAIVE_TERMS, (values[-1], newest), weights[1:], said[1:], strict=True
        ):
            if weight > 0.0:
                explained["score"] += weight * naive
                explained["terms"].append({"term": name, "values": [value], "contribution": weight * naive})
        explained["terms"].sort(key=lambda term: -abs(term["contribution"]))
        unit = f"{account.unit} a bin"
        return {
            "model": self.kind,
            **explained,
            "unit": unit,
            "score_unit": unit,
            "level": account.level,
            "weights": dict(zip(PARTS, account.weights, strict=True)),
            "reason": account.sentence(),
        }

    def _binned(self, throughput: pd.DataFrame) -> BinnedSeries:
        data = binned_series(throughput, self.scorer.series, self.settings.missing_bins)
        check_bin_length(data.bin_s, self.scorer.features.bin_s, "table")
        return data
