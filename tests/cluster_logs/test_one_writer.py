"""One writer of a cluster at a time, and readers that refuse what a dead one left: with real processes."""

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from cluster_logs import cluster_writes, store_lock
from cluster_logs.ingest import IngestSettings, ingest_log
from cluster_logs.lake import Lake
from cluster_logs.store_lock import StoreLock
from cluster_logs.validation import validate_lake
from foundation.errors import ClusterBusyError, HalfWrittenError
from foundation.storage import locate
from tests.evidence import Evidence

HEADER = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue"
DAYS, ROWS_A_DAY = 4, 25

# What a process does that ingests a log: like `ingest_log`, with short leases; it dies by SIGKILL when it has
# written so many files.
INGEST = """
import os, signal, sys
from cluster_logs import lake_files, store_lock
from cluster_logs.ingest import IngestSettings, ingest_log

store_lock.LEASE_S, store_lock.RENEW_EVERY_S = 2.0, 0.2
log, lake, files = sys.argv[1], sys.argv[2], int(sys.argv[3])
write, written = lake_files.write_atomically, 0

def write_then_die(*given):
    global written
    write(*given)
    written += 1
    if written == files:
        os.kill(os.getpid(), signal.SIGKILL)

lake_files.write_atomically = write_then_die
print("ready", flush=True)
sys.stdin.readline()
report = ingest_log(source_format="helios", input_uri=log, cluster="venus", lake_uri=lake)
print(report.rows_kept)
"""


def write_log(path: Path, first: int) -> Path:
    """A log of DAYS days, whose job ids begin with `first`."""
    lines = [HEADER]
    for number in range(DAYS * ROWS_A_DAY):
        submit = pd.Timestamp("2020-04-01 08:00") + pd.Timedelta(days=number % DAYS, minutes=number)
        end = submit + pd.Timedelta(hours=1)
        lines.append(f"{first + number},u,vc,1,4,1,COMPLETED,{submit},{submit},{end},3600,0")
    path.write_text("\n".join(lines) + "\n")
    return path


