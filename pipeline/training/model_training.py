"""Train one model by name: what the DAG `retrain_models` maps its tasks to."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from foundation.errors import UnknownNameError
from foundation.jsonable import to_jsonable
from foundation.site import Site
from lucid_models.releases.manifest import MODEL_KINDS
from lucid_models.releases.optional_parts import optional_kinds
from pipeline.training.model_steps import TrainingTask, steps_of


def retrained_models() -> tuple[str, ...]:
    """The kinds that a retraining trains: those of every release, and those that a release may do without."""
    return (*MODEL_KINDS, *optional_kinds())


def train_model(
    site: Site, *, model: str, training_until: str, options: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Train `model` on the cluster's tables before `training_until` (ISO time); return its report's values.

    `options`: what can be chosen of the training of this kind, by the names of its step.

    Raises UnknownNameError for another model or kind, NotFoundError when the lake lacks a table or the part
    that brings the model is not installed.
    """
    train = steps_of(model).train
    if train is None:
        raise UnknownNameError("model", model, retrained_models())
    task = TrainingTask(site, datetime.fromisoformat(training_until))
    result: dict[str, Any] = to_jsonable(train(task, **(options or {})))
    return result
