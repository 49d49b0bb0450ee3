"""Forecasts the throughput from its history, with NumPy alone: what a live scheduler holds of the throughput
model.

A release holds both series in one file, because the dynamic strategy (Lucid section 3.4) reads both:

    {"kind": "throughput", "model": {"members": {"submitted_gpu_jobs": {...}, "submitted_gpus": {...}}}}
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foundation.errors import BadInputError, UnknownNameError
from lucid_models.additive_scorer import AdditiveScorer, require_features
from lucid_models.model_format import CorruptModelError, Fields, make_document
from lucid_models.series.scoring import checked_history
from lucid_models.throughput.blend import PARTS, SILENT_BELOW, Blend, followed_weights
from lucid_models.throughput.features import LEVEL, MEDIAN, ThroughputFeatures
from lucid_models.throughput.reasons import ForecastAccount, account_for_forecast

SERIES = ("submitted_gpu_jobs", "submitted_gpus")
NAIVE_TERMS = (MEDIAN, "newest_value")  # in an explanation, what the naive parts of a forecast are called


class ThroughputScorer:
    """Shape functions over `ThroughputFeatures`; their sum is a multiple of the present level; forecasts are
    finite and within [0, `ceiling`].

    `usual_level` is the level where no bin is known. `blend`: what the shape functions, the rolling median
    and the newest value weigh in a forecast, at first and as their errors are followed.
    """

    kind = "throughput"

    def __init__(
        self,
        series: str,
        features: ThroughputFeatures,
        additive: AdditiveScorer,
        ceiling: float,
        usual_level: float,
        training: Mapping[str, Any] | None = None,
        blend: Blend | None = None,
    ) -> None:
        require_features(additive, features.learned_names, "The throughput model")
        self.series, self.features, self.additive = series, features, additive
        self.ceiling, self.usual_level = ceiling, usual_level
        self.training = dict(training or {})
        self.blend = blend or Blend()

    @property
    def history_bins(self) -> int:
        """Bins before a forecast bin that it is made from: those of its features, and of the forecasts
        with errors that its weights follow.
        """
        followed = self.blend.followed_bins
        return self.features.history_bins + (followed + self.features.lead_bins if followed else 0)

    def predict_rows(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Forecast of each feature row by the weights of training, in the series' unit (jobs or GPUs)."""
        return self._weighed(self.parts(rows), self.weights(rows))

    def _weighed(self, parts: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        weighed = np.where(weights > 0.0, weights * parts, 0.0)
        forecasts: NDArray[np.float64] = np.clip(weighed.sum(axis=1), 0.0, self.ceiling)
        return forecasts

    def weights(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """What each of blend.PARTS weighs in each row's forecast since training, shape (rows, 3)."""
        return self.blend.weights(self.parts(rows)[:, PARTS.index("median")])

    def parts(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """What each of blend.PARTS says of each feature row, in the series' unit, shape (rows, 3); NaN: too
        few bins are known.
        """
        levels = self.levels(rows)
        naive = [
            # Rounded, so that a median of zeros is zero after the way over logarithms.
            np.clip(
                np.round(levels * np.exp(rows[:, self.features.names.index(name)]) - 1.0, 6),
                0.0,
                self.ceiling,
            )
            for name in (MEDIAN, self.features.newest_name)
        ]
        return np.stack([levels * self.additive.predict(rows[:, :-1]), *naive], axis=1)

    def levels(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """The level that each feature row is measured against, shape (rows,), in the series' unit."""
        level = rows[:, self.features.names.index(LEVEL)]
        return np.exp(np.where(np.isnan(level), np.log(self.usual_level), level))

    def account(self, values: Sequence[float], weights: NDArray[np.float64] | None = None) -> ForecastAccount:
        """Why one feature row is forecast as it is, in numbers; `sentence()` says it in words.

        `weights`: what each of blend.PARTS weighs in it (`weights_of_series`); None: as since training.
        """
        row = np.array([values], dtype=np.float64)
        level, said = float(self.levels(row)[0]), self.parts(row)[0]
        weights = self.weights(row)[0] if weights is None else weights
        learned = zip(self.additive.term_names, self.additive.contributions_one(values), strict=True)
        added = {name: float(weights[0]) * value for name, value in learned}
        for name, weight, naive in zip(NAIVE_TERMS, weights[1:], said[1:], strict=True):
            if weight > 0.0:
                added[name] = float(weight * naive) / level
        return account_for_forecast(
            self.series,
            self.features.bin_s,
            float(self._weighed(said[None], weights[None])[0]),
            level,
            float(weights[0]) * self.additive.intercept,
            added,
            dict(zip(self.features.names, values, strict=True)),
            tuple(weights.tolist()),
        )

    def predict_series(
        self, counts: ArrayLike, first_bin_s: int, rows: slice | None = None
    ) -> NDArray[np.float64]:
        """Forecast of every bin from the bins that lie at least `lead_bins` before it, shape (bins,).

        `rows` forecasts a part of the bins, such as `slice(-4_032, None)`, in less time.
        """
        return self._weighed(*self._said(_history(counts), first_bin_s, rows))

    def weights_of_series(
        self, counts: ArrayLike, first_bin_s: int, rows: slice | None = None
    ) -> NDArray[np.float64]:
        """What each of blend.PARTS weighs in the forecasts of `predict_series`, shape (rows, 3)."""
        return self._said(_history(counts), first_bin_s, rows)[1]

    def _said(
        self, counts: NDArray[np.float64], first_bin_s: int, rows: slice | None, recorded: int | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """What each of blend.PARTS says of each row, and what it weighs. Only the first `recorded` bins came
        (None: all), and only their errors are followed.
        """
        kept = np.arange(counts.size)[rows if rows is not None else slice(None)]
        followed, lead = self.blend.followed_bins, self.features.lead_bins
        start = max(int(kept.min(initial=counts.size)) - followed - lead, 0)
        since = (self.blend.since_s - first_bin_s) // self.features.bin_s
        if not followed or not kept.size or since > kept[-1] - lead:
            parts = self.parts(self.features.matrix(counts, first_bin_s, rows))
            return parts, self.blend.weights(parts[:, PARTS.index("median")])
        reached = np.arange(start, int(kept[-1]) + 1)
        parts = self.parts(self.features.matrix(counts, first_bin_s, slice(start, reached[-1] + 1)))
        weights = self.blend.weights(parts[:, PARTS.index("median")])
        came = (reached >= since) & (reached < (counts.size if recorded is None else recorded))
        is_silent = parts[:, PARTS.index("median")] < SILENT_BELOW
        is_whole = ~np.isnan(parts).any(axis=1)  # a part that says nothing has no say
        for known_here, known in self.features.known_to(counts, reached):
            errors = np.abs(np.clip(parts, 0.0, self.ceiling) - known[reached][:, None])
            for alike in (is_silent, ~is_silent):  # each by errors of times of its kind
                here = known_here & alike & is_whole
                heard = np.where((came & alike)[:, None], errors, np.nan)
                newest = reached[here] - lead - start
                weights[here] = followed_weights(weights[here], heard, newest, followed)
        return parts[kept - start], weights[kept - start]

    def predict_next(self, counts: ArrayLike, first_bin_s: int, horizon: int) -> NDArray[np.float64]:
        """Forecast of the `horizon` bins that follow the history, shape (horizon,).

        Direct up to `lead_bins` ahead: what the model was trained for. Recursive beyond: the earlier
        forecasts take the place of bins still to come. A model trained with the horizon as its
        lead forecasts all of it directly.
        """
        if not 1 <= horizon <= 100_000:
            raise BadInputError(f"A horizon of {horizon} bins is not possible.", remedy="Choose 1 to 100000.")
        history = _history(counts)
        reach = self.history_bins
        start = max(history.size - reach, 0)
        known, first = history[start:], first_bin_s + start * self.features.bin_s
        lead = self.features.lead_bins
        forecasts: list[float] = []
        while len(forecasts) < horizon:
            step = min(lead, horizon - len(forecasts))
            extended = np.concatenate([known, forecasts, np.full(step, np.nan)])
            said = self._said(extended, first, slice(-step, None), recorded=known.size)
            forecasts.extend(self._weighed(*said).tolist())
        return np.array(forecasts)

    def to_data(self) -> dict[str, Any]:
        """The saved form (model_format)."""
        return make_document(
            self.kind,
            {
                "series": self.series,
                "features": self.features.to_data(),
                "additive": self.additive.to_data(),
                "ceiling": self.ceiling,
                "usual_level": self.usual_level,
                "blend": self.blend.to_data(),
                "training": self.training,
            },
        )

    @classmethod
    def from_data(cls, document: Mapping[str, Any]) -> "ThroughputScorer":
        """Read what `to_data` wrote; raises CorruptModelError."""
        fields = Fields(document, "model").child("model")
        return cls(
            fields.text("series", choices=SERIES),
            ThroughputFeatures.from_data(fields.child("features")),
            AdditiveScorer.from_data(fields.child("additive")),
            fields.number("ceiling", 0.0, 1e12),
            fields.number("usual_level", 1.0, 1e12),
            fields.training(),
            Blend.from_data(fields.child("blend")),
        )


class ThroughputForecasts:
    """Both series, versioned together: `scorers` maps the series to its scorer."""

    kind = "throughput"

    def __init__(self, scorers: Mapping[str, ThroughputScorer]) -> None:
        """Raises CorruptModelError when a series lacks its scorer or has that of another."""
        if set(scorers) != set(SERIES) or any(scorers[series].series != series for series in SERIES):
            raise CorruptModelError(
                f"The throughput model holds the series {sorted(scorers)}, not {', '.join(SERIES)}.",
                remedy="Train the throughput model again.",
            )
        self.scorers = {series: scorers[series] for series in SERIES}

    def scorer(self, series: str) -> ThroughputScorer:
        """The scorer of one series; raises UnknownNameError with the series that exist."""
        if series not in self.scorers:
            raise UnknownNameError("series", series, self.scorers)
        return self.scorers[series]

    def predict_next(self, series: str, counts: ArrayLike, first_bin_s: int, horizon: int) -> NDArray[Any]:
        """Forecast of the `horizon` bins that follow the history of one series, shape (horizon,)."""
        return self.scorer(series).predict_next(counts, first_bin_s, horizon)

    def to_data(self) -> dict[str, Any]:
        """The saved form (model_format)."""
        members = {series: scorer.to_data()["model"] for series, scorer in self.scorers.items()}
        return make_document(self.kind, {"members": members})

    @classmethod
    def from_data(cls, document: Mapping[str, Any]) -> "ThroughputForecasts":
        """Read what `to_data` wrote; raises CorruptModelError."""
        model = Fields(document, "model").child("model")
        members = model.child("members")
        return cls(
            {
                series: ThroughputScorer.from_data(make_document(cls.kind, members.raw(series)))
                for series in model.names("members")
            }
        )


def holds_forecasts(document: Mapping[str, Any]) -> bool:
    """Whether a throughput document holds both series rather than one."""
    model = document.get("model")
    return isinstance(model, dict) and "members" in model


def _history(counts: ArrayLike) -> NDArray[np.float64]:
    return checked_history(counts, "throughput", "count")
