"""The operator that counts nodes: by what the form names, what the deployment says, or of the jobs."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from cluster_logs.lake import Lake
from lucid_airflow.operators.step import StepOperator
from tests.prometheus_server import prometheus_with

START = datetime(2024, 3, 1, 10, tzinfo=UTC)
CONTEXT = {"dag_run": SimpleNamespace(data_interval_start=None, data_interval_end=None)}


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    lake = Lake(str(tmp_path / "lake"))
    monkeypatch.setenv("LUCID_LAKE_URI", lake.uri)
    monkeypatch.setenv("LUCID_TRACKING_URI", "http://127.0.0.1:1")
    monkeypatch.setenv("LUCID_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("LUCID_INPUT_ROOTS", str(tmp_path / "inbox"))
    for name in ("LUCID_PROMETHEUS_URL", "LUCID_NODE_QUERIES"):
        monkeypatch.delenv(name, raising=False)
    job = {
        "job_id": "7", "virtual_cluster": "a", "gpus": 12, "gpu_share": 1.0, "submit_time": START,
        "start_time": START, "end_time": START + timedelta(hours=1), "state": "COMPLETED",
        "source_file": "log", "source_row": 1,
    }  # fmt: skip
    lake.write_jobs("c", pd.DataFrame([job]))
    return lake


def write_sizes(lake: Lake) -> None:
    lake.write_nodes("c", pd.DataFrame({"virtual_cluster": ["a"], "nodes": [4], "gpus_per_node": [8]}))


def run(**options: Any) -> dict[str, Any]:
    operator = StepOperator(
        task_id="ingest_node_states",
        step="pipeline.steps.ingest:ingest_node_states",
        arguments={"cluster": "c", "source_format": "helios", **options},
    )
    report: dict[str, Any] = operator.execute(CONTEXT)
    return report


def validate() -> int:
    check = StepOperator(
        task_id="validate_node_states",
        step="pipeline.steps.ingest:validate_table",
        arguments={"table": "node_states", "clusters": ["c"]},
    )
    return int(check.execute(CONTEXT)["c"])


def test_jobs_whose_cluster_is_not_known_let_derive_nothing(lake: Lake) -> None:
    with pytest.raises(AirflowSkipException, match="no nodes of cluster 'c'"):
        run()
    assert validate() == 0


@pytest.mark.slow
def test_without_any_count_they_are_derived_of_the_jobs(lake: Lake) -> None:
    write_sizes(lake)

    report = run()

    assert (report["rows_in"], report["rows_kept"]) == (1, 1)
    states = lake.read_node_states("c")
    assert states[states["virtual_cluster"].isna()]["busy"].tolist() == [2] * 6 + [0]
    assert validate() > 10


def test_a_published_sequence_comes_first_and_a_broken_one_fails(lake: Lake, tmp_path: Path) -> None:
    write_sizes(lake)
    path = tmp_path / "inbox" / "nodes.csv"
    path.parent.mkdir()
    path.write_text("time,busy,total\n2024-03-01 18:00:00,3,4\n")

    assert run(node_states_uri=str(path), time_zone="Asia/Shanghai")["rows_kept"] == 1
    assert lake.read_node_states("c")["time"].tolist() == [pd.Timestamp(START)]
    path.write_text("time,total\n2024-03-01 18:00:00,4\n")
    with pytest.raises(AirflowFailException, match="MissingColumnError"):
        run(node_states_uri=str(path))


@pytest.mark.thorough("Prometheus")
def test_the_deployments_prometheus_counts_by_the_deployments_queries(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_sizes(lake)
    times = [START.timestamp() + 60 * minute - 5 for minute in range(4)]
    history = [("nodes_in_use", {"site": "x"}, [(at, 3.0) for at in times])]
    with prometheus_with(tmp_path, history) as server:
        monkeypatch.setenv("LUCID_PROMETHEUS_URL", server.url)
        busy = "sum(last_over_time(nodes_in_use[$step]))"
        monkeypatch.setenv("LUCID_NODE_QUERIES", json.dumps({"busy": busy, "total": "vector(4)"}))
        end = (START + timedelta(minutes=3)).isoformat()
        report = run(start=START.isoformat(), end=end)

    assert (report["counts"], lake.read_node_states("c")["busy"].tolist()) == (3, [3, 3, 3])
