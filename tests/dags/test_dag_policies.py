"""What every DAG must have. A new DAG file is checked without being listed here."""

import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from foundation.parts import installed_parts
from lucid_airflow.dag_defaults import dag_ids

DAGS_DIR = Path(__file__).parents[2] / "dags"
FILES = sorted(DAGS_DIR.glob("*.py"))
VERBS = {
    *(
        "announce",
        "apply",
        "ask",
        "build",
        "characterise",
        "check",
        "collect",
        "evaluate",
        "forecast",
        "ingest",
        "measure",
        "monitor",
        "plan",
    ),
    "propose",
    *(
        "publish",
        "read",
        "remove",
        "renew",
        "request",
        "resolve",
        "rollback",
        "simulate",
        "train",
        "validate",
    ),
}
HEAVY = (
    "pandas",
    "numpy",
    "pyarrow",
    "mlflow",
    "great_expectations",
    "sklearn",
    "interpret",
    "matplotlib",
    "pipeline",
    "local_stack",
    "lucid_cli",
)

OF_PARTS = [dag.dag_id for part in installed_parts() for dag in part.dags]
ids = [*(file.stem for file in FILES if file.stem != "dags_of_parts"), *OF_PARTS]


@pytest.mark.slow
def test_all_files_are_dags_that_load(dag_bag: Any) -> None:
    assert dag_bag.import_errors == {}
    assert set(dag_bag.dags) == set(ids) == set(dag_ids())


@pytest.mark.slow
def test_a_list_of_dags_says_what_each_is_for(dag_bag: Any) -> None:
    names = [dag.dag_display_name for dag in dag_bag.dags.values()]
    assert len(set(names)) == len(names)
    for dag in dag_bag.dags.values():
        assert dag.dag_display_name != dag.dag_id
        assert dag.description is not None
        assert dag.description.endswith((".", "?"))


@pytest.mark.parametrize("dag_id", ids)
def test_policies_of_a_dag(dag_bag: Any, dag_id: str) -> None:
    dag = dag_bag.dags[dag_id]
    assert dag.doc_md
    assert dag.doc_md.strip().startswith("###")
    assert "lucid" in dag.tags
    assert dag.max_active_runs == (4 if dag_id == "evaluate_policies" else 1)
    assert dag.dagrun_timeout is not None
    assert not dag.catchup
    for name in dag.params:
        param = dag.params.get_param(name)
        assert param.schema.get("title"), f"{name} has no title in the form"
        assert "type" in param.schema or "enum" in param.schema, f"{name} has no type"


@pytest.mark.parametrize("dag_id", ids)
def test_policies_of_tasks(dag_bag: Any, dag_id: str) -> None:
    for task in dag_bag.dags[dag_id].tasks:
        assert task.owner == "ml-platform"
        asks_a_person = getattr(task, "response_timeout", None) is not None
        assert asks_a_person or timedelta() < task.execution_timeout <= dag_bag.dags[dag_id].dagrun_timeout
        if task.task_id.startswith(("resolve_", "announce_", "request_", "check_")) and not asks_a_person:
            assert task.execution_timeout <= timedelta(minutes=15), "it computes nothing"
        assert task.retries >= 1
        verb, _, noun = task.task_id.partition("_")
        assert verb in VERBS, f"{task.task_id} does not begin with a verb"
        assert noun


@pytest.mark.parametrize("dag_id", ids)
def test_all_tasks_of_a_dag_run_where_its_rights_are(dag_bag: Any, dag_id: str) -> None:
    """What judges runs on workers of the judge alone, what publishes on those of the publisher alone."""
    publishing = dict.fromkeys(
        ("publish_release", "rollback_release", "renew_publications", "apply_retention"), "publish"
    )
    writes = {"validate_release": "judge", **publishing}
    queues = {task.queue for task in dag_bag.dags[dag_id].tasks}
    assert queues == {writes.get(dag_id, "default")}