def begin(log: Path, lake: str, *, die_after_files: int = 0) -> "subprocess.Popen[str]":
    """A process that is ready to ingest the log, once it is told to (`go`)."""
    process = subprocess.Popen(
        [sys.executable, "-c", INGEST, str(log), lake, str(die_after_files)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def go(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


@pytest.fixture(params=["", "local://"], ids=["a lock of the kernel", "claims in storage"])
def lake_uri(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A local folder, as itself and as storage that has no locks (fsspec's own local file system)."""
    monkeypatch.setattr(store_lock, "LEASE_S", 2.0)
    monkeypatch.setattr(store_lock, "RENEW_EVERY_S", 0.2)
    return f"{request.param}{tmp_path / 'lake'}"


def ingest(log: Path, lake_uri: str, **how: float) -> int:
    report = ingest_log(
        source_format="helios",
        input_uri=str(log),
        cluster="venus",
        lake_uri=lake_uri,
        settings=IngestSettings(**how),
    )
    return report.rows_kept


@pytest.mark.slow
def test_two_ingests_at_once_lose_no_row(tmp_path: Path, lake_uri: str) -> None:
    logs = [write_log(tmp_path / f"{first}.csv", first) for first in (1_000, 2_000, 3_000)]
    processes = [begin(log, lake_uri) for log in logs]
    for process in processes:
        go(process)
    said = [process.communicate(timeout=300)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert said == [f"{DAYS * ROWS_A_DAY}\n"] * 3
    lake = Lake(lake_uri)
    jobs = lake.read_jobs("venus")
    assert sorted(map(int, jobs["job_id"])) == [
        first + number for first in (1_000, 2_000, 3_000) for number in range(DAYS * ROWS_A_DAY)
    ]
    counted = lake.read_throughput("venus")[["submitted_jobs", "started_jobs", "ended_jobs"]].sum()
    assert counted.tolist() == [len(jobs)] * 3


@pytest.mark.evidence(table="faults", rows=("1",))
@pytest.mark.slow
def test_a_lake_of_a_killed_ingest_is_refused_until_the_ingest_is_run_again(
    tmp_path: Path, lake_uri: str, monkeypatch: pytest.MonkeyPatch, evidence: Evidence
) -> None:
    older, log = write_log(tmp_path / "older.csv", 1_000), write_log(tmp_path / "log.csv", 2_000)
    ingest(older, lake_uri)
    process = begin(log, lake_uri, die_after_files=2)
    go(process)
    process.communicate(timeout=300)
    assert process.returncode == -9
    monkeypatch.setattr(cluster_writes, "READER_WAITS_S", 60.0)
    lake = Lake(lake_uri)
    for read in (lake.read_jobs, lake.read_throughput, lake.read_quarantine, lake.dates):
        with pytest.raises(
            HalfWrittenError, match=r"half-written: ingest of log\.csv \(helios\).* did not end"
        ):
            read("venus")
    with pytest.raises(HalfWrittenError, match="Run the same again"):
        validate_lake(lake_uri=lake_uri, cluster="venus", docs_dir=tmp_path / "docs")
    with pytest.raises(HalfWrittenError):
        ingest(older, lake_uri)  # another task does not complete it
    assert lake.clusters() == ["venus"]
    assert ingest(log, lake_uri) == DAYS * ROWS_A_DAY
    once = Lake(str(tmp_path / "once"))
    for path in (older, log):
        ingest(path, once.uri)
    pd.testing.assert_frame_equal(lake.read_jobs("venus"), once.read_jobs("venus"))
    pd.testing.assert_frame_equal(lake.read_throughput("venus"), once.read_throughput("venus"))
    evidence(
        "faults",
        "1",
        "Every reader refuses the cluster as half-written and names the ingest; run again, the lake"
        " is equal to one of ingests that all ended.",
    )


def test_who_comes_while_another_writes_is_told_so_and_writes_nothing(tmp_path: Path, lake_uri: str) -> None:
    log = write_log(tmp_path / "log.csv", 1_000)
    ingest(log, lake_uri)
    before = {path: path.read_bytes() for path in (tmp_path / "lake").rglob("*.parquet")}
    other = locate(lake_uri)
    lock = cluster_writes.lock_for(other[0], f"{other[1]}/clusters/cluster=venus")
    assert lock.acquire()
    waited: list[str] = []
    with pytest.raises(ClusterBusyError, match=r"venus.*is being written by process .*--wait"):
        ingest_log(
            source_format="helios",
            input_uri=str(write_log(tmp_path / "other.csv", 2_000)),
            cluster="venus",
            lake_uri=lake_uri,
            settings=IngestSettings(wait_s=0.5),
            progress=lambda done, total, what: waited.append(what),
        )
    assert any("waiting for the writer of cluster venus" in what for what in waited)
    assert {path: path.read_bytes() for path in (tmp_path / "lake").rglob("*.parquet")} == before
    assert len(Lake(lake_uri).read_jobs("venus")) == DAYS * ROWS_A_DAY  # a reader is not in the way
    assert ingest(log, f"{lake_uri}-of-its-own", wait_s=0) == DAYS * ROWS_A_DAY
    lock.release()
    assert ingest(log, lake_uri, wait_s=0) == DAYS * ROWS_A_DAY


def test_a_reader_waits_for_a_living_writer_and_not_for_ever(
    tmp_path: Path, lake_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest(write_log(tmp_path / "log.csv", 1_000), lake_uri)
    reader, writer = Lake(lake_uri), Lake(lake_uri)
    monkeypatch.setattr(cluster_writes, "READER_WAITS_S", 0.0)
    token = reader.iter_jobs("venus")
    next(token)
    with writer.writing("venus", "a test", ("jobs",)):
        writer.writes.changing("venus", "jobs")
        monkeypatch.setattr(cluster_writes._own, "sessions", {})  # as in another thread
        with pytest.raises(ClusterBusyError, match=r"being written: a test, process \d+ on"):
            reader.read_jobs("venus")
        with pytest.raises(ClusterBusyError, match="changed while they were read"):
            list(token)
        assert reader.read_quarantine("venus").empty  # the note names tables


def test_a_claim_that_is_not_renewed_runs_out_and_its_holder_notices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_lock, "LEASE_S", 1.0)
    monkeypatch.setattr(store_lock, "RENEW_EVERY_S", 600.0)  # as if the process were stopped
    fs, root = locate(f"local://{tmp_path}")
    first, second = StoreLock(fs, root), StoreLock(fs, root)
    assert first.acquire()
    assert first.is_ours()
    assert not second.acquire()
    while not second.acquire():
        pass
    assert not first.is_ours()
    assert second.owner() is None
    second.release()
    first.release()
    assert first.acquire()
    first.release()
    assert not list(tmp_path.rglob("*.claim"))
