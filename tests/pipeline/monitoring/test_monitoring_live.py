"""Monitoring a live scheduler: what it believed at submission, and what its order was worth."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cluster_logs.lake import Lake
from foundation.site import Site
from live_scheduler.daemon import JOURNAL_FILE
from live_scheduler.forecast.submission_predictions import (
    SUBMISSION_PREDICTIONS_FILE,
    JudgedPrediction,
    SubmissionPrediction,
    SubmissionPredictions,
)
from live_scheduler.hindsight.decision_log import DECISIONS_FILE
from live_scheduler.hindsight.regret_job import RegretReport, StartAgreement
from live_scheduler.hindsight.replayed_window import Hindsight, MeanTimes, Regret
from live_scheduler.live_settings import LiveSettings
from live_scheduler.live_view import LiveView
from live_scheduler.memory.journal import JobEvent, JobEventKind, Journal
from live_scheduler.release import ClientStatus
from live_scheduler.service.hosting import LiveService
from live_scheduler.service.operations import Operations
from pipeline.monitoring.live import LiveRecords
from pipeline.monitoring.live_predictions import gate_prediction_errors
from pipeline.monitoring.monitor import monitor_release
from pipeline.monitoring.records import metrics_of, write_monitor_report
from pipeline.monitoring.report import MonitorReport
from pipeline.monitoring.rules import MonitorSettings, Urgency
from tests.pipeline.monitoring.watched_cluster import (
    CLUSTER,
    TRAINED_UNTIL,
    WatchedCluster,
    as_of,
    watched_cluster,
)

pytestmark = pytest.mark.slow

Beliefs = Callable[[np.ndarray, np.ndarray], np.ndarray]  # estimates, true run times -> what was believed


@pytest.fixture(scope="module")
def watched() -> WatchedCluster:
    return watched_cluster(5, virtual_clusters=2)


def lived_week(watched: WatchedCluster, folder: Path, believed: Beliefs, version: int = 1) -> Path:
    """The state folder of a live scheduler that saw the week after training."""
    jobs = watched.jobs
    later = jobs["submit_time"] >= TRAINED_UNTIL
    week = jobs[later].reset_index(drop=True)
    estimates = watched.release.models.duration.predict_causal(week, earlier=jobs[~later])
    truth = week["duration_s"].to_numpy(np.float64)
    beliefs = believed(np.asarray(estimates), truth)
    events, new = [], []
    for row, belief in zip(week.itertuples(), beliefs, strict=True):
        submit_s = row.submit_time.timestamp()
        facts = {
            "gpus": row.gpus, "submit_time_s": submit_s, "virtual_cluster": row.virtual_cluster,
            "user": row.user, "name": row.name,
        }  # fmt: skip
        new.append([row.job_id, submit_s, row.virtual_cluster, row.gpus, float(belief), "vc", 1])
        if pd.isna(row.start_time) or pd.isna(row.end_time):
            continue
        end_s = row.end_time.timestamp()
        events.append(JobEvent(row.start_time.timestamp(), JobEventKind.STARTED, row.job_id, facts))
        events.append(
            JobEvent(end_s, JobEventKind.ENDED, row.job_id, facts, end_s - row.start_time.timestamp())
        )
    Journal(folder / JOURNAL_FILE).append(sorted(events, key=lambda event: event.at_s))
    line = {
        "at_s": TRAINED_UNTIL.timestamp(), "release": "lucid-release version 1", "version": version,
        "policy": "lucid", "mode": "control", "queued": len(new), "new": new,
        "chosen": [row[0] for row in new[:40]], "started": [],
    }  # fmt: skip
    started = {
        **line,
        "at_s": line["at_s"] + 1,
        "new": [],
        "chosen": [],
        "started": [row[0] for row in new[:80]],
    }
    (folder / DECISIONS_FILE).write_text(json.dumps(line) + "\n" + json.dumps(started) + "\n")
    return folder


@pytest.fixture(scope="module")
def lake(watched: WatchedCluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    uri = watched.lake(tmp_path_factory.mktemp("lake"))
    week = watched.jobs[watched.jobs["submit_time"] >= TRAINED_UNTIL]
    # So few nodes that jobs wait.
    gpu_s = (week["gpus"] * week["duration_s"].fillna(0)).groupby(week["virtual_cluster"]).sum()
    largest = week.groupby("virtual_cluster")["gpus"].max()
    nodes = np.maximum(np.ceil(gpu_s / (7 * 86_400) / 8), np.ceil(largest / 8)).astype(int)
    frame = pd.DataFrame({"virtual_cluster": nodes.index, "nodes": nodes.to_numpy(), "gpus_per_node": 8})
    Lake(uri).write_nodes(CLUSTER, frame)
    return uri


def look(watched: WatchedCluster, lake: str, live: str | None, **options: object) -> MonitorReport:
    return monitor_release(
        Site(lake=lake, cluster=CLUSTER),
        watched.release,
        as_of=as_of(7),
        live=LiveRecords(
            live,
            options.pop("live_dir", None),  # type: ignore[arg-type]
            options.pop("live_token_file", None),  # type: ignore[arg-type]
        ),
        **options,
    )


def as_estimated(estimates: np.ndarray, truth: np.ndarray) -> np.ndarray:
    return estimates


def upside_down(estimates: np.ndarray, truth: np.ndarray) -> np.ndarray:
    return np.maximum(1e7 / np.maximum(truth, 1.0), 1.0)


def live_subjects(report: MonitorReport, level: Urgency) -> set[str]:
    return {found.subject for found in report.findings if found.area == "live" and found.level is level}


def test_a_live_scheduler_that_does_well_raises_no_alarm(
    watched: WatchedCluster, lake: str, tmp_path: Path
) -> None:
    folder = lived_week(watched, tmp_path / "live" / CLUSTER, as_estimated)
    report = look(watched, lake, None, live_dir=tmp_path / "live")
    live = report.live
    assert live is not None
    assert live.source == str(folder), "found by its cluster's name"
    assert live_subjects(report, Urgency.RETRAIN) == set()
    assert live.errors is not None
    assert live.errors.jobs > 200
    assert live.errors.mae_log10 == pytest.approx(report.duration.overall.mae_log10, rel=0.1)  # type: ignore[union-attr]
    assert {group.name for group in live.virtual_clusters} <= set(watched.jobs["virtual_cluster"])
    past = live.hindsight
    assert past is not None, live.note
    assert past.against_backfill.point_s < 0, "the live order helped"
    assert past.against_true_durations.point_s >= 0
    assert (live.agreement.started, live.agreement.agreed) == (80, 40)  # type: ignore[union-attr]
    metrics = dict(metrics_of(report))
    assert metrics["live/mae_log10"] == live.errors.mae_log10
    assert metrics["live/regret_against_backfill_s"] == past.against_backfill.point_s
    assert metrics["live/agreement"] == 0.5
    write_monitor_report(report, tmp_path / "page")
    page = (tmp_path / "page" / "index.html").read_text()
    assert "Live scheduler" in page
    assert "Regret against first come, first served" in page
    document = json.loads((tmp_path / "page" / "report.json").read_text())
    assert document["live"]["hindsight"]["jobs"] == past.jobs


def test_beliefs_and_an_order_that_do_harm_ask_for_a_retraining_and_name_the_way_back(
    watched: WatchedCluster, lake: str, tmp_path: Path
) -> None:
    folder = lived_week(watched, tmp_path, upside_down)
    report = look(watched, lake, str(folder))
    assert report.decision is Urgency.RETRAIN
    assert live_subjects(report, Urgency.RETRAIN) == {"error", "worse than naive", "regret"}
    (regret,) = [found.sentence for found in report.findings if found.subject == "regret"]
    assert "consider a rollback" in regret
    tolerant = look(
        watched, lake, str(folder), settings=MonitorSettings(regret_pct=1_000.0, error_factor=100.0)
    )
    assert live_subjects(tolerant, Urgency.RETRAIN) == {"worse than naive"}


PROMISED = {"mean_pred_err_pct": 10.0, "p99_pred_err_pct": 60.0}


def told(watched: WatchedCluster, folder: Path, too_early_by: float, version: int = 1) -> None:
    """Each job of the week was told an end at its submission; the truth took so many times longer."""
    week = watched.jobs[watched.jobs["submit_time"] >= TRAINED_UNTIL].dropna(
        subset=["start_time", "end_time"]
    )
    predictions = []
    for row in week.itertuples():
        submit_s, end_s = row.submit_time.timestamp(), row.end_time.timestamp()
        said_s = submit_s + (end_s - submit_s) / too_early_by
        predictions.append(
            SubmissionPrediction(
                row.job_id, submit_s, submit_s + 1, submit_s, said_s, end_s, row.virtual_cluster, row.gpus,
                "r", version, "pcs", "control", "told",
            )
        )  # fmt: skip
    SubmissionPredictions(folder / SUBMISSION_PREDICTIONS_FILE).add(predictions)


def test_completion_times_told_at_submission_are_held_against_the_ends_and_the_gate(
    watched: WatchedCluster, lake: str, tmp_path: Path
) -> None:
    judged = replace(watched, release=replace(watched.release, gate_errors=PROMISED))
    good, bad, other = (lived_week(watched, tmp_path / name, as_estimated) for name in ("a", "b", "c"))
    told(watched, good, 1.05)
    told(watched, bad, 1.5)
    told(watched, other, 1.5, version=2)
    report = look(judged, lake, str(good))
    assert report.live is not None
    health = report.live.predictions
    assert health is not None
    assert health.watched is not None
    assert health.watched.mean_pct == pytest.approx(5.0, rel=0.01)
    assert (health.watched.by_promise, health.watched.by_p90) == (0.0, 1.0)
    assert {group.virtual_cluster for group in health.groups} == {"", *watched.jobs["virtual_cluster"]}
    assert sum(group.errors.jobs for group in health.groups[1:]) == health.groups[0].errors.jobs
    assert "prediction error" not in live_subjects(report, Urgency.RETRAIN) | live_subjects(
        report, Urgency.WATCH
    )
    assert dict(metrics_of(report))["live/predictions/pcs/release_1/mean_pct"] == health.watched.mean_pct
    write_monitor_report(report, tmp_path / "page")
    page = (tmp_path / "page" / "index.html").read_text()
    assert "Completion times told at submission" in page
    assert "promised by the gate" in page

    drifted = look(judged, lake, str(bad))
    assert "prediction error" in live_subjects(drifted, Urgency.RETRAIN)
    (said,) = [found.sentence for found in drifted.findings if found.subject == "prediction error"]
    assert "off by 50.0 % on average" in said
    assert "the gate promised 10.0 %" in said
    for nobodys in (look(watched, lake, str(bad)), look(judged, lake, str(other))):
        assert "prediction error" not in live_subjects(nobodys, Urgency.RETRAIN)
        assert nobodys.live is not None
        assert nobodys.live.predictions is not None, "it is shown all the same"


def test_what_the_gate_saw_is_read_off_the_verdict() -> None:
    rows = [
        {"policy": "fifo", "mean_pred_err_pct": 0.0},
        {"policy": "pcs", "mean_pred_err_pct": 4.5, "jobs": 3},
    ]
    assert gate_prediction_errors({"challenger": "pcs", "policies": rows}) == {"mean_pred_err_pct": 4.5}
    assert gate_prediction_errors({"challenger": "lucid", "policies": rows}) is None
    assert gate_prediction_errors(None) is None


def test_estimates_of_another_release_are_not_laid_at_this_one_s_door(
    watched: WatchedCluster, lake: str, tmp_path: Path
) -> None:
    folder = lived_week(watched, tmp_path, upside_down, version=9)
    live = look(watched, lake, str(folder)).live
    assert live is not None
    assert live.errors is None
    assert "no job that this release ranked" in live.note
    assert live.hindsight is not None


def test_without_records_it_says_so_and_goes_on(watched: WatchedCluster, lake: str, tmp_path: Path) -> None:
    assert look(watched, lake, None, live_dir=tmp_path).live is None
    report = look(watched, lake, str(tmp_path / "none"))
    assert report.live is not None
    assert "No live scheduler has decided anything" in report.live.note
    away = look(watched, lake, "http://127.0.0.1:9").live
    assert away is not None
    assert away.note.startswith("not measured")


class Remembering(Operations):
    """A live scheduler of which nothing is known but its last look back."""

    def __init__(self, report: RegretReport, view: LiveView) -> None:
        self._report, self._view, self._clock = report, view, time.time

    @property
    def view(self) -> LiveView:
        return self._view

    def heartbeat_age_s(self) -> float | None:
        return 1.0

    def regret_report(self) -> RegretReport:
        return self._report

    def judged_predictions(self) -> list[JudgedPrediction]:
        return []


def test_over_http_the_last_look_back_is_known(watched: WatchedCluster, lake: str, tmp_path: Path) -> None:
    harm = Regret(300.0, 120.0, 500.0, 10.0, True)
    past = Hindsight(
        1.0, 2.0, "lucid", 400, 0, {}, *map(MeanTimes, (3_300.0, 3_000.0, 3_300.0, 2_900.0)),
        harm, Regret(400.0, 1.0, 900.0, 13.8, True), 0.7, (),
    )  # fmt: skip
    settings = LiveSettings(CLUSTER)
    status = ClientStatus("champion", "following", "release 1", 1, None, None, None, None, None, None)
    source = Remembering(
        RegretReport(2.0, StartAgreement(10, 7, 5.0, 0), past), LiveView(1.0, 1.0, settings, status)
    )
    with LiveService(source, settings, tmp_path) as service:
        assert service.web is not None
        report = look(watched, lake, service.web.url, live_token_file=tmp_path / "token")
        unknown = look(watched, lake, service.web.url)
    live = report.live
    assert live is not None
    assert live.hindsight is not None, live.note
    assert (live.hindsight.against_backfill, live.hindsight.jobs) == (harm, 400)
    assert live.agreement is not None
    assert live.agreement.share == 0.7
    assert live_subjects(report, Urgency.RETRAIN) == {"regret"}
    write_monitor_report(report, tmp_path / "page")
    assert "token" in unknown.live.note  # type: ignore[union-attr]
