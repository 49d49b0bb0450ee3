"""The DAG `profile_workloads` with its measurements as jobs of a real Slurm."""

import json
import sys
from pathlib import Path

import pytest

from profiler_jobs.measurement_table import read_measurements
from tests import airflow_home
from tests.slurm.private_slurm import PrivateSlurm

pytestmark = pytest.mark.slow


def test_the_form_sends_batches_to_slurm_and_their_tables_into_the_lake(
    slurm: PrivateSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.dag_processing.dagbag import DagBag
    from airflow.utils.db import initdb

    settings = {"python": sys.executable, "folder": str(airflow_home.REPOSITORY), "poll_s": 0.1}
    monkeypatch.setenv("LUCID_SLURM_PARTITION", "prof")
    monkeypatch.setenv("LUCID_SLURM_SETTINGS", json.dumps(settings))
    monkeypatch.setenv("LUCID_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("LUCID_LAKE_URI", str(tmp_path / "lake"))
    monkeypatch.setenv("LUCID_TRACKING_URI", "http://127.0.0.1:1")
    initdb()
    dag = DagBag(airflow_home.REPOSITORY / "dags").dags["profile_workloads"]
    assert dag.params["where"] == "slurm", "the default where a partition is configured"
    form = {"cluster": "small", "devices": ["simulated:0", "simulated:1"], "workloads": "PPO", "pairs": False}
    run = dag.test(run_conf=form)
    states: dict[str, list[str]] = {}
    for task in run.get_task_instances():
        states.setdefault(task.task_id, []).append(str(task.state))
    assert states["measure_solos"] == ["success", "success"]
    assert states["collect_measurements"] == ["success"]
    assert str(run.state) == "success"
    assert len(list((tmp_path / "state" / "slurm").glob("lucid-measure-*.log"))) == 2
    table = tmp_path / "lake" / "profiles" / "cluster=small" / "measurements.parquet"
    assert len(set(read_measurements(str(table))["task"])) == 3, "PPO's batch sizes, measured on the nodes"
