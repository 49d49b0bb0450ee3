"""Measurements as Slurm jobs, from the operator to the table, on a real cluster with the simulated device."""

import asyncio
import importlib
import json
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from foundation.errors import BadInputError, NotFoundError
from live_scheduler.slurm.commands import JobStatus, cancel, job_status, living_jobs
from live_scheduler.slurm.job_states import Phase
from live_scheduler.slurm.measurement_job import (
    SlurmSite,
    log_tail,
    measured_batch,
    measurement_job,
    read_site,
)
from profiler_jobs.measurement_table import read_measurements
from profiler_jobs.method import Method
from profiler_jobs.plan import Plan, PlannedTask
from profiler_jobs.plan_file import write_plan
from profiler_jobs.tasks import MeasurementTask, solo_tasks
from profiler_jobs.workloads import list_job_types
from tests import airflow_home
from tests.slurm.private_slurm import PrivateSlurm

pytestmark = pytest.mark.slow

FEW = solo_tasks(list_job_types()[:3])
# Long enough to be interrupted: the table is written anew after each.
MANY = solo_tasks(list_job_types())


def planned(folder: Path, tasks: Sequence[MeasurementTask]) -> str:
    plan = Plan(tuple(PlannedTask(task, 1.0, "test") for task in tasks))
    write_plan(str(folder / "plan.json"), plan, Method(), "simulated:0")
    return str(folder / "plan.json")


