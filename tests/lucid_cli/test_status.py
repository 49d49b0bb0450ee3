"""`lucid status`, and what holds for every command: its exit code, and that reading leaves nothing behind."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cluster_logs.lake import Lake
from foundation import exit_codes
from lucid_models.releases.lifecycle import build_release, publish_release
from pipeline.overview import standing
from tests.command_line import Lucid

READS = (
    ("status",),
    ("release", "list"),
    ("release", "list", "--cluster", "mine"),
    ("release", "show"),
    ("validate", "--cluster", "mine"),
    ("plan", "--cluster", "mine"),
    ("explain", "--model", "duration"),
    ("explain", "--model", "waits"),
    ("monitor", "--cluster", "mine"),
    ("remove-cluster", "--cluster", "mine", "--yes"),
)


@pytest.mark.parametrize("words", READS, ids=" ".join)
def test_a_read_where_nothing_was_kept_leaves_nothing(lucid: Lucid, tmp_path: Path, words: Any) -> None:
    said = lucid(*words)
    assert said.code in (0, exit_codes.ERROR)
    assert "unexpected" not in said.err
    assert list(tmp_path.iterdir()) == []


def test_the_program_says_its_version(lucid: Lucid) -> None:
    from importlib.metadata import version

    assert lucid("--version").out == f"lucid {version('lucid-mlops')}\n"


@pytest.mark.parametrize("words", [("release", "lst"), ("release", "list", "--clusters", "x"), ("plan",)])
def test_a_command_line_that_cannot_be_read_is_an_error_and_no_refusal(lucid: Lucid, words: Any) -> None:
    assert lucid(*words).code == exit_codes.ERROR


def test_a_release_that_may_not_go_live_is_a_refusal(lucid: Lucid, shop: Any) -> None:
    build_release(tracking_uri=shop.uri, cluster="small")
    said = lucid("release", "publish", "--version", "1", "--tracking-uri", shop.uri)
    assert said.code == exit_codes.REFUSED, said.err
    assert "validate" in said.err


class Airflow:
    """Answers as Airflow 3.3 does, in the fields that are read."""

    def runs_under_way(self) -> list[dict[str, Any]]:
        run = {"state": "running", "start_date": "2026-01-01T00:00:00Z"}
        return [
            {**run, "dag_id": "tune_system", "dag_run_id": "a", "conf": {"cluster": "small"}},
            {**run, "dag_id": "retrain_models", "dag_run_id": "b", "run_type": "asset_triggered", "conf": {}},
            {
                "state": "queued",
                "start_date": None,
                "dag_id": "monitor_live",
                "dag_run_id": "c",
                "conf": None,
            },
        ]

    def asset_events(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        return [{"extra": {"cluster": "other"}}]

    def questions(self, dag_id: str) -> list[dict[str, Any]]:
        return [{"task_instance": {"dag_run_id": "p"}, "created_at": "2026-01-02T00:00:00Z"}]

    def xcom(self, *where: str) -> dict[str, Any]:
        return {"cluster": "small", "version": 2}


def test_status_says_per_cluster_what_is_live_what_runs_and_what_waits(
    lucid: Lucid, shop: Any, small_tables: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = shop.approved(1)
    publish_release(tracking_uri=shop.uri, cluster="small", version=live)
    newer = build_release(tracking_uri=shop.uri, cluster="small", settings={"gss": 1}).version
    Lake(str(tmp_path / "lake")).write_jobs("other", small_tables.jobs)
    asked = ("status", "--lake", "lake", "--tracking-uri", shop.uri, "--json")

    other, small = lucid(*asked).json["clusters"]
    assert (small["name"], small["champion"], small["challenger"]) == ("small", live, newer)
    assert (small["running"], small["approvals"]) == (None, None), "no Airflow of this machine says it"
    assert (other["name"], other["champion"], other["challenger"]) == ("other", None, None)

    @contextmanager
    def connect(stack: object) -> Iterator[Airflow]:
        yield Airflow()

    monkeypatch.setattr(standing, "running_stack", lambda state_dir: object())
    monkeypatch.setattr(standing, "connect", connect)
    document = lucid(*asked).json
    other, small = document["clusters"]
    assert [run["dag_id"] for run in small["running"]] == ["tune_system"]
    assert [run["dag_id"] for run in other["running"]] == ["retrain_models"]
    assert [(asked["version"], asked["run_id"]) for asked in small["approvals"]] == [(2, "p")]
    assert other["approvals"] == []
    assert document["stack"]["running"] is False
    assert document["problems"] == []
    assert "tune_system" in lucid(*asked[:-1]).out


def test_status_says_which_service_is_away_and_shows_the_rest(
    lucid: Lucid, small_tables: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    Lake(str(tmp_path / "lake")).write_jobs("other", small_tables.jobs)
    document = lucid("status", "--lake", "lake", "--tracking-uri", "http://127.0.0.1:9", "--json").json
    assert [cluster["name"] for cluster in document["clusters"]] == ["other"]
    (problem,) = document["problems"]
    assert problem.startswith("MLflow on http://127.0.0.1:9 did not answer (Connection refused).")
