"""Which models a retraining trains, and which versions it keeps.

New measurements of GPUs say nothing about when jobs come or how long they run: they are worth a new packing
model beside the throughput and duration models that there are. A version is kept only if the gate may judge
it on the held-out window, that is, if it has seen none of it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from cluster_logs.lake import Lake
from cluster_logs.log_span import busy_days, submission_span
from foundation.errors import check_names
from foundation.site import Site
from lucid_models.registry import RegisteredVersion, Registry
from lucid_models.releases.building import model_versions
from lucid_models.releases.optional_parts import optional_kinds
from lucid_models.training_data import profile_dataset
from pipeline.profiling.profile_store import stored_profile_set
from pipeline.training.model_steps import steps_of
from pipeline.training.model_training import retrained_models
from pipeline.training.windows import DEFAULT_HOLD_OUT_DAYS, training_window_end


@dataclass(frozen=True)
class TrainingPlan:
    """What is trained and what is kept: every model is in one of the two, unless it is optional and cannot be
    trained. `remarks` say why it is so, `reasons` by the name of each model that is not trained.
    """

    train: tuple[str, ...]
    kept: dict[str, int]
    hold_out_days: int
    training_until: datetime
    remarks: tuple[str, ...]
    reasons: Mapping[str, str] = field(default_factory=dict)


def plan_training(
    site: Site,
    *,
    models: Sequence[str] | None = None,
    needed: Sequence[str] = (),
    hold_out_days: int | None = None,
    as_of: datetime | None = None,
) -> TrainingPlan:
    """Plan to train `models` and to keep the cluster's newest version of each other one.

    Without `models` all are trained, the optional ones where the lake has what they learn from. An optional
    one of those `needed` is trained as well if there is none to keep.

    A model without a version, or with a newest one that has learned from what the gate will replay, is
    trained with the rest. Without `hold_out_days` the window is as long as the kept models have not seen, at
    most two weeks.

    Raises UnknownNameError for an unknown model, NotFoundError when the lake has no jobs,
    BadInputError when the held-out window leaves nothing to learn from.
    """
    every, optional = retrained_models(), optional_kinds()
    requested = set(models or every)
    check_names("model", sorted(requested), every)
    registry = Registry(site.registry)
    newest = {name: _newest(site, registry, name) for name in every if name not in requested}
    days = hold_out_days or _unseen_days(site, newest, as_of)
    until = training_window_end(site, days, as_of)
    remarks: list[str] = []
    reasons: dict[str, str] = {}
    kept: dict[str, int] = {}
    for name, version in newest.items():
        if version is None and name in optional and name not in needed:
            reasons[name] = f"The {name} model was not asked for, and there is none to keep."
        elif version is None:
            remarks.append(f"There is no {name} model for cluster {site.cluster!r} yet: it is trained too.")
        elif (learned := version_learned_until(version)) is not None and learned > until:
            remarks.append(
                f"The {name} model, version {version.version}, has learned until {learned:%Y-%m-%d %H:%M}, "
                f"but the gate replays what came after {until:%Y-%m-%d %H:%M} UTC: it is trained again."
            )
        else:
            kept[name] = version.version
            reasons[name] = f"The {name} model stays version {version.version}."
    for name in optional:
        if name not in {*kept, *reasons} and (reason := _too_few_days(site, name, until)):
            reasons[name] = reason
    train = tuple(name for name in every if name not in {*kept, *reasons})
    return TrainingPlan(train, kept, days, until, (*remarks, *reasons.values()), reasons)


def _too_few_days(site: Site, model: str, until: datetime) -> str | None:
    """Why an optional model cannot be learned from the lake; None: it can."""
    learned_from = steps_of(model).learned_from
    if learned_from is None:
        return None
    table, what, least_days = learned_from
    days = [day for day in Lake(site.lake).dates(site.cluster, table) if day < until.date()]
    if len(days) >= least_days:
        return None
    return (
        f"The {model} model is left out: the lake has {what} of {len(days)} days before "
        f"{until:%Y-%m-%d %H:%M} UTC, and {least_days} {'is' if least_days == 1 else 'are'} needed."
    )


def _newest(site: Site, registry: Registry, model: str) -> RegisteredVersion | None:
    """The newest version of a model that belongs to the cluster."""
    if model == "packing":
        # A packing model of GPUs may name no cluster: the profiles say which one is the cluster's.
        profiles = stored_profile_set(site)
        if profiles is None:
            return None
        tag, value = "dataset_digest", profile_dataset(profiles.solo, profiles.pairs).digest
    else:
        tag, value = "cluster", site.cluster
    versions = model_versions(registry, model, site.cluster)
    return next((version for version in versions if version.tags.get(tag) == value), None)


def _unseen_days(site: Site, newest: dict[str, RegisteredVersion | None], as_of: datetime | None) -> int:
    """How many whole days with jobs the models have not seen, from 1 to two weeks; two weeks if none."""
    ends = [
        end for version in newest.values() if version is not None and (end := version_learned_until(version))
    ]
    if not ends:
        return DEFAULT_HOLD_OUT_DAYS
    _, last = submission_span(site.lake, site.cluster, as_of)
    unseen = math.floor(busy_days(site.lake, site.cluster).between(max(ends), last))
    return min(unseen, DEFAULT_HOLD_OUT_DAYS) if unseen >= 1 else DEFAULT_HOLD_OUT_DAYS


def version_learned_until(version: RegisteredVersion) -> datetime | None:
    """Return until when a registered model learned; None where it does not say."""
    end = version.tags.get("training_until")
    return None if end is None else datetime.fromisoformat(end)
