from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from cluster_logs.job_table import derive_throughput
from cluster_logs.lake import Lake
from lucid_models.evaluation.duration import DurationTest
from lucid_models.training_data import read_training_jobs, read_training_throughput

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


# One job far from the others -----------------------------------------------------------------------------

BULK = [START + timedelta(minutes=30 * number) for number in range(4 * 48)]
EARLY, LATE = START - timedelta(days=40), START + timedelta(days=49)


def log_of(lake_uri: str, times: list[datetime]) -> Lake:
    lake = Lake(lake_uri)
    jobs = pd.DataFrame({"submit_time": times}).assign(
        job_id=[str(row) for row in range(len(times))],
        virtual_cluster="vc",
        gpus=1,
        gpu_share=1.0,
        state="COMPLETED",
        duration_s=60.0,
        source_file="log.csv",
        source_row=range(1, len(times) + 1),
    )
    lake.write_jobs("far", jobs)
    lake.write_throughput("far", derive_throughput([pa.Table.from_pandas(lake.read_jobs("far"))]))
    return lake


def test_the_tail_of_a_log_with_one_early_job_is_that_of_the_others(tmp_path: Path) -> None:
    plain = read_training_jobs(log_of(f"{tmp_path}/plain", BULK).uri, "far", None, max_jobs=10**6)
    early = read_training_jobs(log_of(f"{tmp_path}/early", [EARLY, *BULK]).uri, "far", None, max_jobs=10**6)
    assert early.tail_start == plain.tail_start
    assert len(early.table) == len(plain.table) + 1
    split = DurationTest(early.table, 3)  # the early job's day is one of them
    assert len(split.train) == 1 + 2 * 48


def test_a_tail_of_days_holds_enough_jobs_to_judge(tmp_path: Path) -> None:
    late = read_training_jobs(log_of(str(tmp_path), [*BULK, LATE]).uri, "far", None, max_jobs=10**6)
    assert (late.table["submit_time"] >= late.tail_start).sum() >= 20


def test_nothing_is_learned_from_the_empty_days_between_one_job_and_the_others(tmp_path: Path) -> None:
    lake = log_of(str(tmp_path), [EARLY, *BULK])
    data = read_training_throughput(lake.uri, "far", None)
    days = data.table["bin_start"].dt.date.unique()
    assert len(days) == 5
    assert len(data.table) < 5 * 144 + 1 < len(lake.read_throughput("far"))
    assert "Nothing is learned from 39 days of pauses" in data.remarks[0]
    assert read_training_throughput(log_of(f"{tmp_path}/plain", BULK).uri, "far", None).remarks == ()


def test_counts_without_any_job_are_no_pause(tmp_path: Path) -> None:
    lake = log_of(str(tmp_path), BULK)
    counts = ("submitted_jobs", "submitted_gpu_jobs", "submitted_gpus")
    idle = lake.read_throughput("far").assign(**dict.fromkeys(counts, 0))
    lake.write_throughput("far", idle)
    data = read_training_throughput(lake.uri, "far", None)
    assert (len(data.table), data.remarks) == (len(idle), ())
