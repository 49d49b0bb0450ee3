"""Days, refused rows and work files of a lake that are past their age; what stays is whole."""

import os
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cluster_logs.lake import Lake
from cluster_logs.removal import Expired, expire_days, expire_quarantine, expire_work_files, lake_clusters
from foundation.errors import ClusterBusyError, HalfWrittenError
from tests.fixtures import small_jobs


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(str(tmp_path / "lake"))
    jobs = small_jobs(300).assign(source_file="log.csv", source_row=range(300))
    lake.write_jobs("small", jobs)
    refused = pd.DataFrame(
        {
            "reason": "end_before_start", "column": "end_time", "value": "x", "source_format": "sacct",
            "source_file": "log.csv", "source_row": [7], "raw_row": "x",
        }
    )  # fmt: skip
    lake.add_quarantine("small", "log.csv", refused)
    lake.add_quarantine("small", "new.csv", refused.assign(source_file="new.csv"))
    return lake


def age(path: Path, days: float) -> None:
    then_s = (datetime.now(UTC) - timedelta(days=days)).timestamp()
    for each in (path, *path.rglob("*")):
        os.utime(each, (then_s, then_s))


def test_days_count_from_the_newest_and_readers_read_what_is_left(lake: Lake) -> None:
    before = lake.read_jobs("small")
    days = lake.dates("small")
    assert expire_days(lake.uri, "small", keep_days=4, dry_run=True).removed == len(days) - 5
    assert lake.dates("small") == days
    expired = expire_days(lake.uri, "small", keep_days=4, dry_run=False)
    assert (expired.kept, expired.removed) == (5, len(days) - 5)
    assert expired.freed_bytes > 0
    assert lake.dates("small") == days[-5:]
    first = pd.Timestamp(days[-5], tz="UTC")
    expected = before[before["submit_time"] >= first].reset_index(drop=True)
    pd.testing.assert_frame_equal(lake.read_jobs("small").reset_index(drop=True), expected)
    assert expire_days(lake.uri, "small", keep_days=4, dry_run=False) == Expired(kept=5)


def test_a_reader_that_had_begun_reads_again(lake: Lake) -> None:
    reading = lake.iter_jobs("small")
    next(reading)
    expire_days(lake.uri, "small", keep_days=4, dry_run=False)
    with pytest.raises(ClusterBusyError, match="changed while they were read"):
        list(reading)


def test_a_half_written_cluster_is_left_alone(lake: Lake) -> None:
    days = lake.dates("small")
    with suppress(KeyboardInterrupt), lake.writing("small", "an ingest", ("jobs",)):
        lake.writes.changing("small", "jobs")
        raise KeyboardInterrupt
    with pytest.raises(HalfWrittenError, match="an ingest"):
        expire_days(lake.uri, "small", keep_days=4, dry_run=False)
    with lake.writing("small", "an ingest", ("jobs",)):
        pass
    assert lake.dates("small") == days


def test_refused_rows_go_by_file(lake: Lake) -> None:
    age(Path(lake.uri) / "quarantine" / "cluster=small" / "log.csv.parquet", 400)
    before = datetime.now(UTC) - timedelta(days=365)
    assert expire_quarantine(lake.uri, "small", before=before, dry_run=False).removed == 1
    assert lake.read_quarantine("small")["source_file"].tolist() == ["new.csv"]


def test_work_files_go_when_nothing_of_them_was_written_for_long(lake: Lake) -> None:
    root = Path(lake.uri)
    for name in ("sweeps/cluster=small/old", "sweeps/cluster=small/resumed", "profiles/cluster=small/set"):
        (root / name).mkdir(parents=True)
        (root / name / "inputs.parquet").write_bytes(b"x" * 100)
        age(root / name, 90)
    (root / "staging/cluster=small").mkdir(parents=True)
    (root / "staging/cluster=small/sacct-2026-01-01.txt.gz").write_bytes(b"y")
    age(root / "staging/cluster=small", 90)
    (root / "sweeps/cluster=small/resumed/runs.json").write_text("{}")
    before = datetime.now(UTC) - timedelta(days=60)
    expired = expire_work_files(lake.uri, "small", before=before, dry_run=False)
    assert expired == Expired(kept=1, removed=2, freed_bytes=101)
    left = {
        str(path.relative_to(root)) for path in root.glob("*/cluster=small/*") if "date=" not in path.name
    }
    assert {"sweeps/cluster=small/resumed", "profiles/cluster=small/set"} <= left
    assert "sweeps/cluster=small/old" not in left


def test_clusters_are_those_of_any_folder(lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "lake/sweeps/cluster=only-swept").mkdir(parents=True)
    assert lake_clusters(lake.uri) == ["only-swept", "small"]
    assert lake_clusters(str(tmp_path / "nowhere")) == []


def test_in_another_storage() -> None:
    uri = "memory://expiry/lake"
    lake = Lake(uri)
    jobs: Any = small_jobs(50).assign(source_file="log.csv", source_row=range(50))
    lake.write_jobs("small", jobs)
    days = lake.dates("small")
    expire_days(uri, "small", keep_days=2, dry_run=False)
    assert lake.dates("small") == [day for day in days if day >= days[-1] - timedelta(days=2)]
