"""A monitoring pass: quiet weeks stay quiet, an adversarial one is described by name, no future is."""

from dataclasses import replace
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cluster_logs.lake import Lake
from foundation.errors import BadInputError, UnknownNameError
from foundation.site import Site
from lucid_models.drift import LEAST_ROWS
from pipeline.monitoring.monitor import monitor_release
from pipeline.monitoring.page import monitoring_page
from pipeline.monitoring.records import metric_part, metrics_of, write_monitor_report
from pipeline.monitoring.report import LimitSavings, MonitorReport
from pipeline.monitoring.rules import MonitorSettings, Urgency, monitor_settings
from tests.pipeline.monitoring.watched_cluster import (
    CLUSTER,
    END,
    TRAINED_UNTIL,
    WatchedCluster,
    as_of,
    watched_cluster,
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def watched() -> WatchedCluster:
    return watched_cluster(0)


def look(watched: WatchedCluster, lake_uri: str, **options) -> MonitorReport:
    return monitor_release(Site(lake=lake_uri, cluster=CLUSTER), watched.release, **{"as_of": END, **options})


def subjects(report: MonitorReport, level: Urgency) -> set[str]:
    return {finding.subject for finding in report.findings if finding.level is level}


def adversarial(week: pd.DataFrame) -> pd.DataFrame:
    """All users renamed, GPU demand doubled, the fourth day missing."""
    day = week["submit_time"].dt.floor("D")
    kept = week[day != day.min() + pd.Timedelta(days=3)].copy()
    return kept.assign(user="new-" + kept["user"].astype(str), gpus=2 * kept["gpus"])


@pytest.fixture(scope="module")
def attacked(watched: WatchedCluster, tmp_path_factory: pytest.TempPathFactory) -> MonitorReport:
    return look(watched, watched.lake(tmp_path_factory.mktemp("attacked"), adversarial))


@pytest.mark.parametrize(
    "seeds", [(0,), pytest.param((0, 1, 2), marks=pytest.mark.thorough("more logs"))], ids=str
)
def test_quiet_weeks_raise_no_alarm(seeds: tuple[int, ...], tmp_path: Path) -> None:
    """Windows of 3 and 7 days of logs that go on as they were: no alarm, hardly a word."""
    said: list[str] = []
    for seed in seeds:
        log = watched_cluster(seed)
        lake_uri = log.lake(tmp_path / str(seed))
        for days in (3, 7):
            report = look(log, lake_uri, as_of=as_of(days))
            assert report.decision is not Urgency.RETRAIN, report.reasons
            said += report.reasons
    assert len(said) <= 1, said


def test_an_adversarial_week_is_described_by_name(attacked: MonitorReport) -> None:
    assert attacked.decision is Urgency.RETRAIN
    assert subjects(attacked, Urgency.RETRAIN) >= {"gpus", "new users", "GPUs asked for a bin"}
    assert subjects(attacked, Urgency.WATCH) >= {"missing days", "silence"}
    said = " ".join(finding.sentence for finding in attacked.findings)
    assert "New users: 100% of the jobs." in said
    assert "A day has no job at all: 2020-04-25." in said
    drift = {each.feature: each for each in attacked.drift}
    assert drift["gpus"].psi > 1 > 0.1 > drift["gpus"].usual_psi
    # What did not change is not reported.
    assert not {"nodes", "hour of submission (UTC)", "gpu_mem_mib"} & subjects(attacked, Urgency.RETRAIN)


def test_estimates_stay_sane_in_an_adversarial_week(attacked: MonitorReport) -> None:
    health = attacked.duration
    assert health.unusable == 0
    assert health.estimated > 500
    # The rival averages the very levels that the model found; forty rounds of boosting add little to them.
    assert health.overall.mae_log10 < 1.05 * health.overall.naive_mae_log10
    assert health.overall.mae_log10 < 1.3 * health.validation["mae_log10"]
    assert 0.8 < health.overall.coverage_p90 < 0.97
    assert all(series.unusable == 0 for series in attacked.throughput)


def slower(week: pd.DataFrame) -> pd.DataFrame:
    """Every job runs six times as long."""
    ran = week["end_time"] - week["start_time"]
    duration = 6 * week["duration_s"]
    return week.assign(duration_s=duration, service_s=duration, end_time=week["start_time"] + 6 * ran)


def test_run_times_that_change_are_found_in_the_target_and_in_the_error(
    watched: WatchedCluster, tmp_path: Path
) -> None:
    report = look(watched, watched.lake(tmp_path, slower), as_of=as_of(5))
    assert report.decision is Urgency.RETRAIN
    assert "run time (s)" in subjects(report, Urgency.RETRAIN)
    assert report.duration.against_validation.point > 0
    assert report.duration.overall.mae_log10 > 0.45


def test_what_comes_after_the_pass_changes_nothing(watched: WatchedCluster, tmp_path: Path) -> None:
    """A pass as of the fourth day says the same whatever the log says later."""
    moment = as_of(4)

    def other_future(week: pd.DataFrame) -> pd.DataFrame:
        later = week["submit_time"] >= moment
        running = ~later & (week["end_time"] > moment)
        changed = week.copy()
        changed.loc[later, "user"] = "nobody"
        changed.loc[later, "gpus"] = 64
        for column in ("duration_s", "service_s"):
            changed.loc[running | later, column] *= 3
        extra = pd.to_timedelta(2 * week["duration_s"], unit="s")
        changed.loc[running | later, "end_time"] += extra
        return changed

    as_it_was = look(watched, watched.lake(tmp_path / "a"), as_of=moment)
    changed = look(watched, watched.lake(tmp_path / "b", other_future), as_of=moment)
    assert as_it_was.to_dict() == changed.to_dict()


def test_a_handful_of_rows_gives_words_instead_of_numbers(watched: WatchedCluster, tmp_path: Path) -> None:
    report = look(watched, watched.lake(tmp_path), as_of=as_of(0.1))
    assert 0 < report.data.jobs < LEAST_ROWS
    assert all(drift.psi is None for drift in report.drift if drift.feature == "gpus")
    assert "too few rows" in report.drift[0].note
    assert report.duration.against_validation is None
    assert report.decision is not Urgency.RETRAIN
    assert "too few rows" in monitoring_page(report)


def test_the_page_tells_what_shorter_limits_would_have_saved(attacked: MonitorReport) -> None:
    assert "Time limits" not in monitoring_page(attacked)
    savings = LimitSavings("GPU jobs", 1_234, 3.456, 2.07, 0.87, 68.2, 64.0)
    page = monitoring_page(replace(attacked, limits=(savings,)))
    cells = ["GPU jobs", "1,234", "3.46", "2.07", "68 %", "36 %", "0.87 %"]
    places = [page.index(f">{cell}<", page.index("Time limits")) for cell in cells]
    assert places == sorted(places)


def test_a_log_that_stopped_is_watched(watched: WatchedCluster, tmp_path: Path) -> None:
    """As of a week after its last job there is nothing to judge, and it says so."""
    report = look(watched, watched.lake(tmp_path), as_of=END + timedelta(days=8))
    assert report.decision is Urgency.WATCH
    assert "nothing can be judged" in report.reasons[0]
    assert report.duration.against_validation is None  # eight long jobs that ended since decide nothing
    partly = look(watched, watched.lake(tmp_path), as_of=END + timedelta(days=2))
    assert partly.data.missing_days == ("2020-04-29", "2020-04-30")
    assert partly.data.behind_h > 47


def test_quarantined_rows_count_by_the_window_s_files(watched: WatchedCluster, tmp_path: Path) -> None:
    lake_uri = watched.lake(tmp_path)
    name = str(watched.jobs["source_file"].iloc[0])
    rows = pd.DataFrame(
        {
            "reason": "negative_gpus",
            "column": "gpus",
            "value": "-1",
            "source_format": "helios",
            "source_file": name,
            "source_row": np.arange(1, 2_001),
            "raw_row": [f"row {n}" for n in range(2_000)],
        }
    )
    Lake(lake_uri).add_quarantine(CLUSTER, "log", rows)
    Lake(lake_uri).add_quarantine(CLUSTER, "other", rows.assign(source_file="another.csv"))
    report = look(watched, lake_uri)
    assert report.data.quarantine_share == pytest.approx(2_000 / (2_000 + len(watched.jobs)), rel=0.01)
    assert "quarantine" in subjects(report, Urgency.WATCH)


def test_a_lake_without_the_training_window_is_refused(watched: WatchedCluster, tmp_path: Path) -> None:
    live = watched.jobs[watched.jobs["submit_time"] >= TRAINED_UNTIL]
    Lake(str(tmp_path)).write_jobs(CLUSTER, live)
    with pytest.raises(BadInputError, match="has no job with a run time before"):
        look(watched, str(tmp_path))


class Texts(HTMLParser):
    """The tags of a page and the text between them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_says_all_findings_and_escapes_what_the_log_says(
    watched: WatchedCluster, tmp_path: Path
) -> None:
    evil = "<script>alert('vc')</script>"

    def renamed(week: pd.DataFrame) -> pd.DataFrame:
        return week.assign(virtual_cluster=evil, user="<img src=x onerror=alert(1)>")

    report = look(watched, watched.lake(tmp_path / "lake", renamed))
    write_monitor_report(report, tmp_path / "page")
    page = (tmp_path / "page" / "index.html").read_text(encoding="utf-8")
    parsed = Texts(page)
    assert not {"script", "img", "link", "iframe"} & set(parsed.tags)
    assert evil in parsed.text
    for finding in report.findings:
        assert finding.sentence in parsed.text
    assert "http" not in page
    write_monitor_report(report, tmp_path / "again")
    assert (tmp_path / "again" / "index.html").read_bytes() == page.encode()


def test_every_metric_has_a_name_of_its_own_that_mlflow_takes(attacked: MonitorReport) -> None:
    names = [name for name, _ in metrics_of(attacked)]
    assert len(set(names)) == len(names)
    assert {"duration/mae_log10", "drift/gpus/psi", "data/missing_days"} <= set(names)
    assert any(name.startswith("duration/virtual_cluster/vc") for name in names)
    parts = [metric_part(text) for text in ("a/b", "a:b", "a_b", "..", "", "中", "vc 1", "x" * 200)]
    assert len(set(parts)) == len(parts)
    from mlflow.utils.validation import _validate_metric_name

    for name in (*names, *(f"virtual_cluster/{part}/mae" for part in parts)):
        _validate_metric_name(name)


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"psi_mayor": 0.3}, UnknownNameError),
        ({"psi_major": -1}, BadInputError),
        ({"psi_watch": 0.5}, BadInputError),
        ({"least_jobs": True}, BadInputError),
        ({"confidence_pct": "95"}, BadInputError),
    ],
)
def test_bad_thresholds_are_named(values: dict, error: type[Exception]) -> None:
    with pytest.raises(error, match=next(iter(values))):
        monitor_settings(values)


def test_thresholds_decide(attacked: MonitorReport, watched: WatchedCluster, tmp_path: Path) -> None:
    blind = MonitorSettings(psi_major=50, psi_watch=50, unknown_share=1, error_factor=10)
    report = look(watched, watched.lake(tmp_path, adversarial), settings=blind)
    assert attacked.decision is Urgency.RETRAIN
    assert report.decision is Urgency.WATCH  # the missing day stays
