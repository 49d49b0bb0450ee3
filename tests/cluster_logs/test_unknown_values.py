"""A value that cannot be used is unknown, and its job is kept: identity, times and size refuse a row."""

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from cluster_logs.ingest import IngestReport, read_jobs_file
from cluster_logs.job_facts import DECISIVE_FACTS, JOB_FACTS, Kind
from cluster_logs.readers.row_checker import RowChecker
from cluster_logs.readers.source import RawChunk

WHEN = "COMPLETED|2022-09-09T10:00:00|2022-09-09T11:00:00|2022-09-09T13:00:00"
HELD = "cpu=8,gres/gpu=2,node=2"


def read_sacct(tmp_path: Path, more_columns: str, *rows: str) -> tuple[pd.DataFrame, IngestReport]:
    path = tmp_path / "sacct.txt"
    lines = [f"{number}|gpu|{WHEN}|{HELD}|{row}\n" for number, row in enumerate(rows, start=1)]
    path.write_text(f"JobIDRaw|Partition|State|Submit|Start|End|AllocTRES|{more_columns}\n" + "".join(lines))
    return read_jobs_file(str(path), "sacct")


def test_a_memory_that_cannot_be_read_loses_no_job(tmp_path: Path) -> None:
    """Also what Slurm 16 and 17 wrote of memory of each core: 2^31 and the amount, as one of each node."""
    asked = {
        "3000Mc": 24_000.0,
        "2147486648Mn": 24_000.0,
        "2147487648Mn": 32_000.0,
        "2000Mn": 4_000.0,
        "1Me": None,
        "100Mcd": None,
        "18446744073709551614M": None,
        "-5G": None,
        "9999999999M": None,
        "0n": None,
        "?": None,
        "": None,
    }
    jobs, report = read_sacct(tmp_path, "NCPUS|NNodes|ReqMem", *(f"8|2|{word}" for word in asked))
    memory = jobs["requested_memory_mib"].astype(object).where(jobs["requested_memory_mib"].notna(), None)
    assert dict(zip(asked, memory, strict=True)) == asked
    assert (report.rows_kept, report.unknown_values) == (12, {"requested_memory_mib": 5})


def test_memory_of_nodes_without_their_number_is_unknown_and_counted(tmp_path: Path) -> None:
    jobs, report = read_sacct(
        tmp_path, "NNodes|ReqMem|ReqTRES", "many|4Gn|", "many|4Gn|mem=9G", "2|9X|mem=1G"
    )
    assert jobs["requested_memory_mib"].fillna(-1).tolist() == [-1, 9_216, 1_024]
    assert report.unknown_values == {"nodes": 2, "requested_memory_mib": 1}


def test_limits_and_run_times_that_cannot_be_read_lose_no_job(tmp_path: Path) -> None:
    rows = ("60|7200", "soon|7200", "Partition_Limit|7200", "60|long", "-3|7200")
    jobs, report = read_sacct(tmp_path, "TimelimitRaw|ElapsedRaw", *rows)
    assert jobs["time_limit_s"].fillna(-1).tolist() == [3_600, -1, -1, 3_600, -1]
    assert jobs["duration_s"].tolist() == [7_200] * 5
    assert report.unknown_values == {"service_s": 1, "time_limit_s": 2}


def test_each_optional_number_may_be_unknown_and_is_counted(tmp_path: Path) -> None:
    facts = [fact for fact in JOB_FACTS if fact.is_number and fact.name not in DECISIVE_FACTS]
    path = tmp_path / "jobs.csv"
    for fact in (fact for fact in facts if fact.name != "source_row"):
        path.write_text(
            f"job_id,submit_time,gpus,duration_s,{fact.name}\n"
            "1,2026-07-01 08:00:00,4,60,x\n2,2026-07-01 08:00:00,4,60,1e99\n3,2026-07-01 08:00:00,4,60,\n"
        )
        jobs, report = read_jobs_file(str(path), "jobs-csv")
        assert jobs["job_id"].tolist() == ["1", "2", "3"]
        assert report.unknown_values == {fact.name: 2}, fact.name
        if fact.name not in ("service_s", "queuing_delay_s"):
            assert jobs[fact.name].isna().all()


@pytest.mark.parametrize("name", ["submit_time", "start_time", "end_time", "gpus", "duration_s"])
def test_times_and_size_refuse_a_row(tmp_path: Path, name: str) -> None:
    columns = {"job_id": "1", "submit_time": "2026-07-01 08:00:00", "gpus": "4", name: "x"}
    path = tmp_path / "jobs.csv"
    path.write_text(
        ",".join(columns) + "\n" + ",".join(columns.values()) + "\n" + "2,2026-07-01 08:00:00,4,\n"
    )
    kinds = {fact.name: fact.kind for fact in JOB_FACTS}
    reason = "unreadable_time" if kinds[name] is Kind.TIME else "unreadable_number"
    report = read_jobs_file(str(path), "jobs-csv", max_bad_share=1.0)[1]
    assert report.reasons[reason] == 1
    assert report.unknown_values == {}


def test_a_translator_that_fails_refuses_the_cell_and_ends_no_reading() -> None:
    words = ["gpu:4", "gpu:x", "gpu", "", "inf:inf", None, "any"]
    chunk = RawChunk({"cards": pa.array(words), "room": pa.array(words)}, pa.array(range(7)).to_numpy(), str)
    checker = RowChecker(chunk, "file", "UTC")
    cards = checker.translated_number("cards", lambda word: float(word.split(":")[1]), missing=("ANY",))
    assert cards[0] == 4
    assert pd.isna(cards[1:]).all()
    assert checker.kept().tolist() == [True, False, False, True, False, True, True]
    places = checker.mapped("room", lambda word: {"gpu:4": "left"}[word], pa.string(), fact="name")
    assert places.to_pylist() == ["left", *[None] * 6]
    assert checker.unknown_values() == {"name": 2}, "of rows that are kept"
