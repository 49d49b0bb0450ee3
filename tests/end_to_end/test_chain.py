"""The whole stack: logs to a published release over REST, a restart in mid-chain, devices measured, and
nothing left behind.
"""

import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from live_scheduler.client import ReleaseClient
from live_scheduler.release import LiveRelease
from local_stack.airflow_client import AirflowClient
from local_stack.stack import connect, down, status, up
from local_stack.stack_config import StackConfig
from lucid_cli.demo import CHAIN, POLL_S, demo_parameters, follow_chain, print_outcome
from lucid_models.releases.lifecycle import show_release
from lucid_models.releases.manifest import release_name
from tests.end_to_end.login import admin_login, log_in_until_the_end

pytestmark = [pytest.mark.end_to_end, pytest.mark.timeout(1800)]
READING_S = 3.0  # that a person takes to answer


def free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()


def processes_naming(folder: Path) -> list[str]:
    """Processes whose command line or environment names the stack's folder."""
    found = []
    for process in psutil.process_iter():
        if process.pid == os.getpid():
            continue
        try:
            words = [*process.cmdline(), *process.environ().values()]
        except psutil.Error:
            continue
        if any(str(folder) in word for word in words):
            found.append(f"{process.pid} {' '.join(process.cmdline())}")
    return found


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StackConfig]:
    airflow_port, mlflow_port = free_ports(2)
    stack = StackConfig(tmp_path / "state", airflow_port, mlflow_port)
    log_in_until_the_end(stack, monkeypatch)
    yield stack
    down(stack.state_dir)


def champion_version(config: StackConfig, cluster: str) -> int | None:
    response = httpx.get(
        f"{config.mlflow_url}/api/2.0/mlflow/registered-models/alias",
        params={"name": release_name(cluster), "alias": "champion"},
        auth=admin_login(config),
        trust_env=False,
    )
    assert response.status_code in (200, 400, 404), response.text
    return int(response.json()["model_version"]["version"]) if response.status_code == 200 else None


def measure_and_retrain(config: StackConfig, cluster: str) -> None:
    """Measure a few workloads on the simulated device: a release with a new packing model alone is built."""
    champion = show_release(tracking_uri=config.mlflow_url, cluster=cluster)
    form = {
        "cluster": cluster,
        "devices": ["simulated:0", "simulated:1"],
        "workloads": "ResNet50/ImageNet/64/*,PPO",
        "repeats": 2,
    }
    with connect(config) as airflow:
        run_id = airflow.trigger("profile_workloads", form)
        measuring = wait_for(airflow, "profile_workloads", lambda run: run["dag_run_id"] == run_id)
        assert {task["state"] for task in measuring} == {"success"}
        assert sum(task["task_id"] == "measure_pairs" for task in measuring) == 2
        assert {task["pool"] for task in measuring if task["task_id"].startswith("measure_")} == {"gpu"}
        training = wait_for(
            airflow,
            "retrain_models",
            lambda run: (
                run["state"] != "queued"
                and ("profile_workloads", run_id) in airflow.causes("retrain_models", run["dag_run_id"])
            ),
        )
        states = {task["task_id"]: task["state"] for task in training}
        built = airflow.xcom("retrain_models", training[0]["dag_run_id"], "build_release")
    assert states == {
        "resolve_inputs": "success",
        "train_packing": "success",
        "train_throughput": "skipped",
        "train_duration": "skipped",
        "train_node_demand": "skipped",
        "train_inference_load": "skipped",
        "train_waits": "skipped",
        "build_release": "success",
        "request_rest": "skipped",
    }
    challenger = show_release(tracking_uri=config.mlflow_url, cluster=cluster, version=built["version"])
    changed = {name for name, pin in challenger.models.items() if pin != champion.models[name]}
    assert changed == {"packing"}


def answer_as_a_person(airflow: AirflowClient, dag_id: str, run_id: str) -> None:
    """Pick the first point when asked, and again should the task be tried again.

    Not at once: an answer that comes while the process that asked still ends has the task tried again.
    """
    asked_s: float | None = None
    deadline = time.monotonic() + 600
    while airflow.run(dag_id, run_id)["state"] not in ("success", "failed"):
        assert time.monotonic() < deadline, airflow.tasks(dag_id, run_id)
        time.sleep(POLL_S)
        if not any(task["state"] == "awaiting_input" for task in airflow.tasks(dag_id, run_id)):
            asked_s = None
        elif asked_s is None:
            asked_s = time.monotonic()
        elif time.monotonic() - asked_s > READING_S:
            first, *_, none = airflow.answers(dag_id, run_id, "request_choice")
            assert (first.split(":")[0], none) == ("c1", "None of them")
            airflow.answer(dag_id, run_id, "request_choice", first)
            asked_s = None


