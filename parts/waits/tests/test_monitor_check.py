"""What the gate and monitoring say of a release's wait model: beside the partition's median, and by week."""

from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from cluster_logs.lake import Lake
from foundation.site import Site
from parts.waits.model.calibration import WaitOffsets
from parts.waits.model.job_queue import read_job_queue
from parts.waits.model.model import WaitModel
from parts.waits.model.scorer import WaitScorer
from parts.waits.model.wait_table import WaitTable
from parts.waits.steps.gate_check import check_waits
from parts.waits.steps.judged_waits import judge_waits
from parts.waits.steps.monitor_check import WaitHealth, wait_health
from parts.waits.steps.wait_answers import pinned_waits
from parts.waits.tests.job_queues import FIRST_DAY, make_queue_jobs
from parts.waits.tests.queue_logs import FAST_WAITS
from pipeline.monitoring.data import MonitoredWindow
from pipeline.monitoring.part_health import MonitoredRelease
from pipeline.monitoring.rules import MonitorSettings, Urgency
from simulator.gate.rules import GateRules

FIRST = FIRST_DAY.to_pydatetime()
UNTIL, END = FIRST + timedelta(days=14), FIRST + timedelta(days=24)
SETTINGS = MonitorSettings()
WINDOW = MonitoredWindow(FIRST, UNTIL, END - timedelta(days=7), END)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = str(tmp_path_factory.mktemp("lake"))
    Lake(folder).write_jobs("small", make_queue_jobs(24))
    return folder


@pytest.fixture(scope="module")
def scorer(lake: str) -> WaitScorer:
    log = read_job_queue(Site(lake=lake, cluster="small"), UNTIL)
    return WaitModel(FAST_WAITS).fit(WaitTable.of(log), log.partition_name).scorer


def of(scorer: WaitScorer | None) -> SimpleNamespace:
    parts = {} if scorer is None else {"waits": pinned_waits({})}
    return SimpleNamespace(
        manifest=SimpleNamespace(parts=parts, cluster="small"), forecasts={"waits": scorer}
    )


def off_by(scorer: WaitScorer, factor: float) -> WaitScorer:
    """The same forecasts, so many times as long."""
    offsets = WaitOffsets({}, tuple(np.add(scorer.offsets.of_all, np.log10(factor)).tolist()))
    return WaitScorer(scorer.features, scorer.additive, offsets, usual_share=scorer.usual_share)


def test_a_queue_that_goes_on_is_forecast_week_by_week(lake: str, scorer: WaitScorer) -> None:
    health = wait_health(MonitoredRelease(of(scorer), {}, Site(lake=lake, cluster="small"), WINDOW, SETTINGS))
    assert health is not None
    assert health.error is not None
    assert health.naive_error is not None
    assert health.coverage_p90 is not None
    assert [week.begins for week in health.weeks] == ["2020-04-15", "2020-04-22"]
    assert sum(week.waits for week in health.weeks) == health.waits
    weighted = sum((week.error or 0.0) * week.waits for week in health.weeks) / health.waits
    assert weighted == pytest.approx(health.error)


def test_a_model_that_is_off_by_far_asks_for_a_new_one_and_is_refused(lake: str, scorer: WaitScorer) -> None:
    wrong = off_by(scorer, 0.01)
    off = wait_health(MonitoredRelease(of(wrong), {}, Site(lake=lake, cluster="small"), WINDOW, SETTINGS))
    assert off is not None
    findings = list(off.findings(SETTINGS))
    assert [(one.level, one.area, one.subject) for one in findings] == [
        (Urgency.RETRAIN, "waits", "worse than naive"),
        (Urgency.RETRAIN, "waits", "coverage"),
    ]
    rules = GateRules()
    errors, bounds = check_waits(wrong, of(wrong).manifest, Site(lake=lake), (UNTIL, END), rules)
    assert (errors.passed, bounds.passed) == (False, False)
    assert "the median wait of the partition" in errors.sentence
    assert "% of waits" in bounds.sentence
    right, _ = check_waits(scorer, of(scorer).manifest, Site(lake=lake), (UNTIL, END), rules)
    assert (right.challenger or 0.0) < (errors.challenger or 0.0)


def test_nothing_is_asked_of_a_release_without_one_or_where_nobody_waits(
    scorer: WaitScorer, tmp_path: Path
) -> None:
    assert (
        wait_health(MonitoredRelease(of(None), {}, Site(lake="nowhere", cluster="small"), WINDOW, SETTINGS))
        is None
    )
    assert check_waits(None, of(None).manifest, Site(lake="nowhere"), (UNTIL, END), GateRules()) == []
    jobs = make_queue_jobs(24)
    jobs["start_time"], jobs["queuing_delay_s"] = jobs["submit_time"], 0.0
    jobs["end_time"] = jobs["submit_time"] + pd.to_timedelta(jobs["duration_s"], unit="s")
    Lake(str(tmp_path)).write_jobs("small", jobs)
    health = wait_health(
        MonitoredRelease(of(scorer), {}, Site(lake=str(tmp_path), cluster="small"), WINDOW, SETTINGS)
    )
    assert isinstance(health, WaitHealth)
    assert health.note.startswith("not measured")
    assert list(health.findings(SETTINGS)) == []
    (unmeasured,) = check_waits(
        scorer, of(scorer).manifest, Site(lake=str(tmp_path)), (UNTIL, END), GateRules()
    )
    assert unmeasured.passed is None


def test_what_comes_after_the_end_changes_no_judgement(lake: str, scorer: WaitScorer, tmp_path: Path) -> None:
    middle = END - timedelta(days=4)
    jobs = make_queue_jobs(24)
    jobs = jobs[jobs["submit_time"] <= middle].copy()
    later = jobs["start_time"] > middle
    jobs.loc[later, "start_time"] += pd.Timedelta(days=3)
    jobs.loc[jobs["end_time"] > middle, "end_time"] += pd.Timedelta(days=5)
    Lake(str(tmp_path)).write_jobs("small", jobs)
    one, other = (
        judge_waits(Site(lake=uri, cluster="small"), scorer, UNTIL, middle) for uri in (lake, str(tmp_path))
    )
    np.testing.assert_array_equal(one.errors, other.errors)
    np.testing.assert_array_equal(one.naive_errors, other.naive_errors)
    assert one.coverage == other.coverage
