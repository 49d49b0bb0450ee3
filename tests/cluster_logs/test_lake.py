"""The lake: merging by key, partitions that other tools can open, whole files or none."""

from datetime import UTC, date, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_logs.job_table import JOB_SCHEMA, derive_throughput, merge_jobs, to_digest, to_frame
from cluster_logs.lake import Lake
from foundation import storage
from foundation.errors import BadInputError, NotFoundError
from foundation.run_manifest import frame_sha256
from tests.evidence import Evidence

DAY = pd.Timestamp("2020-04-01", tz="UTC")


def some_jobs(ids: list[str], *, state: str | None = "COMPLETED", hours: float = 1.0) -> pd.DataFrame:
    """One job every `hours`, from DAY on."""
    submit = [DAY + pd.Timedelta(hours=hours * index) for index in range(len(ids))]
    return pd.DataFrame(
        {
            "job_id": ids,
            "virtual_cluster": "6214e9",
            "gpus": 1,
            "gpu_share": 1.0,
            "state": state,
            "submit_time": submit,
            "source_file": "log.csv",
            "source_row": range(1, len(ids) + 1),
        }
    )


@pytest.fixture(params=["path", "file", "memory"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    uris = {
        "path": str(tmp_path / "lake"),
        "file": (tmp_path / "lake").as_uri(),
        "memory": f"memory://{tmp_path.name}",
    }
    return Lake(uris[request.param])


def test_facts_that_an_older_lake_has_no_columns_for_are_null(tmp_path: Path) -> None:
    lake, uri = Lake(str(tmp_path)), "jobs/cluster=c/date=2020-04-01/part-0.parquet"
    lake.write_jobs("c", some_jobs(["a", "b"]))
    new = ["account", "group", "queue", "qos", "gpu_type", "requested_memory_mib"]
    pq.write_table(pq.read_table(tmp_path / uri, partitioning=None).drop_columns(new), tmp_path / uri)
    jobs = lake.read_jobs("c")
    assert list(jobs.columns) == JOB_SCHEMA.names
    assert jobs["job_id"].tolist() == ["a", "b"]
    assert jobs[new].isna().all(axis=None)
    before = (tmp_path / uri).read_bytes()
    lake.write_jobs("c", some_jobs(["a", "b"]))
    assert (tmp_path / uri).read_bytes() == before, "the same rows are not written again"
    lake.write_jobs("c", some_jobs(["a", "b"]).assign(account="physics"))
    assert lake.read_jobs("c")["account"].tolist() == ["physics", "physics"]


def test_a_fact_that_no_job_has_changes_no_digest(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    lake.write_jobs("c", some_jobs(["a", "b"]))
    jobs = lake.read_jobs("c")
    digest = frame_sha256(to_digest(jobs))
    unknown = [field.name for field in JOB_SCHEMA if field.nullable and jobs[field.name].isna().all()]
    assert {"account", "order_in_vc", "gpu_util_pct"} <= set(unknown)
    for name in unknown:
        assert frame_sha256(to_digest(jobs.drop(columns=name))) == digest, name
    assert frame_sha256(to_digest(jobs.assign(queue=["short", None]))) != digest
    assert "user" not in to_digest(jobs.assign(user=None))


def test_written_jobs_come_back_in_order(lake: Lake) -> None:
    lake.write_jobs("103959", some_jobs(["b", "a", "c"], hours=20).iloc[::-1])
    jobs = lake.read_jobs("103959")
    assert jobs["job_id"].tolist() == ["b", "a", "c"]
    assert list(jobs.columns) == JOB_SCHEMA.names
    assert set(jobs["cluster"]) == {"103959"}
    assert lake.dates("103959") == [date(2020, 4, 1), date(2020, 4, 2)]
    assert lake.clusters() == ["103959"]


def test_writing_again_changes_no_file(lake: Lake) -> None:
    assert lake.write_jobs("venus", some_jobs(["a", "b"])) == 1
    assert lake.write_jobs("venus", some_jobs(["a", "b"])) == 0


def test_overlapping_windows_merge_and_the_newer_row_wins(lake: Lake) -> None:
    lake.write_jobs("venus", some_jobs(["a", "b", "c"], state="RUNNING"))
    later = some_jobs(["a", "b", "c", "d"]).iloc[1:]
    lake.write_jobs("venus", later)
    states = lake.read_jobs("venus").set_index("job_id")["state"].to_dict()
    assert states == {"a": "RUNNING", "b": "COMPLETED", "c": "COMPLETED", "d": "COMPLETED"}


def test_an_older_export_does_not_undo_an_end(lake: Lake) -> None:
    lake.write_jobs("venus", some_jobs(["a"]))
    assert lake.write_jobs("venus", some_jobs(["a"], state="RUNNING")) == 0
    assert lake.read_jobs("venus")["state"].tolist() == ["COMPLETED"]


def test_equal_ids_of_two_submissions_are_two_runs(lake: Lake) -> None:
    lake.write_jobs("venus", some_jobs(["a", "a"]))
    assert len(lake.read_jobs("venus")) == 2


def test_equal_ids_of_two_clusters_are_two_jobs(lake: Lake) -> None:
    lake.write_jobs("venus", some_jobs(["a"]))
    lake.write_jobs("saturn", some_jobs(["a", "b"]))
    assert (len(lake.read_jobs("venus")), len(lake.read_jobs("saturn"))) == (1, 2)


def test_windows_are_half_open_and_columns_are_chosen(lake: Lake) -> None:
    lake.write_jobs("venus", some_jobs(["a", "b", "c", "d"], hours=12))
    start, end = datetime(2020, 4, 1, 12, tzinfo=UTC), datetime(2020, 4, 2, 12)  # noqa: DTZ001  naive is UTC
    assert lake.read_jobs("venus", start, end, columns=["job_id"])["job_id"].tolist() == ["b", "c"]
    assert lake.read_jobs("venus", end=datetime(2020, 1, 1, tzinfo=UTC)).empty
    with pytest.raises(BadInputError, match="no column 'gpu'"):
        lake.read_jobs("venus", columns=["gpu"])


def test_deleting_the_last_job_of_a_day_removes_the_day(lake: Lake) -> None:
    jobs = some_jobs(["a", "b"], hours=24)
    lake.write_jobs("venus", jobs)
    assert lake.delete_jobs("venus", jobs.iloc[[1]]) == 1
    assert lake.delete_jobs("venus", jobs.iloc[[1]]) == 0
    assert lake.dates("venus") == [date(2020, 4, 1)]


def test_dtypes_do_not_depend_on_the_content(lake: Lake) -> None:
    full = some_jobs(["a"]).assign(cpus=4, nodes=1, user="u", start_time=DAY, end_time=DAY, duration_s=0.0)
    lake.write_jobs("full", full)
    lake.write_jobs("sparse", some_jobs(["a"], state=None))
    assert lake.read_jobs("full").dtypes.to_dict() == lake.read_jobs("sparse").dtypes.to_dict()
    assert to_frame(JOB_SCHEMA.empty_table()).dtypes.to_dict() == lake.read_jobs("full").dtypes.to_dict()


def test_nodes_are_replaced_as_a_whole(lake: Lake) -> None:
    nodes = pd.DataFrame({"virtual_cluster": ["b", "103959"], "nodes": [2, 3], "gpus_per_node": [8, 4]})
    assert lake.write_nodes("venus", nodes)
    assert not lake.write_nodes("venus", nodes)
    lake.write_nodes("venus", nodes.iloc[1:])
    assert lake.read_nodes("venus").to_dict("list") == {
        "virtual_cluster": ["103959"],
        "nodes": [3],
        "gpus_per_node": [4],
    }


def test_quarantine_grows_without_doubles(lake: Lake) -> None:
    rows = pd.DataFrame(
        {"reason": "x", "source_format": "f", "source_file": "l", "source_row": [2, 1], "raw_row": ["q", "r"]}
    )
    assert lake.read_quarantine("venus").empty
    assert lake.add_quarantine("venus", "f-log", rows)
    assert not lake.add_quarantine("venus", "f-log", rows.iloc[:1])
    lake.add_quarantine("venus", "other", rows.iloc[:1])
    assert lake.read_quarantine("venus")["source_row"].tolist() == [1, 2, 2]


def test_what_is_not_there_is_named_with_what_is(lake: Lake) -> None:
    lake.write_jobs("venus", some_jobs(["a"]))
    with pytest.raises(NotFoundError, match=r"'saturn'.*venus"):
        lake.read_jobs("saturn")
    with pytest.raises(NotFoundError):
        lake.read_throughput("venus")
    with pytest.raises(NotFoundError):
        lake.read_nodes("venus")


@pytest.mark.evidence(table="faults", rows=("20",))
@pytest.mark.parametrize("name", ["", "a/b", "../up", "a b", "x" * 101, ".hidden", "ünî"])
def test_names_that_cannot_be_folders_are_refused(lake: Lake, name: str, evidence: Evidence) -> None:
    with pytest.raises(BadInputError, match="cannot name a cluster"):
        lake.write_jobs(name, some_jobs(["a"]))
    evidence("faults", "20", "A cluster's name that leads out of its folder is refused.")


def test_a_table_without_its_key_is_refused(lake: Lake) -> None:
    with pytest.raises(BadInputError, match="no column 'job_id'"):
        lake.write_jobs("venus", some_jobs(["a"]).drop(columns="job_id"))
    with pytest.raises(BadInputError, match=r"1 empty values.*'gpus'"):
        lake.write_jobs("venus", some_jobs(["a"]).assign(gpus=None))


def test_other_tools_see_hive_partitions_and_documented_columns(tmp_path: Path) -> None:
    Lake(str(tmp_path)).write_jobs("venus", some_jobs(["a", "b"], hours=30))
    table = ds.dataset(tmp_path / "jobs", partitioning="hive").to_table()
    assert table.num_rows == 2
    assert set(table.column("cluster").to_pylist()) == {"venus"}
    assert table.schema.field("gpus").metadata[b"unit"] == b"GPUs"


def test_a_write_that_fails_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(str(tmp_path))
    lake.write_jobs("venus", some_jobs(["a"]))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    def full_disk(path: str) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(storage, "_flush_to_disk", full_disk)
    with pytest.raises(OSError, match="No space"):
        lake.write_jobs("venus", some_jobs(["a", "b"]))
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_file_left_by_a_killed_writer_is_ignored(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    lake.write_jobs("venus", some_jobs(["a"]))
    (part,) = tmp_path.rglob("part-0.parquet")
    (part.parent / f"{storage.TEMPORARY_PREFIX}0123-part-0.parquet").write_bytes(b"half a f")
    assert len(lake.read_jobs("venus")) == 1
    assert lake.dates("venus") == [date(2020, 4, 1)]


def test_unknown_scheme_is_a_clear_error() -> None:
    with pytest.raises(BadInputError, match="nosuch"):
        Lake("nosuch://bucket/lake")


# Throughput --------------------------------------------------------------------------------------------


def bins(values: list[int], origin: str) -> pd.DataFrame:
    starts = [DAY + pd.Timedelta(minutes=10 * index) for index in range(len(values))]
    return pd.DataFrame(
        {
            "bin_start": starts,
            "bin_s": 600,
            "submitted_jobs": values,
            "submitted_gpu_jobs": values,
            "submitted_gpus": values,
            "origin": origin,
        }
    )


def test_published_bins_stand_above_derived_ones(lake: Lake) -> None:
    lake.write_throughput("venus", bins([1, 2, 3], "derived"))
    lake.write_throughput("venus", bins([4, 5], "published"))
    assert lake.read_throughput("venus")["submitted_jobs"].tolist() == [4, 5]
    assert lake.write_throughput("venus", bins([1, 2, 3], "derived")) == 0
    lake.write_throughput("venus", bins([6], "published"))
    assert lake.read_throughput("venus")["submitted_jobs"].tolist() == [6, 5]


def test_derived_days_that_are_gone_disappear(lake: Lake) -> None:
    lake.write_jobs("venus", some_jobs(["a", "b"], hours=24))
    first, second = lake.iter_jobs("venus")
    lake.replace_derived_throughput("venus", derive_throughput([first, second]))
    assert len(lake.dates("venus", "throughput")) == 2
    lake.replace_derived_throughput("venus", derive_throughput([first]))
    assert lake.dates("venus", "throughput") == [date(2020, 4, 1)]


events = st.lists(
    st.tuples(
        st.integers(0, 4000),
        st.none() | st.integers(0, 3000),
        st.none() | st.integers(0, 3000),
        st.integers(0, 9),
    ),
    min_size=1,
    max_size=30,
)


@given(events)
@settings(max_examples=50, deadline=None)
def test_throughput_counts_every_event_once_and_leaves_no_hole(
    jobs: list[tuple[int, int | None, int | None, int]],
) -> None:
    submit = [s * 1_000_000 for s, _, _, _ in jobs]
    start = [None if w is None else (s + w) * 1_000_000 for s, w, _, _ in jobs]
    end = [None if w is None or r is None else (s + w + r) * 1_000_000 for s, w, r, _ in jobs]
    stamp = pa.timestamp("us", tz="UTC")
    table = pa.table(
        {
            "submit_time": pa.array(submit, pa.int64()).cast(stamp),
            "start_time": pa.array(start, pa.int64()).cast(stamp),
            "end_time": pa.array(end, pa.int64()).cast(stamp),
            "gpus": pa.array([gpus for *_, gpus in jobs], pa.int32()),
        }
    )
    series = derive_throughput([table.slice(0, 7), table.slice(7)])
    starts = series.column("bin_start").cast(pa.int64()).to_numpy() // 600_000_000
    assert (np.diff(starts) == 1).all()
    for name, times in (("submitted", submit), ("started", start), ("ended", end)):
        known = [
            (time // 600_000_000, gpus)
            for time, (*_, gpus) in zip(times, jobs, strict=True)
            if time is not None
        ]
        if not known:
            assert series.column(f"{name}_jobs").null_count == len(starts)
            continue
        expected = [sum(1 for bin_number, _ in known if bin_number == number) for number in starts]
        assert series.column(f"{name}_jobs").to_pylist() == expected
        assert sum(series.column(f"{name}_gpus").to_pylist()) == sum(gpus for _, gpus in known)
        assert sum(series.column(f"{name}_gpu_jobs").to_pylist()) == sum(gpus > 0 for _, gpus in known)


def test_one_wrong_year_does_not_make_a_million_bins() -> None:
    stamp = pa.timestamp("us", tz="UTC")
    submit = pa.array([0, 600_000_000, 1_600_000_000_000_000], pa.int64()).cast(stamp)
    unknown = pa.nulls(3, stamp)
    table = pa.table(
        {
            "submit_time": submit,
            "start_time": unknown,
            "end_time": unknown,
            "gpus": pa.array([1, 1, 1], pa.int32()),
        }
    )
    assert derive_throughput([table]).num_rows == 3


# Merging -----------------------------------------------------------------------------------------------

rows = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.sampled_from(["RUNNING", "COMPLETED", None])),
    max_size=12,
)


def as_table(jobs: list[tuple[str, int, str | None]], file: str) -> pa.Table:
    unique = {(job_id, hour): state for job_id, hour, state in jobs}
    rows = [
        {
            "cluster": "c",
            "job_id": job_id,
            "virtual_cluster": "v",
            "gpus": 1,
            "gpu_share": 1.0,
            "state": state,
            "submit_time": datetime(2020, 4, 1, hour, tzinfo=UTC),
            "source_file": file,
            "source_row": row,
        }
        for row, ((job_id, hour), state) in enumerate(unique.items(), start=1)
    ]
    return pa.Table.from_pylist(rows, schema=JOB_SCHEMA)


@given(rows, rows)
@settings(max_examples=100, deadline=None)
def test_merging_keeps_every_key_once_and_is_idempotent(
    old: list[tuple[str, int, str | None]], new: list[tuple[str, int, str | None]]
) -> None:
    older = merge_jobs(JOB_SCHEMA.empty_table(), as_table(old, "old"))
    newer = as_table(new, "new")
    merged = merge_jobs(older, newer)

    def keys(table: pa.Table) -> list[tuple[str, datetime]]:
        return list(zip(table["job_id"].to_pylist(), table["submit_time"].to_pylist(), strict=True))

    assert len(set(keys(merged))) == merged.num_rows
    assert set(keys(merged)) == set(keys(older)) | set(keys(newer))
    assert merge_jobs(merged, newer).equals(merged)
    assert merge_jobs(merged, as_table(old, "old")).num_rows == merged.num_rows
    ended = {
        key
        for table in (older, newer)
        for key, state in zip(keys(table), table["state"].to_pylist(), strict=True)
        if state != "RUNNING"
    }
    states = zip(keys(merged), merged["state"].to_pylist(), strict=True)
    assert not ended & {key for key, state in states if state == "RUNNING"}
