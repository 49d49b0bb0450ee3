"""Both throughput series in one file: jobs and GPUs submitted per bin, forecast side by side.

    {"kind": "throughput", "model": {"members": {"submitted_gpu_jobs": {...}, "submitted_gpus": {...}}}}

A release holds one throughput model, and the dynamic strategy (Lucid section 3.4) reads both series, so they
are versioned together. Needs NumPy only.
"""

from collections.abc import Mapping
from typing import Any

from numpy.typing import ArrayLike, NDArray

from foundation.errors import UnknownNameError
from lucid_models.model_format import CorruptModelError, Fields, make_document
from lucid_models.throughput.scorer import SERIES, ThroughputScorer


class ThroughputForecasts:
    """One scorer a series; `scorers` maps the series to its scorer."""

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
