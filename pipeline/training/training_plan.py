"""Which of the three models a retraining trains, and which versions it keeps.

New measurements of GPUs say nothing about when jobs come or how long they run: they are worth a new packing
model beside the throughput and duration models that there are. A version is kept only if the gate may judge
it on the held-out window, that is, if it has seen none of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from foundation.errors import NotFoundError, UnknownNameError
from lucid_models.registry import RegisteredVersion, Registry
from lucid_models.releases.building import MODEL_NAMES
from lucid_models.training_data import profile_dataset
from pipeline.profiling.profile_store import read_profile_set
from pipeline.training.model_training import MODELS
from pipeline.training.windows import DEFAULT_HOLD_OUT_DAYS, submission_span, training_window_end


@dataclass(frozen=True)
class TrainingPlan:
    """What is trained and what is kept: every model is in one of the two. `remarks` say why it is so."""

    train: tuple[str, ...]
    kept: dict[str, int]
    hold_out_days: int
    training_until: datetime
    remarks: tuple[str, ...]


def plan_training(
    *,
    lake_uri: str,
    cluster: str,
    tracking_uri: str,
    models: Sequence[str] | None = None,
    hold_out_days: int | None = None,
    as_of: datetime | None = None,
) -> TrainingPlan:
    """Plan to train `models` (default: all) and to keep the cluster's newest version of each other one.

    A model of which there is no version, or whose newest has learned from what the gate will replay, is
    trained with the rest. Without `hold_out_days` the window is as long as the kept models have not seen, at
    most two weeks.

    Raises UnknownNameError for an unknown model, NotFoundError when the lake has no jobs,
    BadInputError when the held-out window leaves nothing to learn from.
    """
    asked = set(models or MODELS)
    for name in sorted(asked):
        if name not in MODELS:
            raise UnknownNameError("model", name, MODELS)
    registry = Registry(tracking_uri)
    newest = {name: _newest(registry, name, lake_uri, cluster) for name in MODELS if name not in asked}
    days = hold_out_days or _unseen_days(newest, lake_uri, cluster, as_of)
    until = training_window_end(lake_uri, cluster, days, as_of)
    remarks: list[str] = []
    kept: dict[str, int] = {}
    for name, version in newest.items():
        if version is None:
            remarks.append(f"There is no {name} model for cluster {cluster!r} yet: it is trained too.")
        elif (learned := _learned_until(version)) is not None and learned > until:
            remarks.append(
                f"The {name} model, version {version.version}, has learned until {learned:%Y-%m-%d %H:%M}, "
                f"but the gate replays what came after {until:%Y-%m-%d %H:%M} UTC: it is trained again."
            )
        else:
            kept[name] = version.version
            remarks.append(f"The {name} model stays version {version.version}.")
    train = tuple(name for name in MODELS if name not in kept)
    return TrainingPlan(train, kept, days, until, tuple(remarks))


def _newest(registry: Registry, model: str, lake_uri: str, cluster: str) -> RegisteredVersion | None:
    """The newest version of a model that belongs to the cluster."""
    if model == "packing":
        # A packing model belongs to GPUs and names no cluster: the profiles tell which one is the cluster's.
        try:
            profiles = read_profile_set(lake_uri, cluster)
        except NotFoundError:
            return None
        tag, value = "dataset_digest", profile_dataset(profiles.solo, profiles.pairs).digest
    else:
        tag, value = "cluster", cluster
    versions = registry.versions(MODEL_NAMES[model])
    return next((version for version in versions if version.tags.get(tag) == value), None)


def _unseen_days(
    newest: dict[str, RegisteredVersion | None], lake_uri: str, cluster: str, as_of: datetime | None
) -> int:
    """How many whole days of the log the models have not seen, from 1 to two weeks; two weeks if none."""
    ends = [end for version in newest.values() if version is not None and (end := _learned_until(version))]
    if not ends:
        return DEFAULT_HOLD_OUT_DAYS
    _, last = submission_span(lake_uri, cluster, as_of)
    unseen = (last - max(ends)) // timedelta(days=1)
    return min(unseen, DEFAULT_HOLD_OUT_DAYS) if unseen >= 1 else DEFAULT_HOLD_OUT_DAYS


def _learned_until(version: RegisteredVersion) -> datetime | None:
    end = version.tags.get("training_until")
    return None if end is None else datetime.fromisoformat(end)
