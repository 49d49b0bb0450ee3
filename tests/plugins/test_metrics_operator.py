"""The operator of `lucid metrics`: what the form names, and what only the deployment may."""

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from airflow.sdk.exceptions import AirflowSkipException

from cluster_logs.lake import Lake
from lucid_airflow.operators.step import StepOperator

START = datetime(2024, 3, 1, 10, tzinfo=UTC)
CONTEXT = {"dag_run": SimpleNamespace(data_interval_start=None, data_interval_end=None)}
GPU = "GPU-00000000-0000-0000-0000-000000000000"


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    lake = Lake(str(tmp_path / "lake"))
    monkeypatch.setenv("LUCID_LAKE_URI", lake.uri)
    monkeypatch.setenv("LUCID_TRACKING_URI", "http://127.0.0.1:1")
    monkeypatch.setenv("LUCID_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("LUCID_INPUT_ROOTS", str(tmp_path / "samples"))
    monkeypatch.delenv("LUCID_PROMETHEUS_URL", raising=False)
    job = {
        "job_id": "7", "virtual_cluster": "a", "gpus": 1, "gpu_share": 1.0, "submit_time": START,
        "source_file": "log", "source_row": 1,
    }  # fmt: skip
    lake.write_jobs("c", pd.DataFrame([job]))
    return lake


def operator(**options: Any) -> StepOperator:
    return StepOperator(
        task_id="ingest_metrics",
        step="pipeline.steps.ingest:ingest_metrics",
        arguments={"cluster": "c", **options},
    )


def test_without_any_source_it_is_skipped(lake: Lake) -> None:
    with pytest.raises(AirflowSkipException, match="LUCID_PROMETHEUS_URL"):
        operator().execute(CONTEXT)


def test_metrics_are_optional_to_their_validation(lake: Lake) -> None:
    check = StepOperator(
        task_id="validate_metrics",
        step="pipeline.steps.ingest:validate_table",
        arguments={"table": "metrics", "clusters": ["c"]},
    )
    assert check.execute(CONTEXT) == {"c": 0}


@pytest.mark.slow
def test_a_folder_of_samples_becomes_metrics_that_hold(lake: Lake, tmp_path: Path) -> None:
    times = pd.date_range(START, periods=100, freq="5s")
    folder = tmp_path / "samples" / "date=2024-03-01"
    folder.mkdir(parents=True)
    samples = {"time": times, "gpu_uuid": GPU, "gpu_util_pct": 40.0, "gpu_mem_mib": 9.0, "job_ids": "7"}
    pd.DataFrame(samples).to_parquet(folder / "n1-100000-1.parquet")
    report = operator(metrics_uri=str(tmp_path / "samples")).execute(CONTEXT)
    assert report["jobs"] == 1
    assert lake.read_job_metrics("c")["gpu_util_pct"].tolist() == [40.0]
    check = StepOperator(
        task_id="validate_metrics",
        step="pipeline.steps.ingest:validate_table",
        arguments={"table": "metrics", "clusters": ["c"]},
    )
    assert check.execute(CONTEXT)["c"] > 5
