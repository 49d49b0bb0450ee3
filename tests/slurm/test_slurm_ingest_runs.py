"""The DAG `ingest_logs` on a live Slurm, by its default form."""

from pathlib import Path

import pytest

from cluster_logs.lake import Lake
from tests import airflow_home
from tests.slurm.accounted_slurm import sbatch, wait_until
from tests.slurm.private_slurm import PrivateSlurm

pytestmark = pytest.mark.slow


def test_ingest_logs_reads_the_cluster_that_airflow_is_told_of(
    accounted: PrivateSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.dag_processing.dagbag import DagBag
    from airflow.utils.db import initdb

    job = sbatch(accounted, "true", "-p", "vc2", "--gres=gpu:1", "-J", "train")
    wait_until(accounted, job, "COMPLETED")
    monkeypatch.setenv("LUCID_SLURM_CLUSTER", "mini")
    monkeypatch.setenv("LUCID_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("LUCID_LAKE_URI", str(tmp_path / "lake"))
    monkeypatch.setenv("LUCID_TRACKING_URI", "http://127.0.0.1:1")
    initdb()
    dag = DagBag(airflow_home.REPOSITORY / "dags").dags["ingest_logs"]
    assert dag.timetable.can_be_scheduled
    assert not dag.catchup
    run = dag.test()
    states = {task.task_id: str(task.state) for task in run.get_task_instances()}
    assert states["read_accounting"] == states["ingest_jobs"] == states["validate_jobs"] == "success", states
    assert str(run.state) == "success"
    lake = Lake(str(tmp_path / "lake"))
    assert lake.read_jobs("mini").set_index("job_id").loc[job, "state"] == "COMPLETED"
    assert ["vc2", 1, 4] in lake.read_nodes("mini").values.tolist()


def test_without_a_cluster_nothing_is_scheduled(monkeypatch: pytest.MonkeyPatch) -> None:
    from lucid_airflow.slurm_settings import ingest_schedule

    monkeypatch.delenv("LUCID_SLURM_CLUSTER", raising=False)
    assert ingest_schedule() is None
    monkeypatch.setenv("LUCID_SLURM_CLUSTER", "mini")
    assert ingest_schedule() is not None
    monkeypatch.setenv("LUCID_INGEST_SCHEDULE", "none")
    assert ingest_schedule() is None
