"""What the forms' fields may say: no place that a worker may not open, no free text unthought of."""

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from lucid_airflow.operators.base import LucidOperator

DAGS = sorted(file.stem for file in (Path(__file__).parents[2] / "dags").glob("*.py"))

# Free text that names nothing to open: words, times, patterns of names, looked up or compared and no more.
WORDS = {
    "characterise_cluster": {"time_zone", "start", "end"},
    "evaluate_policies": {"policies", "rules", "source_format", "time_zone", "start", "end"},
    "ingest_logs": {"time_zone", "start", "end"},
    "monitor_live": {"as_of"},
    "plan_capacity": {"rules", "source_format", "time_zone", "start", "end"},
    "profile_workloads": {"workloads"},
    "rollback_release": {"reason"},
    "search_pareto_front": {"pick", "virtual_cluster"},
}
# Values by name. What of them names a file, as a policy's configuration may, is checked when it is opened.
OBJECTS = {
    "evaluate_policies": {"node_sleep", "settings", "variants"},
    "monitor_live": {"settings"},
    "plan_capacity": {"node_sleep", "settings"},
    "tune_system": {"search"},
    "validate_release": {"rules"},
}


def is_free(schema: dict[str, Any], kind: str) -> bool:
    """Whether a field takes any text (or object) at all."""
    if "items" in schema and not is_free(schema["items"], kind):
        return False
    types = schema["items"]["type"] if "items" in schema else schema.get("type", "string")
    return kind in (types if isinstance(types, list) else [types]) and not {
        *("enum", "pattern", "format", "reads_from"),
    } & {*schema, *schema.get("items", ())}


@pytest.mark.slow
@pytest.mark.parametrize("dag_id", DAGS)
def test_a_field_of_free_text_is_a_place_or_known_words(dag_bag: Any, dag_id: str) -> None:
    """A new text field must be declared: with `form_fields.place`, a pattern or an enum, or named above."""
    params = dag_bag.dags[dag_id].params
    schemas = {name: params.get_param(name).schema for name in params}
    for kind, known in (("string", WORDS), ("object", OBJECTS)):
        assert {name for name in schemas if is_free(schemas[name], kind)} == known.get(dag_id, set())
    places = {name for name in schemas if "reads_from" in schemas[name]}
    assert {name for name in schemas if name.endswith(("_uri", "_path", "_dir", "_file"))} <= places


def places(dag_bag: Any) -> list[tuple[str, str]]:
    return [
        (dag_id, name)
        for dag_id, dag in dag_bag.dags.items()
        for name in dag.params
        if "reads_from" in dag.params.get_param(name).schema
    ]


@pytest.mark.slow
def test_no_task_begins_when_a_field_names_a_place_outside(
    dag_bag: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("LUCID_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("LUCID_LAKE_URI", str(tmp_path / "state" / "lake"))
    monkeypatch.setenv("LUCID_LIVE", "http://127.0.0.1:1")
    monkeypatch.setattr(LucidOperator, "log_progress", lambda self: pytest.fail("the task has begun"))
    fields = places(dag_bag)
    assert len(fields) >= 12
    for dag_id, name in fields:
        dag = dag_bag.dags[dag_id]
        title = dag.params.get_param(name).schema["title"]
        tasks = [task for task in dag.tasks if isinstance(task, LucidOperator)]
        assert tasks
        for task in tasks:
            for value in ("/etc/passwd", "http://127.0.0.1:2/x", f"{tmp_path}/state/secrets/key"):
                params = {**dag.params.dump(), name: value}
                caplog.clear()
                with pytest.raises(AirflowFailException, match="BadInputError"):
                    task.execute({"dag": dag, "params": params})
                (reason,) = [entry.message for entry in caplog.records if entry.levelname == "ERROR"]
                assert reason.startswith(f"Field {title!r}: {value!r} lies outside")
                assert "LUCID_INPUT_ROOTS" in reason


def test_the_inbox_the_lake_and_the_live_scheduler_are_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lucid_airflow import settings

    monkeypatch.setenv("LUCID_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("LUCID_LAKE_URI", "s3://lucid-lake")
    monkeypatch.setenv("LUCID_INPUT_ROOTS", f"{tmp_path}/logs, s3://logs/")
    monkeypatch.setenv("LUCID_LIVE", "http://127.0.0.1:1")
    for place in (
        f"{tmp_path}/state/inbox/a.gz",
        f"{tmp_path}/logs/a",
        "s3://lucid-lake/jobs",
        "s3://logs/a",
    ):
        settings.input_roots().admit(place)
    for place in ("http://127.0.0.1:1", f"{tmp_path}/state/live/mine"):
        settings.live_roots().admit(place)
