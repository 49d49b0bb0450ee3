"""What installed parts add to the core's DAGs (`Part.forms`): fields of their forms, and tasks."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow.sdk import DAG, Param

from foundation.parts import at_place, installed_parts
from lucid_airflow import form_fields

Fields = Callable[[], dict[str, Param]]


@dataclass(frozen=True)
class TrainedPart:
    """A part in `retrain_models`.

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
    found = list(_forms("retrain_models"))
    return TrainedParts(
        {kind: options for each in found for kind, options in each.models.items()},
        {name: param for each in found for name, param in each.fields().items()},
        {name: param for each in found for name, param in each.rare().items()},
        tuple(name for each in found for name in each.asked),
    )


@dataclass(frozen=True)
class IngestedPart:
    """A part in `ingest_logs`.

    `fields`: what it adds to the form. `add_tasks`: makes its tasks in the DAG, and returns the first, which
    waits for the jobs, and the last, which must hold before the tables are announced.
    """

    fields: Fields
    add_tasks: Callable[[DAG], tuple[Any, Any]]


def ingested_fields() -> dict[str, Param]:
    """Return what installed parts add to the form of `ingest_logs`."""
    return {name: param for each in _forms("ingest_logs") for name, param in each.fields().items()}


def add_ingested_parts(dag: DAG, *, after: Any, before: Any) -> None:
    """Make the tasks of installed parts in `ingest_logs`, between two of its own."""
    for each in _forms("ingest_logs"):
        first, last = each.add_tasks(dag)
        after >> first
        last >> before


@dataclass(frozen=True)
class StudiedPart:
    """A part in the form of a study, `plan_capacity` or `evaluate_policies`.

    - `section`, `fields`: what it adds to the form, folded in that section.
    - `asked`: those of the fields that ask something.
    - `of_log`: those that say what lies beside the log, by the names that the study has for them.
    """

    section: str
    fields: Fields
    asked: tuple[str, ...]
    of_log: Mapping[str, str] = field(default_factory=dict)


def studied_fields(dag_id: str) -> dict[str, Param]:
    """Return what installed parts add to a study's form."""
    return {
        name: param
        for each in _forms(dag_id)
        for name, param in form_fields.folded(each.section, each.fields()).items()
    }


def asked_of_parts(dag: DAG) -> dict[str, Any]:
    """Return what a study's form asks of installed parts."""
    return form_fields.answers(dag, *(name for each in _forms(dag.dag_id) for name in each.asked))


def beside_log(dag: DAG) -> dict[str, Any]:
    """Return what a study's form says of what lies beside the log."""
    return {name: dag.param(of) for each in _forms(dag.dag_id) for name, of in each.of_log.items()}


def _forms(dag_id: str) -> Iterator[Any]:
    for part in installed_parts():
        if dag_id in part.forms:
            yield at_place(part.forms[dag_id])
