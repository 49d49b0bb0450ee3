"""Every reader of the catalogue, on the same terms: nothing lost, same result twice, gzip, clear errors."""

import gzip
from importlib import import_module
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from cluster_logs.ingest import IngestReport, IngestSettings, ingest_log
from cluster_logs.job_table import (
    JOB_SCHEMA,
    NODES_SCHEMA,
    QUARANTINE_SCHEMA,
    THROUGHPUT_SCHEMA,
    conform,
    describe,
)
from cluster_logs.lake import Lake
from cluster_logs.node_states import NODE_STATES_SCHEMA
from cluster_logs.quarantine import REASONS, SKIP_RULES
from cluster_logs.readers.base import load_reader
from cluster_logs.readers.registry import formats
from cluster_logs.readers.source import TextSource
from foundation.errors import BadInputError, NotFoundError, UnknownNameError
from tests.evidence import Evidence

DATA = Path(__file__).parent / "data"

# format -> rows in, rows kept, what became of the others. Every row was written by hand.
EXPECTED = {
    "helios": (
        25,
        6,
        {
            "duplicate_conflict": 1,
            "end_before_start": 1,
            "exact_duplicate": 1,
            "fractional_gpus": 1,
            "implausible_gpus": 1,
            "implausible_time": 1,
            "missing_gpus": 1,
            "missing_job_id": 1,
            "missing_submit_time": 1,
            "missing_virtual_cluster": 1,
            "negative_duration": 1,
            "negative_gpus": 1,
            "start_before_submit": 1,
            "superseded": 1,
            "unbalanced_quotes": 1,
            "unknown_state": 1,
            "unreadable_number": 1,
            "unreadable_time": 1,
            "wrong_column_count": 1,
        },
    ),
    "helios-throughput": (5, 2, {"missing_count": 1, "negative_count": 1, "unreadable_time": 1}),
    "helios-nodes": (4, 3, {"partial_node": 1}),
    "philly-csv": (7, 4, {"missing_submit_time": 1, "negative_duration": 1, "wrong_column_count": 1}),
    "philly-json": (
        9,
        4,
        {
            "end_before_start": 1,
            "missing_gpus": 1,
            "missing_submit_time": 1,
            "not_a_job": 1,
            "unknown_state": 1,
        },
    ),
    "queue": (
        8,
        3,
        {
            "exact_duplicate": 1,
            "missing_gpus": 1,
            "missing_virtual_cluster": 1,
            "start_before_submit": 1,
            "unknown_state": 1,
        },
    ),
    "sacct": (14, 8, {"other_cluster": 1, "step_row": 3, "unknown_state": 1, "wrong_column_count": 1}),
    "swf": (
        10,
        4,
        {
            "missing_gpus": 1,
            "negative_duration": 1,
            "partial_execution": 1,
            "unknown_state": 1,
            "unreadable_number": 1,
            "wrong_column_count": 1,
        },
    ),
    "acme-seren": (4, 3, {"unreadable_time": 1}),
    "acme-kalos": (3, 2, {"end_before_start": 1}),
    "alibaba-v2023": (7, 5, {"implausible_gpu_share": 1, "unknown_state": 1}),
    "reference-csv": (3, 2, {"missing_duration": 1}),
    "pcs-csv": (
        13,
        3,
        {
            "exact_duplicate": 1,
            "fractional_gpus": 1,
            "implausible_time": 2,
            "missing_duration": 1,
            "missing_job_id": 1,
            "missing_model": 1,
            "negative_duration": 1,
            "unreadable_number": 1,
            "wrong_column_count": 1,
        },
    ),
    "lyra-csv": (
        16,
        4,
        {
            "exact_duplicate": 1,
            "fewer_workers_than_least": 1,
            "gpus_of_other_workers": 1,
            "implausible_draw": 1,
            "implausible_time": 1,
            "missing_count": 1,
            "missing_duration": 1,
            "missing_job_id": 1,
            "negative_duration": 1,
            "no_worker": 1,
            "unreadable_flag": 1,
            "unreadable_number": 1,
        },
    ),
    "nodes-csv": (3, 2, {"negative_count": 1}),
    "node-sequence": (
        9,
        4,
        {
            "missing_count": 1,
            "missing_time": 1,
            "more_nodes_than_total": 1,
            "negative_count": 1,
            "unreadable_number": 1,
        },
    ),
    "jobs-csv": (
        8,
        3,
        {
            "end_before_start": 1,
            "missing_gpus": 1,
            "missing_job_id": 1,
            "unknown_state": 1,
            "unreadable_number": 1,
        },
    ),
    "lake": (4, 3, {"missing_submit_time": 1}),
}
# Those of parts, with their files beside them.
CASES_OF_PARTS = {
    path.parent: import_module(f"parts.{path.parent.parent.name}.tests.reader_cases").EXPECTED
    for path in sorted((DATA.parents[2] / "parts").glob("*/tests/reader_cases.py"))
}
for cases in CASES_OF_PARTS.values():
    EXPECTED |= cases
