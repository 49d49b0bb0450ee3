"""One pass over an installation: pages, logs of tasks, the lake; what fails is told, and the rest goes on."""

import os
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cluster_logs.lake import Lake
from foundation.retention_settings import RetentionSettings
from pipeline.kept_reports import MOST_LISTED
from pipeline.retention.folders import expire_pages, expire_task_logs
from pipeline.retention.prune import Installation, prune
from tests.command_line import Lucid
from tests.fixtures import small_jobs


def aged(folder: Path, days: float) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "index.html").write_bytes(b"x" * 10)
    then_s = time.time() - days * 86_400
    for path in (folder / "index.html", folder):
        os.utime(path, (then_s, then_s))
    return folder


def before(days: float) -> datetime:
    return datetime.now(UTC) - timedelta(days=days)


def test_pages_of_an_index_stay_whatever_their_age(tmp_path: Path) -> None:
    pages = [aged(tmp_path / "monitoring/small" / f"p{number:03d}", 1_000 - number) for number in range(63)]
    other = aged(tmp_path / "plans/small/one", 5_000)
    expired = expire_pages(tmp_path, before=before(900), dry_run=False)
    assert (expired.kept, expired.removed, expired.freed_bytes) == (MOST_LISTED + 1, 3, 30)
    assert [page for page in pages if not page.exists()] == pages[:3]
    assert other.exists()
    kept = expire_pages(tmp_path, before=before(5_000), dry_run=False)
    assert kept.removed == 0


def test_task_logs_go_and_links_lead_nowhere(tmp_path: Path) -> None:
    outside = aged(tmp_path / "outside", 900)
    logs = tmp_path / "logs"
    old = aged(logs / "dag_id=ingest_logs/run_id=a", 100)
    new = aged(logs / "dag_id=ingest_logs/run_id=b", 1)
    gone_dag = aged(logs / "dag_id=gone/run_id=a", 100)
    day = aged(logs / "dag_processor/2026-01-01", 100)
    (logs / "dag_processor/latest").symlink_to(outside)
    (logs / "dag_id=ingest_logs/run_id=link").symlink_to(outside)
    expired = expire_task_logs(logs, before=before(90), dry_run=False)
    assert (expired.kept, expired.removed) == (1, 3)
    assert not any(path.exists() for path in (old, gone_dag, gone_dag.parent, day))
    assert new.exists()
    assert (outside / "index.html").exists()


def leave_half_written(lake: Lake, cluster: str) -> None:
    with suppress(KeyboardInterrupt), lake.writing(cluster, "an ingest", ("jobs",)):
        lake.writes.changing(cluster, "jobs")
        raise KeyboardInterrupt


def test_a_cluster_that_cannot_be_done_does_not_stop_the_others(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))
    for cluster in ("broken", "whole"):
        jobs = small_jobs(300).assign(source_file="log.csv", source_row=range(300))
        jobs["submit_time"] = (
            jobs["submit_time"].min() + (jobs["submit_time"] - jobs["submit_time"].min()) * 20
        )
        lake.write_jobs(cluster, jobs)
    leave_half_written(lake, "broken")
    found = prune(
        Installation(f"sqlite:///{tmp_path / 'none.db'}", lake.uri, tmp_path / "state", None),
        RetentionSettings(lake_days=60),
    )
    days = next(each for each in found if each.kind == "log_days")
    assert days.problem is not None
    assert "half-written" in days.problem
    assert days.removed > 0
    assert len(lake.dates("whole")) <= 61
    assert {each.kind for each in found} == {"log_days", "quarantine", "work_files", "pages"}


def test_the_command_counts_and_removes(
    lucid: Lucid, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LUCID_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("LUCID_TRACKING_URI", f"sqlite:///{tmp_path / 'none.db'}")
    monkeypatch.setenv("LUCID_RETENTION", '{"page_days": 30, "airflow_days": 30}')
    old = aged(tmp_path / "airflow/logs/dag_id=a/run_id=b", 40)
    counted = lucid("prune", "--dry-run", "--json").json
    assert counted["dry_run"] is True
    assert counted["kinds"]["task_logs"] == {
        "kept": 0, "removed": 1, "bytes": 10, "remarks": [], "problem": None,
    }  # fmt: skip
    assert old.exists()
    assert lucid("prune").code == 0
    assert not old.exists()
