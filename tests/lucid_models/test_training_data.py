from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cluster_logs.lake import Lake
from lucid_models.training_data import read_training_jobs

START = datetime(2020, 1, 1, tzinfo=UTC)
DAYS = 40


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Three jobs a day for 40 days; every fifth never ran, some run for days."""
    found = Lake(str(tmp_path_factory.mktemp("lake")))
    number = np.arange(3 * DAYS)
    submit = pd.Timestamp(START) + pd.to_timedelta(number * 8.0, unit="h")
    duration = np.where(number % 5 == 0, 0.0, np.where(number % 7 == 0, 3 * 86_400.0, 60.0))
    found.write_jobs(
        "old",
        pd.DataFrame(
            {
                "job_id": [f"j{i}" for i in number],
                "virtual_cluster": "vc",
                "gpus": 1,
                "gpu_share": 1.0,
                "state": "COMPLETED",
                "submit_time": submit,
                "start_time": submit,
                "end_time": submit + pd.to_timedelta(duration, unit="s"),
                "duration_s": duration,
                "source_file": "log.csv",
                "source_row": number + 1,
            }
        ),
    )
    return found


@pytest.fixture(autouse=True)
def few_days_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lucid_models.training_data._FIRST_DAYS", 4)


@pytest.mark.parametrize("until", [None, START + timedelta(days=35)])
def test_the_newest_jobs_are_those_of_the_whole_log(lake: Lake, until: datetime | None) -> None:
    everything = read_training_jobs(lake.uri, "old", until, max_jobs=10**9).table
    assert len(everything) == 4 * 3 * (DAYS if until is None else 35) // 5
    for most in (1, 9, 20, 60, 100_000):
        newest = read_training_jobs(lake.uri, "old", until, max_jobs=most)
        expected = everything.tail(most).reset_index(drop=True)
        pd.testing.assert_frame_equal(newest.table, expected)
        assert newest.dataset.rows == len(expected)
        assert newest.start == expected["submit_time"].iloc[0]


def test_days_that_are_too_old_are_not_read(lake: Lake, tmp_path: Path) -> None:
    damaged = Lake(str(tmp_path))
    damaged.write_jobs("old", lake.read_jobs("old"))
    first_day = next(Path(tmp_path).rglob(f"date={START.date()}/*.parquet"))
    first_day.write_bytes(b"not Parquet")
    assert len(read_training_jobs(damaged.uri, "old", None, max_jobs=20).table) == 20
