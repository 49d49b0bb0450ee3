"""What a run of `ingest_logs` by the clock is about, and what it does not start."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowSkipException

from lucid_airflow.handover import data_interval
from lucid_airflow.operators.step import StepOperator

NINE, TEN = datetime(2026, 3, 1, 9, tzinfo=UTC), datetime(2026, 3, 1, 10, tzinfo=UTC)


def context(run_type: str, start: datetime | None = NINE, end: datetime | None = TEN) -> dict[str, Any]:
    run = SimpleNamespace(run_type=run_type, data_interval_start=start, data_interval_end=end)
    return {"dag_run": run, "task": SimpleNamespace(outlets=[])}


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (context("scheduled"), (NINE, TEN)),
        (context("manual"), (None, None)),  # Airflow gives it the hour before
        (context("asset_triggered", TEN, TEN), (None, None)),
        (context("scheduled", None, None), (None, None)),
    ],
)
def test_only_the_clock_gives_an_interval(run: dict[str, Any], expected: tuple[Any, Any]) -> None:
    assert data_interval(run) == expected


def test_the_clock_starts_no_retraining(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUCID_LAKE_URI", "/lake")
    monkeypatch.setenv("LUCID_TRACKING_URI", "http://127.0.0.1:1")
    announcing = StepOperator(
        task_id="announce_tables",
        step="pipeline.steps.ingest:announce_tables",
        arguments={"cluster": "mini"},
    )
    with pytest.raises(AirflowSkipException, match="no retraining"):
        announcing.run(context("scheduled"))
    assert announcing.run(context("manual")) == {
        "cluster": "mini", "lake_uri": "/lake", "hold_out_days": 14, "as_of": None,
        "allow_simulated_profiles": False,
    }  # fmt: skip


def test_other_sources_need_no_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUCID_LAKE_URI", "/lake")
    monkeypatch.setenv("LUCID_TRACKING_URI", "http://127.0.0.1:1")
    reading = StepOperator(
        task_id="read_accounting",
        step="pipeline.steps.ingest:read_accounting",
        arguments={"source_format": "philly-csv", "cluster": "mini"},
    )
    with pytest.raises(AirflowSkipException, match="philly-csv"):
        reading.run(context("scheduled"))
