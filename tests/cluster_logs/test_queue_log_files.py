"""Snapshots of a queue: columns by name, every row kept or refused by a named rule."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_logs.queue_log_files import read_queue_log
from foundation.errors import BadInputError, NotFoundError
from tests.reference import ROOT

ROW = {
    "job_id": "7",
    "poll_time": "2021-05-01 12:00:00",
    "submit_time": "2021-05-01 10:00:00",
    "start_time": "2021-05-01 15:00:00",
}


def read(folder: Path, snapshots: list[dict], jobs: list[dict] | None = None):
    pd.DataFrame(jobs or [ROW]).to_csv(folder / "jobs.csv", index=False)
    pd.DataFrame(snapshots).to_csv(folder / "snapshots.csv.gz", index=False)
    return read_queue_log(str(folder / "jobs.csv"), str(folder / "snapshots.csv.gz"))


def test_the_order_of_columns_is_of_no_account(tmp_path: Path) -> None:
    rows = [
        {**ROW, "job_id": f"j{number}", "partition": "p", "account_id": number % 2, "priority": number}
        for number in range(4)
    ]
    one = read(tmp_path, rows)
    other = read(tmp_path, [dict(reversed(row.items())) for row in rows])
    for table in ("jobs", "seen"):
        for name, values in getattr(one, table).items():
            np.testing.assert_array_equal(values, getattr(other, table)[name])
    assert one.names == {"partition": ("", "p"), "account": ("", "0", "1")}


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "job_id": st.sampled_from(["1", "2", "3", ""]),
                "poll_time": st.sampled_from(["2021-05-01 12:00:00", "2021-05-02 12:00:00", "noon"]),
                "submit_time": st.sampled_from(["2021-05-01 10:00:00", "2021-06-01", "", "?"]),
                "start_time": st.sampled_from(["2021-05-01 11:00:00", "2021-05-03 12:00:00", ""]),
                "end_time": st.sampled_from(["2021-05-03 11:00:00", "2021-05-05 12:00:00", ""]),
            }
        ),
        max_size=12,
    )
)
def test_every_row_is_kept_or_refused_by_a_named_rule(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict]
) -> None:
    log = read(tmp_path_factory.mktemp("queue"), [ROW, *rows])
    assert log.rows_in == len(rows) + 2
    assert log.rows_kept + sum(log.reasons.values()) == log.rows_in
    start = log.jobs["start_s"][log.seen["job"]]
    assert not (start < log.seen["moment_s"]).any()


def test_what_is_not_known_yet_stays_open_and_gpus_are_read_from_tres(tmp_path: Path) -> None:
    log = read(
        tmp_path,
        [{**ROW, "job_id": "8", "start_time": "", "req_tres": "cpu=4,gres/gpu:a100=2,node=1"}],
        [{**ROW, "poll_wait_sec": 10_800}],
    )
    assert log.jobs["job_id"].tolist() == ["7", "8"]
    assert np.isnan(log.jobs["start_s"]).tolist() == [False, True]
    assert log.jobs["gpus"][1] == 2.0
    assert log.moments_s.tolist() == [pd.Timestamp("2021-05-01 12:00").timestamp()]


def test_bad_files_are_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="lacks the columns poll_time, submit_time"):
        read(tmp_path, [{"job_id": 1}])
    with pytest.raises(BadInputError, match="no waiting job"):
        read(tmp_path, [{**ROW, "submit_time": "2022-01-01"}])
    with pytest.raises(NotFoundError):
        read_queue_log(str(tmp_path / "none.csv"), str(tmp_path / "jobs.csv"))
    (tmp_path / "broken.csv.gz").write_bytes(b"\x1f\x8b nothing")
    with pytest.raises(BadInputError, match="cannot be read"):
        read_queue_log(str(tmp_path / "broken.csv.gz"), str(tmp_path / "jobs.csv"))


@pytest.mark.reference
def test_graham_is_read_whole() -> None:
    folder = ROOT / "data/drac_slurm"
    log = read_queue_log(str(folder / "graham_jobs.csv.gz"), str(folder / "graham_snapshots.csv.gz"))
    assert log.rows_in == log.rows_kept == 133_025 + 153_523
    assert log.moments_s.size == 36
    assert int((log.jobs["gpus"] > 0).sum()) > 12_000