@pytest.fixture
def configured(slurm: PrivateSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PrivateSlurm:
    """Airflow's processes know the cluster and measure in its partition `prof`."""
    settings = {"python": sys.executable, "folder": str(airflow_home.REPOSITORY), "poll_s": 0.1}
    monkeypatch.setenv("LUCID_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("LUCID_SLURM_PARTITION", "prof")
    monkeypatch.setenv("LUCID_SLURM_SETTINGS", json.dumps(settings))
    return slurm


def operator(folder: Path, tasks: Sequence[MeasurementTask] = FEW, **changes: Any) -> Any:
    from lucid_airflow.operators.profile_on_slurm import SubmitMeasurementsOperator

    batch = {
        "device": "simulated:0",
        "plan_uri": planned(folder, tasks),
        "table_uri": str(folder / "table.parquet"),
        "what": "a few",
    }
    return SubmitMeasurementsOperator(
        task_id="measure",
        step="pipeline.steps.profiling:measure_batch",
        arguments=batch,
        **changes,
    )


CONTEXT = {
    "dag_run": SimpleNamespace(run_id="manual__2026"),
    "ti": SimpleNamespace(
        dag_id="d", run_id="manual__2026", task_id="measure", map_index=0, xcom_push=lambda **told: None
    ),
}


def submitted(task: Any, context: Any = CONTEXT) -> Any:
    """The trigger that the task waits for, as another process would get it."""
    from airflow.sdk.exceptions import TaskDeferred

    with pytest.raises(TaskDeferred) as deferred:
        task.run(context)
    return handed_over(deferred.value.trigger)


def handed_over(trigger: Any) -> Any:
    from airflow.sdk.serde import deserialize, serialize

    path, arguments = trigger.serialize()
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)(**deserialize(serialize(arguments)))


def event_of(trigger: Any) -> dict[str, Any]:
    async def first() -> Any:
        return await asyncio.wait_for(anext(trigger.run()), timeout=120)

    return json.loads(json.dumps(asyncio.run(first()).payload))


def wait_for_rows(slurm: PrivateSlurm, table: Path, more_than: int = 0) -> int:
    def tasks_measured() -> int:
        return len(set(read_measurements(str(table))["task"]))

    slurm.wait_for(lambda: tasks_measured() > more_than, "something is measured")
    return tasks_measured()


def test_a_batch_is_submitted_waited_for_and_handed_over(configured: PrivateSlurm, tmp_path: Path) -> None:
    task = operator(tmp_path)
    trigger = submitted(task)
    job = job_status(trigger.job_id)
    assert job.name.startswith("lucid-measure-")
    assert job.comment == "d manual__2026 measure 0"
    event = event_of(trigger)
    assert event["error"] is None
    assert event["status"]["state"] == "COMPLETED"
    result = task.resume(CONTEXT, event)
    assert (result["measured"], result["left"], result["failed"]) == (3, 0, {})
    assert result["table_uri"] == str(tmp_path / "table.parquet")
    rows = read_measurements(result["table_uri"])
    assert set(rows["task"]) == {each.name for each in FEW}
    assert set(rows["device_kind"]) == {"simulated"}


def test_a_task_that_is_tried_again_goes_on_with_the_job_that_lives(
    configured: PrivateSlurm, tmp_path: Path
) -> None:
    configured.run("scontrol", "update", "PartitionName=prof", "State=DOWN")
    try:
        first = submitted(operator(tmp_path))
        again = submitted(operator(tmp_path))
        assert again.job_id == first.job_id
        other = submitted(
            operator(tmp_path), {"ti": SimpleNamespace(**{**vars(CONTEXT["ti"]), "map_index": 1})}
        )
        assert other.job_id != first.job_id
        asyncio.run(first.on_kill())
        assert job_status(first.job_id).phase is Phase.WAITING, "a killed task leaves its job alone"
        asyncio.run(submitted(operator(tmp_path, cancel_on_kill=True)).on_kill())
        assert event_of(first)["status"]["state"] == "CANCELLED"
    finally:
        configured.run("scontrol", "update", "PartitionName=prof", "State=UP")


def test_a_requeued_job_goes_on_after_its_last_measurement(configured: PrivateSlurm, tmp_path: Path) -> None:
    task = operator(tmp_path, MANY)
    trigger = submitted(task)
    table = tmp_path / "table.parquet"
    wait_for_rows(configured, table)
    node = job_status(trigger.job_id).nodes
    configured.crash_node(node)
    try:
        configured.run("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test")
        configured.wait_for(lambda: job_status(trigger.job_id).phase is Phase.WAITING, "the job is requeued")
        before = len(set(read_measurements(str(table))["task"]))
        assert 0 < before < len(MANY)
        configured.run("scontrol", "update", f"JobId={trigger.job_id}", "StartTime=now")
        wait_for_rows(configured, table, before)
        assert job_status(trigger.job_id).restarts == 1
    finally:
        configured.start_node(node)
    # The controller goes while the triggerer waits, and comes back.
    configured.stop_controller()
    waiting = asyncio.run(_event_while(trigger, configured.start_controller))
    result = task.resume(CONTEXT, waiting)
    assert result["job_id"] == trigger.job_id
    assert result["measured"] + result["out_of_memory"] == len(MANY)
    assert not read_measurements(str(table)).duplicated(["task", "repeat", "active"]).any()


async def _event_while(trigger: Any, happening: Any) -> dict[str, Any]:
    async def first() -> Any:
        return await anext(trigger.run())

    waiting = asyncio.create_task(first())
    await asyncio.sleep(0.3)
    await asyncio.to_thread(happening)
    event: dict[str, Any] = (await asyncio.wait_for(waiting, timeout=120)).payload
    return event


def test_a_controller_that_was_killed_and_forgot_the_job_costs_no_measurement(
    configured: PrivateSlurm, tmp_path: Path
) -> None:
    from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred

    task = operator(tmp_path)
    trigger = submitted(task)
    configured.stop_controller(signal.SIGKILL)  # what it did in its last seconds it has not saved
    configured.start_controller()
    for _ in range(5):
        try:
            result = task.resume(CONTEXT, event_of(trigger))
            break
        except TaskDeferred as again:
            trigger = handed_over(again.trigger)
        except AirflowFailException:
            raise
        except AirflowException:  # a node still ran what its controller had forgotten: Airflow tries again
            trigger = submitted(task)
    assert (result["measured"], result["left"]) == (3, 0)


def test_a_cancelled_job_fails_its_task_for_good_with_the_end_of_its_log(
    configured: PrivateSlurm, tmp_path: Path
) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    task = operator(tmp_path, MANY)
    trigger = submitted(task)
    wait_for_rows(configured, tmp_path / "table.parquet")
    cancel(trigger.job_id)
    with pytest.raises(AirflowFailException, match=rf"job {trigger.job_id} CANCELLED") as caught:
        task.resume(CONTEXT, event_of(trigger))
    assert "\n" in str(caught.value), "what the job said last"


def test_a_job_that_fails_may_be_tried_again_and_says_why(configured: PrivateSlurm, tmp_path: Path) -> None:
    from airflow.sdk.exceptions import AirflowException, AirflowFailException

    task = operator(tmp_path)
    Path(task.arguments["plan_uri"]).unlink()
    trigger = submitted(task)
    with pytest.raises(
        AirflowException, match=r"FAILED \(NonZeroExitCode, exit code 1\)(.|\n)*no plan"
    ) as caught:
        task.resume(CONTEXT, event_of(trigger))
    assert not isinstance(caught.value, AirflowFailException)


@pytest.mark.parametrize(
    ("state", "exit_code"),
    [("TIMEOUT", 0), ("NODE_FAIL", 1), ("PREEMPTED", 0), ("FAILED", 130), (None, None)],
)
def test_what_was_interrupted_is_submitted_again_but_not_for_ever(
    configured: PrivateSlurm, tmp_path: Path, state: str | None, exit_code: int | None
) -> None:
    from airflow.sdk.exceptions import AirflowException, TaskDeferred

    configured.run("scontrol", "update", "PartitionName=prof", "State=DOWN")
    try:
        task = operator(tmp_path, resubmissions=2)
        status = vars(JobStatus(7, "lucid", state, exit_code=exit_code)) if state else None
        event = {"job_id": 7, "resubmissions": 1, "status": status, "error": None}
        with pytest.raises(TaskDeferred) as deferred:
            task.resume(CONTEXT, event)
        trigger = handed_over(deferred.value.trigger)
        assert trigger.resubmissions == 2
        assert living_jobs(trigger.job_name) == [trigger.job_id]
        with pytest.raises(AirflowException, match="Submitted again 2 times, and still: job 7"):
            task.resume(CONTEXT, {**event, "resubmissions": 2})
    finally:
        configured.run("scontrol", "update", "PartitionName=prof", "State=UP")


def test_a_job_that_slurm_forgot_or_whose_number_another_got_is_gone(configured: PrivateSlurm) -> None:
    from lucid_airflow.triggers.slurm import SlurmJobTrigger

    gone = {"job_id": 987654, "resubmissions": 3, "status": None, "error": None}
    assert event_of(SlurmJobTrigger(job_id=987654, job_name="x", poll_s=0.1, resubmissions=3)) == gone
    other = int(
        configured.run(
            "sbatch", "--parsable", "--job-name=y", "--output=/dev/null", input_text="#!/bin/sh\nsleep 60\n"
        )
    )
    assert event_of(SlurmJobTrigger(job_id=other, job_name="x", poll_s=0.1))["status"] is None


def test_a_triggerer_without_slurm_says_so(
    configured: PrivateSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    from lucid_airflow.triggers.slurm import SlurmJobTrigger

    monkeypatch.setenv("PATH", str(tmp_path))
    event = event_of(SlurmJobTrigger(job_id=1, job_name="x", poll_s=0.1))
    with pytest.raises(AirflowFailException, match="squeue is not on"):
        operator(tmp_path).resume(CONTEXT, event)


def test_the_same_operator_measures_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LUCID_SLURM_PARTITION", raising=False)
    assert operator(tmp_path, where="here").run(CONTEXT)["measured"] == 3
    with pytest.raises(BadInputError, match="LUCID_SLURM_PARTITION"):
        operator(tmp_path).run(CONTEXT)
    with pytest.raises(BadInputError, match="'there'"):
        operator(tmp_path, where="there").run(CONTEXT)


# Without a cluster


SITE = SlurmSite("prof", "/shared/logs", python="/opt/python", options=("--account=ml",))


def requested(site: SlurmSite = SITE, **changes: Any) -> Any:
    values = {"identity": "d r t 0", "plan_uri": "s3://l/p.json", "table_uri": "s3://l/t", "device": "3"}
    return measurement_job(site, **{**values, **changes})


def test_a_jobs_name_follows_from_what_is_asked_and_by_whom() -> None:
    assert requested().name == requested().name
    names = {
        requested(**change).name
        for change in (
            {},
            {"identity": "d r t 1"},
            {"table_uri": "s3://l/u"},
            {"device": "cpu"},
            {"budget_s": 9.0},
        )
    }
    assert len(names) == 5


def test_a_job_measures_the_gpu_that_slurm_gave_it() -> None:
    assert requested().argv[-1] == "--device=0"
    assert requested(device="GPU-1-2").argv[-1] == "--device=0"
    assert requested(device="simulated:4").argv[-1] == "--device=simulated:4"
    assert requested().whole_node
    assert requested().gres == "gpu:1"


def test_a_job_gets_the_variables_that_the_site_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")
    monkeypatch.delenv("AWS_REGION", raising=False)
    job = requested(replace(SITE, export=["AWS_ENDPOINT_URL", "AWS_REGION"]))
    assert job.environment == {"AWS_ENDPOINT_URL": "http://127.0.0.1:9000"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"gpus": 2}, "no setting gpus"),
        ({"poll_s": 0}, "poll_s"),
        ({"options": "--account=ml"}, "list of words"),
        ({"poll_s": "often"}, "cannot be read"),
    ],
)
def test_settings_that_are_none_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        read_site("prof", "/logs", settings)


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from lucid_airflow.slurm_settings import slurm_partition, slurm_site

    monkeypatch.setenv("LUCID_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("LUCID_SLURM_PARTITION", "prof")
    monkeypatch.delenv("LUCID_SLURM_SETTINGS", raising=False)
    assert slurm_site() == SlurmSite("prof", str(tmp_path / "slurm"))
    monkeypatch.setenv("LUCID_SLURM_SETTINGS", '{"gres": "gpu:a100:1", "log_dir": "/logs"}')
    assert slurm_site() == SlurmSite("prof", "/logs", gres="gpu:a100:1")
    for text in ("{", "[1]"):
        monkeypatch.setenv("LUCID_SLURM_SETTINGS", text)
        with pytest.raises(BadInputError, match="LUCID_SLURM_SETTINGS"):
            slurm_site()
    monkeypatch.setenv("LUCID_SLURM_PARTITION", " ")
    assert slurm_partition() is None


def test_a_table_without_the_plans_measurements_is_no_success(tmp_path: Path) -> None:
    plan = planned(tmp_path, FEW)
    with pytest.raises(NotFoundError, match="left nothing"):
        measured_batch(plan, str(tmp_path / "table.parquet"))


def test_a_log_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    assert "No such file" in log_tail(str(tmp_path / "none.log"))
    (tmp_path / "long.log").write_bytes(b"\xff\n" + b"".join(b"line %d\n" % i for i in range(5_000)))
    assert log_tail(str(tmp_path / "long.log"), lines=2) == "line 4998\nline 4999"
