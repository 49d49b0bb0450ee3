"""How models of one kind are trained on a cluster's tables, and their answers explained."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from cluster_logs.lake import Lake
from foundation.errors import UnknownNameError
from foundation.parts import at_place, lacking, offered
from foundation.site import Site
from lucid_models.releases.manifest import MODEL_KINDS

if TYPE_CHECKING:
    from pipeline.training.explanations import ExplainedPrediction, RegisteredModel


@dataclass(frozen=True)
class TrainingTask:
    """A cluster's tables before `until`, and where the model that learns from them is registered."""

    site: Site
    until: datetime

    @property
    def of_lake(self) -> dict[str, Any]:
        """The arguments of trainings that read the lake."""
        return {
            "lake_uri": self.site.lake,
            "cluster": self.site.cluster,
            "tracking_uri": self.site.registry,
            "train_until": self.until,
            "progress": self.site.progress,
        }


class LearnedFrom(NamedTuple):
    """What a lake must have for a training: `least_days` days of a table, that holds `what`."""

    table: str
    what: str
    least_days: int


@dataclass(frozen=True)
class ModelSteps:
    """The steps of one kind of model (`foundation.parts.Part.model_steps`).

    - `explain(model, lake, cluster, job_ids)` explains predictions; BadInputError for jobs that such a model
      knows nothing of, NotFoundError for one that the lake does not hold.
    - `train(task, **options)` trains and registers a version, and returns its report; None: a command of its
      own does.
    - `learned_from`: without that a retraining leaves it out (None: every cluster has what it learns from).
    """

    explain: "Callable[[RegisteredModel, Lake, str, Sequence[str]], list[ExplainedPrediction]]"
    train: Callable[..., object] | None = None
    learned_from: LearnedFrom | None = None


def steps_of(kind: str) -> ModelSteps:
    """The steps of a kind; raises NotFoundError without its part, UnknownNameError for no kind."""
    places = _places()
    if kind not in places:
        raise lacking().get(f"model {kind}") or UnknownNameError("model", kind, places)
    steps: ModelSteps = at_place(places[kind])
    return steps


def _places() -> Mapping[str, str]:
    own = {kind: f"pipeline.training.core_models:{kind.upper()}" for kind in MODEL_KINDS}
    return own | offered("model_steps")
