"""The operator that reads the load of inference servers: by what the form names, else by the deployment."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from cluster_logs.lake import Lake
from lucid_airflow.operators.step import StepOperator
from tests.prometheus_server import prometheus_with

START = datetime(2024, 3, 1, 10, tzinfo=UTC)
CONTEXT = {"dag_run": SimpleNamespace(data_interval_start=None, data_interval_end=None)}


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    monkeypatch.setenv("LUCID_LAKE_URI", str(tmp_path / "lake"))
    monkeypatch.setenv("LUCID_TRACKING_URI", "http://127.0.0.1:1")
    monkeypatch.setenv("LUCID_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("LUCID_INPUT_ROOTS", str(tmp_path / "inbox"))
    for name in ("LUCID_PROMETHEUS_URL", "LUCID_INFERENCE_QUERIES"):
        monkeypatch.delenv(name, raising=False)
    return Lake(str(tmp_path / "lake"))


def run(**options: Any) -> dict[str, Any]:
    operator = StepOperator(
        task_id="ingest_inference_load",
        step="parts.lending.steps.steps:ingest_load",
        arguments={"cluster": "c", **options},
    )
    report: dict[str, Any] = operator.execute(CONTEXT)
    return report


def validate() -> int:
    check = StepOperator(
        task_id="validate_inference_load",
        step="pipeline.steps.ingest:validate_table",
        arguments={"table": "inference_load", "clusters": ["c"]},
    )
    return int(check.execute(CONTEXT)["c"])


def test_a_cluster_without_inference_servers_is_skipped(lake: Lake) -> None:
    with pytest.raises(AirflowSkipException, match="No load of inference servers"):
        run()
    assert validate() == 0


@pytest.mark.slow
def test_a_file_of_the_form_comes_first_and_a_broken_one_fails(lake: Lake, tmp_path: Path) -> None:
    path = tmp_path / "inbox" / "load.csv"
    path.parent.mkdir()
    path.write_text("time,usage\n2024-03-01 18:00:00,0.5\n")

    assert run(inference_load_uri=str(path), time_zone="Asia/Shanghai", servers="94")["rows_kept"] == 1
    load = lake.read_series("inference_load", "c")
    assert (str(load["time"].iloc[0]), load["servers"].iloc[0]) == ("2024-03-01 10:00:00+00:00", 94)
    assert validate() > 5
    path.write_text("time,load\n2024-03-01 18:00:00,0.5\n")
    with pytest.raises(AirflowFailException, match="MissingColumnError"):
        run(inference_load_uri=str(path))


@pytest.mark.thorough("Prometheus")
def test_the_deployments_prometheus_is_asked_as_the_deployment_says(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = [START.timestamp() + 300 * bin_ + 5 for bin_ in range(3)]
    with prometheus_with(tmp_path, [("usage", {"site": "x"}, [(at, 0.25) for at in times])]) as server:
        monkeypatch.setenv("LUCID_PROMETHEUS_URL", server.url)
        monkeypatch.setenv(
            "LUCID_INFERENCE_QUERIES", json.dumps({"usage": "avg(avg_over_time(usage[$step]))"})
        )
        report = run(start=START.isoformat(), end=(START + timedelta(minutes=15)).isoformat())

    assert (report["rows_kept"], lake.read_series("inference_load", "c")["usage"].tolist()) == (3, [0.25] * 3)
