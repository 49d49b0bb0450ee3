"""Refused rows: little evidence of each, in memory that does not grow with their number."""

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_logs import lake_files
from cluster_logs.job_table import REFUSED_SCHEMA
from cluster_logs.lake import Lake
from cluster_logs.quarantine import MAX_RAW_BYTES, MAX_VALUE_BYTES, cut_evidence

# Ingests a log of bad rows, then one of `times` as many, and says the peaks of memory in KiB. Kinds: few
# bytes that hold many rows, rows of 60 kB, rows that contradict an earlier one.
ATTACK = """
import gzip, json, resource, sys
from cluster_logs.ingest import IngestSettings, ingest_log

kind, folder, rows, times = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
header = b"job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\\n"
at = "2020-04-01 00:00:00"
conflict = f"1,u,v,%d,4,1,COMPLETED,{at},{at},2020-04-01 01:00:00,3600,0\\n".encode()
peaks, reports = [], []
for number, count in enumerate((rows, rows * times)):
    log = f"{folder}/{number}.csv.gz"
    with gzip.open(log, "wb", compresslevel=1) as file:
        file.write(header)
        for row in range(count):
            line = {"many": b"x\\n", "wide": b"x" * 60_000 + b"\\n"}.get(kind)
            file.write(line or conflict % (row % 900 + 1))
    report = ingest_log(
        source_format="helios",
        input_uri=log,
        cluster="c",
        lake_uri=f"{folder}/{number}",
        settings=IngestSettings(max_bad_share=1.0),
    )
    reports.append([report.rows_in, report.rows_quarantined])
    peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
print(json.dumps([peaks, reports]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "rows", "times"), [("many", 70_000, 4), ("wide", 400, 4), ("conflict", 20_000, 4)]
)
@pytest.mark.thorough("memory of a process at two sizes")
def test_memory_does_not_grow_with_the_bad_rows(kind: str, rows: int, times: int, tmp_path: Path) -> None:
    said = subprocess.run(
        [sys.executable, "-c", ATTACK, kind, str(tmp_path), str(rows), str(times)],
        capture_output=True,
        check=True,
        text=True,
    )
    (few, many), reports = json.loads(said.stdout)
    assert [rows_in for rows_in, _ in reports] == [rows, times * rows]
    assert reports[1][1] > 0.99 * times * rows
    assert many < 1.25 * few
    refused = Lake(str(tmp_path / "1")).read_quarantine("c")
    assert len(refused) == reports[1][1]
    assert refused["raw_row"].str.len().max() <= MAX_RAW_BYTES


@given(st.one_of(st.text(max_size=200), st.binary(max_size=200)), st.integers(40, 120))
def test_evidence_is_short_and_what_was_cut_stays_as_it_is(text: str | bytes, most: int) -> None:
    shown = cut_evidence(text, most)
    assert len(shown.encode()) <= most
    assert cut_evidence(shown, most) == shown
    whole = text if isinstance(text, bytes) else text.encode(errors="backslashreplace")
    if "[cut: " not in shown:
        assert shown == whole.decode(errors="backslashreplace")
    else:
        assert shown.endswith(f"... [cut: {len(whole):,} bytes]")


def refused_rows(numbers: list[int], raw: str = "x") -> pa.Table:
    row = {"reason": "unreadable_number", "column": "gpus", "value": "x", "source_format": "helios"}
    rows = [{**row, "source_file": "log.csv", "source_row": number, "raw_row": raw} for number in numbers]
    return pa.Table.from_pylist(rows, schema=REFUSED_SCHEMA)


def test_parts_are_one_table_and_the_same_rows_twice_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake_files, "ROWS_A_PART", 10)
    lake = Lake(str(tmp_path))
    numbers = [1, 9, 10, 11, 35, 36]
    assert lake.add_quarantine("c", "helios-log", refused_rows([36, 1, 10]))
    assert lake.add_quarantine("c", "helios-log", refused_rows(numbers))
    assert lake.read_quarantine("c")["source_row"].tolist() == numbers
    names = sorted(path.name for path in (tmp_path / "quarantine" / "cluster=c").iterdir())
    assert names == ["helios-log.parquet", "helios-log~000001.parquet", "helios-log~000003.parquet"]
    assert not lake.add_quarantine("c", "helios-log", refused_rows(numbers))


def test_a_table_from_before_there_were_parts_is_divided_when_rows_are_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(str(tmp_path))
    lake.add_quarantine("c", "helios-log", refused_rows([12, 3, 25]))
    file = tmp_path / "quarantine" / "cluster=c" / "helios-log.parquet"
    whole = "y" * 60_000  # older versions kept so much
    old = pa.concat_tables([pq.read_table(file), refused_rows([26], whole)])
    pq.write_table(old, file)
    monkeypatch.setattr(lake_files, "ROWS_A_PART", 10)
    assert lake.add_quarantine("c", "helios-log", refused_rows([26], whole))
    refused = lake.read_quarantine("c")
    assert refused["source_row"].tolist() == [3, 12, 25, 26]
    assert refused["raw_row"].iloc[-1] == cut_evidence(whole)
    assert "[cut: 60,000 bytes]" in refused["raw_row"].iloc[-1]
    assert not lake.add_quarantine("c", "helios-log", refused_rows([3, 12, 25]))


def test_every_writer_of_the_table_keeps_little(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    frame = refused_rows([1], "z" * 9_000).to_pandas().assign(value="v" * 9_000)
    lake.add_quarantine("c", "validation-jobs", frame)
    (row,) = lake.read_quarantine("c").to_dict("records")
    assert len(row["raw_row"]) == MAX_RAW_BYTES
    assert len(row["value"]) == MAX_VALUE_BYTES
    assert pd.Series([row["raw_row"], row["value"]]).str.endswith(" [cut: 9,000 bytes]").all()
