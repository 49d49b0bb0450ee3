"""Run times of a virtual cluster that become four times as long are noticed that day, by its name."""

from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest

from lucid_models.boosting import BoostingSettings
from lucid_models.duration.model import DurationSettings, WorkloadEstimateModel
from pipeline.monitoring.data import MonitoredTables, MonitoredWindow
from pipeline.monitoring.errors import duration_health
from pipeline.monitoring.findings import duration_findings
from pipeline.monitoring.rules import MonitorSettings, Urgency

BEGIN = datetime(2021, 1, 4, tzinfo=UTC)
LEARNED = pd.Timedelta(days=10)


@pytest.fixture(scope="module")
def log() -> pd.DataFrame:
    """Twelve days of two virtual clusters, 144 jobs a day each."""
    jobs = 12 * 288
    rng = np.random.default_rng(0)
    submit = pd.Timestamp(BEGIN) + pd.to_timedelta(np.arange(jobs) * 300, unit="s")
    return pd.DataFrame(
        {
            "job_id": [f"j{number}" for number in range(jobs)],
            "virtual_cluster": [f"vc{number % 2}" for number in range(jobs)],
            "user": [f"u{number}" for number in rng.integers(0, 6, jobs)],
            "gpus": rng.choice([1, 2, 4], jobs),
            "submit_time": submit,
            "duration_s": np.exp(5.0 + rng.normal(0, 1.0, jobs)),
        }
    )


@pytest.fixture(scope="module")
def model(log: pd.DataFrame) -> WorkloadEstimateModel:
    few = BoostingSettings(bags=2, max_rounds=10, max_bins=8)
    settings = DurationSettings(log_boosting=few, mean_boosting=few, pairs=0)
    return WorkloadEstimateModel(settings).fit(log[log["submit_time"] < pd.Timestamp(BEGIN) + LEARNED])


def findings_after(model: WorkloadEstimateModel, log: pd.DataFrame, days: int) -> list:
    """What a pass says so many days after the release learned."""
    until = pd.Timestamp(BEGIN) + LEARNED
    end = until + pd.Timedelta(days=days)
    window = MonitoredWindow(BEGIN, until.to_pydatetime(), until.to_pydatetime(), end.to_pydatetime())
    later = log[(log["submit_time"] >= until) & (log["submit_time"] < end)].reset_index(drop=True)
    earlier = log[log["submit_time"] < until]
    settings = MonitorSettings()
    tables = MonitoredTables(window, earlier, later, later, None, 0, len(later), None)
    return list(duration_findings(duration_health(model, tables, {}, settings), settings))


def test_a_day_is_enough_and_only_the_virtual_cluster_that_changed_is_named(model, log) -> None:
    changed = (log["virtual_cluster"] == "vc1") & (log["submit_time"] >= pd.Timestamp(BEGIN) + LEARNED)
    slower = log.assign(duration_s=log["duration_s"].where(~changed, 4 * log["duration_s"]))
    for days, day in ((1, "2021-01-14"), (2, "2021-01-15")):
        named = [each for each in findings_after(model, slower, days) if "have moved" in each.sentence]
        assert [each.subject for each in named] == ["run times of virtual cluster vc1"]
        assert named[0].level is Urgency.WATCH
        assert named[0].value > 2
        assert f"on {day} " in named[0].sentence


def test_a_log_that_goes_on_is_not_named(model, log) -> None:
    assert not [each for each in findings_after(model, log, 2) if "have moved" in each.sentence]
