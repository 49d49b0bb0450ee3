"""What the real task runner writes of a task that fails for a reason that we know of."""

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.dags.run_facts import states_of

pytestmark = pytest.mark.usefixtures("metadata_database")


def test_a_failed_tasks_log_tells_the_reason_and_its_remedy_alone(
    dag_bag: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("LUCID_LAKE_URI", str(tmp_path / "lake"))
    monkeypatch.setenv("LUCID_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("LUCID_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    with capture_logs() as entries:
        run = dag_bag.dags["evaluate_policies"].test()
    first = dag_bag.dags["evaluate_policies"].roots[0].task_id
    assert states_of(run)[first] == {"failed"}
    (reason,) = {record.getMessage() for record in caplog.records if record.levelname == "ERROR"}
    assert "has no jobs of any cluster" in reason
    assert "ingest" in reason  # the remedy
    of_the_task = [entry for entry in entries if "Task failed" in str(entry["event"])]
    assert of_the_task == []
    assert not any(entry.get("exc_info") for entry in entries)