def pick_a_front(config: StackConfig, cluster: str) -> None:
    """Search a small front of PCS, pick its first point as a person does, and see the gate's word obeyed."""
    champion = show_release(tracking_uri=config.mlflow_url, cluster=cluster)
    dag_id = "search_pareto_front"
    form = {
        "cluster": cluster,
        "preference": ["JCT:avg", "unfairness:avg"],  # predicting takes time, and is tested elsewhere
        "rounds": 1,
        "round_size": 3,
        "jobs_per_sample": 60,
        "samples": 1,
        "held_out_samples": 1,
        "evaluations_per_task": 50,
        "hold_out_days": 2,
    }
    with connect(config) as airflow:
        run_id = airflow.trigger(dag_id, form)
        answer_as_a_person(airflow, dag_id, run_id)
        wait_for(airflow, dag_id, lambda run: run["dag_run_id"] == run_id)
        built = airflow.xcom(dag_id, run_id, "build_release")
        challenger = show_release(tracking_uri=config.mlflow_url, cluster=cluster, version=built["version"])
        assert (challenger.policy, challenger.models) == ("pcs", champion.models)

        def ours(run: dict[str, Any]) -> bool:
            return run["state"] != "queued" and (dag_id, run_id) in airflow.causes(
                "validate_release", run["dag_run_id"]
            )

        wait_for(airflow, "validate_release", ours)
        validation = next(run["dag_run_id"] for run in airflow.runs("validate_release") if ours(run))
        verdict = airflow.xcom("validate_release", validation, "validate_release")
        wait_for(
            airflow,
            "publish_release",
            lambda run: (
                run["state"] != "queued"
                and ("validate_release", validation) in airflow.causes("publish_release", run["dag_run_id"])
            ),
        )
    assert verdict["version"] == challenger.version
    live = show_release(tracking_uri=config.mlflow_url, cluster=cluster)
    assert live.version == (challenger if verdict["approved"] else champion).version


def wait_for(
    airflow: AirflowClient, dag_id: str, ours: Callable[[dict[str, Any]], bool]
) -> list[dict[str, Any]]:
    """The tasks of the run that is ours, when it is over; fails unless it succeeds."""
    deadline = time.monotonic() + 600
    while True:
        for run in airflow.runs(dag_id):
            if ours(run) and run["state"] in ("success", "failed"):
                tasks = airflow.tasks(dag_id, run["dag_run_id"])
                assert run["state"] == "success", tasks
                return tasks
        assert time.monotonic() < deadline, f"{dag_id} did not end"
        time.sleep(POLL_S)


def test_logs_become_a_published_release_across_a_restart(
    config: StackConfig, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LUCID_TRUST")  # signed, as it is unless an installation says otherwise
    up(config)
    parameters = demo_parameters(None, days=7, hold_out_days=2)
    with connect(config) as airflow:
        run_id = airflow.trigger(CHAIN[0], parameters)
        deadline = time.monotonic() + 600
        while not any(
            task["state"] == "running"
            for run in airflow.runs("retrain_models")
            for task in airflow.tasks("retrain_models", run["dag_run_id"])
            if task["task_id"].startswith("train_")
        ):
            assert time.monotonic() < deadline, "training never started"
            assert airflow.run(CHAIN[0], run_id)["state"] != "failed"
            time.sleep(1.0)

    started = time.monotonic()
    assert down(config.state_dir)
    assert time.monotonic() - started < 120
    assert processes_naming(config.state_dir) == []
    assert status(config.state_dir)["running"] is False

    up(config)
    assert champion_version(config, parameters["cluster"]) is None, "half a chain must not publish"
    with connect(config) as airflow:
        outcome = follow_chain(airflow, run_id, timeout_s=1_200)
        assert outcome.published, outcome.tasks
        published = airflow.xcom("publish_release", outcome.runs["publish_release"], "publish_release")
        verdict = airflow.xcom("validate_release", outcome.runs["validate_release"], "validate_release")
        account = airflow.xcom(CHAIN[0], run_id, "ingest_jobs")
    capsys.readouterr()
    print_outcome(account, verdict, "version 1")
    told = capsys.readouterr().out.splitlines()
    begun = [
        f"Rows of {parameters['cluster']}",
        "Policies on the held-out",
        "Constraints: ",
        "Verdict on release",
    ]
    assert [line for line in begun if not any(said.startswith(line) for said in told)] == []
    assert verdict["approved"] is True
    assert {"challenger", "fifo", "sjf", "qssf", "tiresias"} <= {row["policy"] for row in verdict["policies"]}
    assert account["rows_in"] == account["rows_kept"] + account["rows_quarantined"] + account["rows_skipped"]
    assert champion_version(config, parameters["cluster"]) == published["version"] == verdict["version"]
    client = ReleaseClient(
        config.mlflow_url,
        "champion",
        tmp_path / "scheduler",
        cluster=parameters["cluster"],
        trust=config.state_dir / "trust.json",
    )
    assert isinstance(client.poll(), LiveRelease), client.status()
    assert (client.status().trust, client.status().published) == ("signed", True)
    client.close()
    pick_a_front(config, parameters["cluster"])
    measure_and_retrain(config, parameters["cluster"])

    assert down(config.state_dir)
    assert processes_naming(config.state_dir) == []
    for port in (config.airflow_port, config.mlflow_port):
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0
