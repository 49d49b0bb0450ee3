"""The models there are. A model that is listed here must pass the conformance test; one that is not does not
exist.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

from foundation.errors import UnknownNameError
from lucid_models.duration.model import WorkloadEstimateModel
from lucid_models.inference_load.model import InferenceLoadModel
from lucid_models.node_demand.model import NodeDemandModel
from lucid_models.packing.model import PackingAnalyzeModel
from lucid_models.throughput.model import ThroughputPredictModel
from lucid_models.utilisation.model import UtilisationModel
from lucid_models.waits.model import WaitModel


class LucidModel(Protocol):
    """What every model offers besides its own fit and predict."""

    kind: str

    def explain_global(self) -> dict[str, Any]:
        """Importances and shapes of the whole model."""

    def to_data(self) -> dict[str, Any]:
        """The saved form."""

    @classmethod
    def from_data(cls, document: Mapping[str, Any]) -> Self:
        """Read the saved form."""


@dataclass(frozen=True)
class CatalogueEntry:
    """One model: its kind (also the name of its file in a release), its published name, its class."""

    kind: str
    title: str
    model: type[LucidModel]
    predicts: str
    lower_is_better: str


CATALOGUE: Mapping[str, CatalogueEntry] = {
    entry.kind: entry
    for entry in (
        CatalogueEntry(
            "packing",
            "Packing Analyze Model",
            PackingAnalyzeModel,
            "Sharing Score (0 Tiny, 1 Medium, 2 Jumbo) of a job from its solo profile",
            "error_rate",
        ),
        CatalogueEntry(
            "throughput",
            "Throughput Predict Model",
            ThroughputPredictModel,
            "jobs or GPUs submitted in a bin to come",
            "mae",
        ),
        CatalogueEntry(
            "duration",
            "Workload Estimate Model",
            WorkloadEstimateModel,
            "run time of a job in seconds: P50, P90 and mean",
            "mae_log10",
        ),
        CatalogueEntry(
            "utilisation",
            "Utilisation Model",
            UtilisationModel,
            "GPU utilisation, memory utilisation and memory of a job from its computation graph",
            "gpu_util_pct_mae",
        ),
        CatalogueEntry(
            "node_demand",
            "Node Demand Model",
            NodeDemandModel,
            "busy nodes of a cluster over the next hours: two means, and quantiles of the highest",
            "near_mean_mae",
        ),
        CatalogueEntry(
            "inference_load",
            "Inference Load Model",
            InferenceLoadModel,
            "share of the inference servers in use in the next bin: its mean and upper quantiles",
            "mse",
        ),
        CatalogueEntry(
            "waits",
            "Wait Model",
            WaitModel,
            "how long the waiting jobs of a queue go on waiting: P50 and P90, in seconds",
            "mse_log10",
        ),
    )
}


def load_catalogue_entry(kind: str) -> CatalogueEntry:
    """The entry of a kind; raises UnknownNameError with the kinds that exist."""
    if kind not in CATALOGUE:
        raise UnknownNameError("kind of model", kind, CATALOGUE)
    return CATALOGUE[kind]