# A first line tells nothing about these.
HEADERLESS = ("sacct", "swf")
TEXT_FORMATS = sorted(set(EXPECTED) - {"lake"})


@pytest.fixture(scope="module")
def parquet_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The one format that is not written by hand."""
    submit = pd.to_datetime(["2020-04-01", "2020-04-01", "2020-04-03", None], utc=True)
    rows = pd.DataFrame(
        {
            "job_id": ["7", "6214e9", "3", "4"],
            "virtual_cluster": ["103959", "a", "a", "a"],
            "gpus": [1, 0, 8, 1],
            "gpu_share": 1.0,
            "state": ["COMPLETED", None, "FAILED", "FAILED"],
            "submit_time": submit,
            "source_file": ["x.csv", "x.csv", "y.csv", "y.csv"],
            "source_row": [5, 6, 1, 2],
        }
    )
    path = tmp_path_factory.mktemp("parquet") / "lake.parquet"
    rows.to_parquet(path)
    return path


def fixture_of(name: str, parquet_file: Path) -> Path:
    if name == "lake":
        return parquet_file
    (path,) = (
        path for folder in (DATA, *(f / "data" for f in CASES_OF_PARTS)) for path in folder.glob(f"{name}.*")
    )
    return path


def ingest(name: str, path: Path, lake: Path) -> IngestReport:
    return ingest_log(source_format=name, input_uri=str(path), cluster="venus", lake_uri=str(lake))


def files_of(lake: Path) -> dict[str, tuple[bytes, int]]:
    """Every file's bytes and time of writing."""
    files = sorted(path for path in lake.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(lake)): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def test_every_reader_has_a_case() -> None:
    assert set(EXPECTED) == set(formats())
    assert [name for name in formats() if load_reader(name).name != name] == []


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_every_row_is_accounted_for(name: str, parquet_file: Path, tmp_path: Path) -> None:
    report = ingest(name, fixture_of(name, parquet_file), tmp_path / "lake")
    rows_in, rows_kept, reasons = EXPECTED[name]
    assert report.reasons == reasons
    assert (report.rows_in, report.rows_kept) == (rows_in, rows_kept)
    assert report.rows_in == report.rows_kept + report.rows_quarantined + report.rows_skipped
    quarantine = Lake(str(tmp_path / "lake")).read_quarantine("venus")
    assert len(quarantine) == report.rows_quarantined
    in_quarantine = {reason: count for reason, count in reasons.items() if reason in REASONS}
    assert quarantine["reason"].value_counts().to_dict() == in_quarantine
    assert set(reasons) <= set(REASONS) | set(SKIP_RULES)
    assert (quarantine["raw_row"].str.len() > 0).all()


@pytest.mark.evidence(table="faults", rows=("9",))
@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_the_same_file_twice_changes_no_byte(
    name: str, parquet_file: Path, tmp_path: Path, evidence: Evidence
) -> None:
    lake = tmp_path / "lake"
    first = ingest(name, fixture_of(name, parquet_file), lake)
    before = files_of(lake)
    assert ingest(name, fixture_of(name, parquet_file), lake) == first
    assert files_of(lake) == before
    assert not [path for path in before if ".writing-" in path]
    evidence("faults", "9", "The account is the same, and no byte of the lake changes, in any format.")


@pytest.mark.parametrize("name", sorted(name for name in formats() if load_reader(name).table == "jobs"))
def test_jobs_fit_the_schema_and_point_at_their_row(name: str, parquet_file: Path, tmp_path: Path) -> None:
    path = fixture_of(name, parquet_file)
    ingest(name, path, tmp_path / "lake")
    jobs = Lake(str(tmp_path / "lake")).read_jobs("venus")
    conform(jobs, JOB_SCHEMA)
    assert jobs["submit_time"].is_monotonic_increasing
    assert not jobs.duplicated(["job_id", "submit_time"]).any()
    if name != "lake":  # its rows keep pointing at the file that they first came from
        assert jobs["source_row"].between(1, EXPECTED[name][0]).all()
        assert set(jobs["source_file"]) == {path.name}


