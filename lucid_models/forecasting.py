"""Forecasts the throughput from its history, with NumPy alone: what a live scheduler holds of the throughput
model.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cluster_logs.errors import BadInputError
from lucid_models.additive_scorer import AdditiveScorer, require_features
from lucid_models.model_format import Fields, make_document
from lucid_models.throughput_features import DAY_S, ThroughputFeatures

SERIES = ("submitted_gpu_jobs", "submitted_gpus")
TRANSFORMS = ("identity", "sqrt")


class ThroughputScorer:
    """Shape functions over `ThroughputFeatures`; forecasts are finite and within [0, `ceiling`]."""

    kind = "throughput"

    def __init__(
        self,
        series: str,
        features: ThroughputFeatures,
        additive: AdditiveScorer,
        transform: str,
        ceiling: float,
        training: Mapping[str, Any] | None = None,
    ) -> None:
        require_features(additive, features.names, "The throughput model")
        self.series, self.features, self.additive = series, features, additive
        self.transform, self.ceiling = transform, ceiling
        self.training = dict(training or {})

    def predict_rows(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Forecast of each feature row, in the series' unit (jobs or GPUs a bin)."""
        score = self.additive.predict(rows)
        value = np.square(np.maximum(score, 0.0)) if self.transform == "sqrt" else score
        return np.clip(value, 0.0, self.ceiling)

    def predict_series(
        self, counts: ArrayLike, first_bin_s: int, rows: slice | None = None
    ) -> NDArray[np.float64]:
        """Forecast of every bin from the bins that lie at least `lead_bins` before it, shape (bins,).

        `rows` forecasts a part of the bins, such as `slice(-4_032, None)`, in less time.
        """
        return self.predict_rows(self.features.matrix(_history(counts), first_bin_s, rows))

    def predict_next(self, counts: ArrayLike, first_bin_s: int, horizon: int) -> NDArray[np.float64]:
        """Forecast of the `horizon` bins that follow the history, shape (horizon,).

        Direct up to `lead_bins` ahead: what the model was trained for. Recursive beyond: the earlier
        forecasts take the place of bins that nobody has seen yet. A model trained with the horizon as its
        lead forecasts all of it directly.
        """
        if not 1 <= horizon <= 100_000:
            raise BadInputError(f"A horizon of {horizon} bins is not possible.", remedy="Choose 1 to 100000.")
        history = _history(counts)
        reach = self.features.history_bins
        start = max(history.size - reach, 0)
        known, first = history[start:], first_bin_s + start * self.features.bin_s
        lead = self.features.lead_bins
        forecasts: list[float] = []
        while len(forecasts) < horizon:
            step = min(lead, horizon - len(forecasts))
            extended = np.concatenate([known, forecasts, np.full(step, np.nan)])
            forecasts.extend(self.predict_series(extended, first, slice(-step, None)).tolist())
        return np.array(forecasts)

    def to_data(self) -> dict[str, Any]:
        """The saved form (model_format)."""
        return make_document(
            self.kind,
            {
                "series": self.series,
                "features": self.features.to_data(),
                "additive": self.additive.to_data(),
                "transform": self.transform,
                "ceiling": self.ceiling,
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
            fields.text("transform", choices=TRANSFORMS),
            fields.number("ceiling", 0.0, 1e12),
            fields.details("training"),
        )


def local_days(first_bin_s: int, bins: int, bin_s: int, utc_offset_s: int) -> NDArray[np.intp]:
    """Number of the local day of each bin."""
    return ((first_bin_s + utc_offset_s + bin_s * np.arange(bins, dtype=np.int64)) // DAY_S).astype(np.intp)


def _history(counts: ArrayLike | Sequence[float]) -> NDArray[np.float64]:
    values = np.array(counts, dtype=np.float64)
    if values.ndim != 1:
        raise BadInputError(
            f"A history has one dimension, not {values.ndim}.", remedy="Give one count a bin."
        )
    if values.size and (np.isinf(values).any() or np.nanmin(np.append(values, 0.0)) < 0):
        raise BadInputError(
            "The history holds a negative or infinite count.",
            remedy="Mark unknown bins as NaN and check the counts.",
        )
    return values
