"""What installed parts add to `ingest_logs` and `retrain_models`: fields of their forms, and tasks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow.sdk import DAG, Param

from foundation.parts import hooks

Fields = Callable[[], dict[str, Param]]


@dataclass(frozen=True)
class TrainedPart:
    """A part in `retrain_models`: at the place `training_form` of a `Part`.

    - `models`: the kinds that are trained for it, each with those fields of the form that are its options.
    - `fields`, `rare`: fields that it adds to the form: open ones, and folded ones.
    - `asked`: those of them that ask something of the release (`pipeline.release.part_settings`).
    """

    models: Mapping[str, tuple[str, ...]]
    fields: Fields = dict
    rare: Fields = dict
    asked: tuple[str, ...] = ()


@dataclass(frozen=True)
class TrainedParts:
    """All installed parts in `retrain_models`, together."""

    models: dict[str, tuple[str, ...]] = field(default_factory=dict)
    fields: dict[str, Param] = field(default_factory=dict)
    rare: dict[str, Param] = field(default_factory=dict)
    asked: tuple[str, ...] = ()


def trained_parts() -> TrainedParts:
    """Return what installed parts add."""
    found = [each for _, each in hooks("training_form")]
    return TrainedParts(
        {kind: options for each in found for kind, options in each.models.items()},
        {name: param for each in found for name, param in each.fields().items()},
        {name: param for each in found for name, param in each.rare().items()},
        tuple(name for each in found for name in each.asked),
    )


@dataclass(frozen=True)
class IngestedPart:
    """A part in `ingest_logs`: at the place `ingest_form` of a `Part`.

    `fields`: what it adds to the form. `add_tasks`: makes its tasks in the DAG, and returns the first, which
    waits for the jobs, and the last, which must hold before the tables are announced.
    """

    fields: Fields
    add_tasks: Callable[[DAG], tuple[Any, Any]]


def ingested_fields() -> dict[str, Param]:
    """Return what installed parts add to the form of `ingest_logs`."""
    return {name: param for _, each in hooks("ingest_form") for name, param in each.fields().items()}


def add_ingested_parts(dag: DAG, *, after: Any, before: Any) -> None:
    """Make the tasks of installed parts in `ingest_logs`, between two of its own."""
    for _, each in hooks("ingest_form"):
        first, last = each.add_tasks(dag)
        after >> first
        last >> before