@pytest.mark.parametrize("name", TEXT_FORMATS)
def test_gzip_gives_the_same_table(name: str, parquet_file: Path, tmp_path: Path) -> None:
    plain = fixture_of(name, parquet_file)
    packed = tmp_path / f"{plain.name}.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert ingest(name, plain, tmp_path / "a").reasons == ingest(name, packed, tmp_path / "b").reasons
    one, other = (
        sorted(path.relative_to(tmp_path / lake) for path in (tmp_path / lake).rglob("date=*"))
        for lake in ("a", "b")
    )
    assert one == other


@pytest.mark.evidence(table="faults", rows=("22",))
@pytest.mark.parametrize("name", TEXT_FORMATS)
def test_truncated_gzip_is_an_error_and_leaves_nothing(
    name: str, parquet_file: Path, tmp_path: Path, evidence: Evidence
) -> None:
    packed = tmp_path / "log.gz"
    packed.write_bytes(gzip.compress(fixture_of(name, parquet_file).read_bytes())[:-12])
    with pytest.raises(BadInputError, match="truncated or damaged"):
        ingest(name, packed, tmp_path / "lake")
    assert not (tmp_path / "lake").exists()
    evidence("faults", "22", "A cut-off gzip is an error, and nothing is written.")


@pytest.mark.parametrize("name", sorted(EXPECTED))
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n\n",
        b"%PDF-1.4\x00\xff\xfe binary \x80\n",
        b"a;b;c\n1;2;3\n",
        "job_id,x\n1,2\n".encode("utf-16"),
    ],
    ids=["empty", "blank lines", "binary", "wrong delimiter", "utf-16"],
)
def test_a_file_of_another_kind_is_a_clear_error(name: str, content: bytes, tmp_path: Path) -> None:
    """Where a format has no header to tell it by, because every row is bad."""
    path = tmp_path / "log.csv"
    path.write_bytes(content)
    with pytest.raises(BadInputError, match=r"log\.csv") as caught:
        ingest(name, path, tmp_path / "lake")
    assert caught.value.remedy
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_an_absent_file_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"no-such-file\.csv"):
        ingest(name, tmp_path / "no-such-file.csv", tmp_path / "lake")


@pytest.mark.parametrize("name", [name for name in TEXT_FORMATS if load_reader(name).table == "jobs"])
def test_crlf_and_byte_order_mark_change_nothing(name: str, parquet_file: Path, tmp_path: Path) -> None:
    plain = fixture_of(name, parquet_file)
    odd = tmp_path / plain.name
    odd.write_bytes(b"\xef\xbb\xbf" + plain.read_bytes().replace(b"\n", b"\r\n"))
    ingest(name, plain, tmp_path / "a")
    ingest(name, odd, tmp_path / "b")
    one, other = (Lake(str(tmp_path / lake)).read_jobs("venus") for lake in ("a", "b"))
    pd.testing.assert_frame_equal(one, other)


@pytest.mark.parametrize("name", [name for name in TEXT_FORMATS if name != "philly-json"])
def test_small_blocks_give_the_same_rows(
    name: str, parquet_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that straddle blocks keep their numbers."""
    path = fixture_of(name, parquet_file)
    whole = ingest(name, path, tmp_path / "a")
    monkeypatch.setattr(TextSource.blocks, "__defaults__", (64,))
    assert ingest(name, path, tmp_path / "b").reasons == whole.reasons
    one, other = (Lake(str(tmp_path / lake)) for lake in ("a", "b"))
    pd.testing.assert_frame_equal(one.read_quarantine("venus"), other.read_quarantine("venus"))
    if load_reader(name).table == "jobs":
        pd.testing.assert_frame_equal(one.read_jobs("venus"), other.read_jobs("venus"))


def test_unknown_format_lists_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"'slurm'.*sacct"):
        load_reader("slurm")


def test_unknown_time_zone_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="Mars/Olympus"):
        ingest_log(
            source_format="helios",
            input_uri=str(DATA / "helios.csv"),
            cluster="venus",
            lake_uri=str(tmp_path),
            settings=IngestSettings(time_zone="Mars/Olympus"),
        )


def test_schema_documents_itself() -> None:
    for schema in (JOB_SCHEMA, THROUGHPUT_SCHEMA, QUARANTINE_SCHEMA, NODES_SCHEMA, NODE_STATES_SCHEMA):
        assert (describe(schema)["description"].str.len() > 10).all()
    assert JOB_SCHEMA.field("submit_time").type == pa.timestamp("us", tz="UTC")
