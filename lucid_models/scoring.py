"""What a live scheduler loads of a release: its models as scorers that need NumPy alone.

scorer = load_scorer("duration.json")            # by the kind that the file names
scorer.estimate([{"job_id": "7", "gpus": 4, "user": "u17", ...}])
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foundation.parts import at_place
from lucid_models.additive_scorer import AdditiveScorer
from lucid_models.catalogue import load_catalogue_entry
from lucid_models.duration.scorer import DurationEstimate, DurationScorer
from lucid_models.model_format import Fields, load_model, make_document
from lucid_models.packing.pairwise import PairwiseScorer, read_pairwise, require_pairwise
from lucid_models.packing.tree import (
    PackingSettings,
    SharingScore,
    explain_path,
    read_settings,
    read_tree,
    stack_metrics,
)
from lucid_models.throughput.scorer import ThroughputForecasts, ThroughputScorer, holds_forecasts
from lucid_models.tree_scorer import TreeScorer

__all__ = [
    "AdditiveScorer",
    "DurationEstimate",
    "DurationScorer",
    "PackingScorer",
    "Scorer",
    "SharingScore",
    "ThroughputForecasts",
    "ThroughputScorer",
    "TreeScorer",
    "load_scorer",
    "scorer_from_document",
]


class PackingScorer:
    """Sharing Scores from solo metrics; the speeds of pairs too, if the model is of the kind "pairwise"."""

    kind = "packing"

    def __init__(
        self,
        settings: PackingSettings,
        tree: TreeScorer,
        training: Mapping[str, Any],
        pairwise: PairwiseScorer | None = None,
    ) -> None:
        self.settings, self.tree, self.training, self.pairwise = settings, tree, dict(training), pairwise

    def predict(
        self, gpu_util_pct: ArrayLike, gpu_mem_util_pct: ArrayLike, gpu_mem_mib: ArrayLike, amp: ArrayLike
    ) -> NDArray[np.intp]:
        """Sharing Scores (0, 1, 2), shape (rows,); an unknown metric is NaN."""
        return self.tree.predict(stack_metrics(gpu_util_pct, gpu_mem_util_pct, gpu_mem_mib, amp))

    def pair_speeds(
        self, first: NDArray[np.float64], second: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and lower speed of pairs, both (rows,), from the metrics of both jobs, (rows, 4) in the order
        of packing.model.FEATURES; raises BadInputError unless the model is of the kind "pairwise".
        """
        return require_pairwise(self.pairwise).predict(first, second)

    def explain(self, row: Sequence[float]) -> dict[str, Any]:
        """The decisions behind one score; `row` in the order of packing.model.FEATURES."""
        return explain_path(self.tree, row)

    def explain_pair(self, first: Sequence[float], second: Sequence[float]) -> dict[str, Any]:
        """What each feature adds to the speeds of one pair; errors as `pair_speeds`."""
        return require_pairwise(self.pairwise).explain(first, second)

    def to_data(self) -> dict[str, Any]:
        """The saved form (model_format)."""
        return make_document(
            self.kind,
            {
                "settings": {
                    name: getattr(self.settings, name) for name in self.settings.__dataclass_fields__
                },
                "tree": self.tree.to_data(),
                "pairwise": None if self.pairwise is None else self.pairwise.to_data(),
                "training": self.training,
            },
        )

    @classmethod
    def from_data(cls, document: Mapping[str, Any]) -> "PackingScorer":
        """Read what a packing model's `to_data` wrote; raises CorruptModelError."""
        fields = Fields(document, "model").child("model")
        settings = read_settings(fields.child("settings"))
        return cls(settings, read_tree(fields), fields.training(), read_pairwise(fields, settings))


class Scorer(Protocol):
    """What scores with a saved model, as its kind does (`CatalogueEntry.scorer`)."""

    kind: str

    def to_data(self) -> dict[str, Any]:
        """The saved form (model_format)."""


def load_scorer(path: str | os.PathLike[str], *, kind: str | None = None) -> Scorer:
    """Load a saved model, whole or not at all.

    Raises FormatVersionError for a version of another program, CorruptModelError for anything else that is
    wrong.
    """
    return scorer_from_document(load_model(path, kind=kind))


def scorer_from_document(document: Mapping[str, Any]) -> Scorer:
    """The scorer that a document of `model_format` holds; errors as in `load_scorer`."""
    scorer: Scorer = at_place(load_catalogue_entry(str(document.get("kind"))).scorer)(document)
    return scorer


def read_throughput(document: Mapping[str, Any]) -> ThroughputForecasts | ThroughputScorer:
    """The scorer of both series, or of one, as the document holds."""
    return (ThroughputForecasts if holds_forecasts(document) else ThroughputScorer).from_data(document)