@pytest.mark.slow
def test_parsing_reads_no_data_and_calls_nobody() -> None:
    script = f"""
import sys, runpy
import airflow.sdk, airflow.providers.standard.operators.hitl
import croniter  # asks `file` about the interpreter when it is imported
forbidden = {{"socket.connect", "sqlite3.connect", "subprocess.Popen", "os.system"}}
seen = []
sys.addaudithook(lambda event, args: seen.append(event) if event in forbidden else None)
for file in sys.argv[1:]:
    runpy.run_path(file)
experiments = {{name for name in sys.modules if name.startswith("experiments.")}} - {{"experiments.part"}}
print(seen, sorted(set({HEAVY!r}) & set(sys.modules) | experiments))
"""
    result = subprocess.run(
        [sys.executable, "-c", script, *map(str, FILES)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-1] == "[] []"


def test_assets_lead_from_logs_to_a_published_release(dag_bag: Any) -> None:
    """Each DAG's outlets are what the next one waits for, all of it: no click in between."""
    produced = {
        dag_id: {asset.name for task in dag.tasks for asset in task.outlets}
        for dag_id, dag in dag_bag.dags.items()
    }
    awaited = conditions(dag_bag)
    for dag_id in OF_PARTS:  # beside the chain: nothing waits for them
        awaited.pop(dag_id, None)
    chain = ["retrain_models", "validate_release", "publish_release"]
    for begin in ("ingest_logs", "monitor_live", "profile_workloads"):
        reached, followed = produced[begin], []
        while following := [
            dag_id
            for dag_id, condition in awaited.items()
            if met(condition, reached) and dag_id not in followed
        ]:
            for dag_id in following:
                followed.append(dag_id)
                reached = reached | produced[dag_id]
        assert followed == chain
        assert "release_champion" in reached
    assert set(awaited) == set(chain)


def conditions(dag_bag: Any) -> dict[str, Any]:
    """What each DAG that listens to assets waits for."""
    found = {dag_id: getattr(dag.timetable, "asset_condition", None) for dag_id, dag in dag_bag.dags.items()}
    return {dag_id: condition for dag_id, condition in found.items() if condition}


def met(condition: Any, names: set[str]) -> bool:
    """Whether events of these assets fulfil a condition."""
    if hasattr(condition, "objects"):
        fulfilled = [met(part, names) for part in condition.objects]
        return any(fulfilled) if type(condition).__name__ == "AssetAny" else all(fulfilled)
    return condition.name in names


def test_no_cycle_between_dags(dag_bag: Any) -> None:
    """Publishing must not start anything that leads back to publishing."""
    for condition in conditions(dag_bag).values():
        assert not met(condition, {"release_champion"})


def test_the_clock_may_start_retraining_and_monitoring(monkeypatch: pytest.MonkeyPatch) -> None:
    """By LUCID_RETRAIN_SCHEDULE beside the assets, by LUCID_MONITOR_SCHEDULE alone, daily by default."""
    from airflow.dag_processing.dagbag import DagBag

    monkeypatch.setenv("LUCID_RETRAIN_SCHEDULE", "@weekly")
    monkeypatch.setenv("LUCID_MONITOR_SCHEDULE", "none")
    bag = DagBag(DAGS_DIR)
    assert bag.import_errors == {}
    timetable = bag.dags["retrain_models"].timetable
    assert met(timetable.asset_condition, {"retraining_request"})
    assert not met(timetable.asset_condition, {"job_table", "throughput_table"})
    assert timetable.timetable.expression in ("@weekly", "0 0 * * 0")
    assert not bag.dags["monitor_live"].timetable.can_be_scheduled


def test_monitoring_is_daily_by_default(dag_bag: Any) -> None:
    assert dag_bag.dags["monitor_live"].timetable.can_be_scheduled


def test_the_form_refuses_a_cluster_name_that_is_a_path(dag_bag: Any) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    param = dag_bag.dags["ingest_logs"].params.get_param("cluster")
    with pytest.raises(ParamValidationError):
        param.resolve("../other")
    assert param.resolve("philly") == "philly"


def test_a_rollback_asks_for_a_reason(dag_bag: Any) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    with pytest.raises(ParamValidationError):
        dag_bag.dags["rollback_release"].params.validate()
