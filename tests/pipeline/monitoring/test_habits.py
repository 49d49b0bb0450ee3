"""A log whose run times come to be told by another fact asks for a retraining; one that goes on does not."""

import numpy as np
import pandas as pd

from lucid_models.boosting import BoostingSettings
from lucid_models.duration.model import DurationSettings, WorkloadEstimateModel
from pipeline.monitoring.data import MonitoredTables
from pipeline.monitoring.monitor import habit_findings
from pipeline.monitoring.rules import Urgency


def log(told_by: str, seed: int, jobs: int = 2_000) -> pd.DataFrame:
    """Jobs of six users in five virtual clusters; run times follow one of the two."""
    rng = np.random.default_rng(seed)
    facts = {"user": rng.integers(0, 6, jobs), "virtual_cluster": rng.integers(0, 5, jobs)}
    submit = pd.Timestamp("2021-01-04", tz="UTC") + pd.to_timedelta(np.arange(jobs) * 300, unit="s")
    return pd.DataFrame(
        {
            "job_id": [f"j{seed}-{number}" for number in range(jobs)],
            **{fact: [f"{fact}{number}" for number in numbers] for fact, numbers in facts.items()},
            "gpus": rng.choice([1, 2, 4], jobs),
            "submit_time": submit + pd.Timedelta(days=30 * seed),
            "duration_s": np.exp(3.0 + 0.9 * facts[told_by] + rng.normal(0, 0.5, jobs)),
        }
    )


def findings(later: pd.DataFrame) -> list:
    few = BoostingSettings(bags=2, max_rounds=10, max_bins=8)
    settings = DurationSettings(log_boosting=few, mean_boosting=few, pairs=0)
    scorer = WorkloadEstimateModel(settings).fit(log("user", 0)).scorer
    assert [level["level"] for level in scorer.training["levels"]["chosen"]] == ["user"]
    tables = MonitoredTables(None, log("user", 0), later, later, None, 0, len(later), None)
    return list(habit_findings(scorer, tables))


def test_another_habit_asks_for_a_retraining_and_is_named() -> None:
    (finding,) = findings(log("virtual_cluster", 1))
    assert finding.level is Urgency.RETRAIN
    assert "Jobs of one virtual cluster have come to run alike" in finding.sentence
    assert finding.value > 0.3


def test_the_same_habits_say_nothing_and_neither_do_few_jobs() -> None:
    assert not findings(log("user", 1))
    assert not findings(log("virtual_cluster", 1, jobs=900))
