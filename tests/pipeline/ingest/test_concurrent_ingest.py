"""Writers of one cluster at once: each ends well with its own account, and the lake holds the union."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cluster_logs.ingest import IngestSettings
from cluster_logs.lake import Lake
from pipeline.ingest.ingestion import ClusterLog, ingest_cluster

HEADER = "job_id,user,virtual_cluster,gpus,submit_time,start_time,end_time,state"
WRITERS = 15
Account = dict[str, Any]


def write_log(folder: Path, number: int) -> Path:
    """A log of 40 jobs and more over ten days, each log with its own, and of a last row that is broken."""
    lines = [HEADER]
    for job in range(40 + number):
        submit = pd.Timestamp("2020-04-01") + pd.Timedelta(days=job % 10, hours=job % 24)
        times = ",".join(f"{submit + pd.Timedelta(hours=after):%Y-%m-%dT%H:%M:%S}" for after in (0, 1, 5))
        lines.append(f"w{number}-{job},u{job % 3},vc{number % 2},{1 + job % 4},{times},COMPLETED")
    log = folder / f"log{number}.csv"
    log.write_text("\n".join([*lines, "broken,row"]) + "\n")
    return log


def check_union(lake_uri: str, accounts: list[Account]) -> None:
    for number, account in enumerate(accounts):
        told = {name: account[name] for name in ("rows_in", "rows_kept", "rows_quarantined", "rows_skipped")}
        assert told == {
            "rows_in": 41 + number,
            "rows_kept": 40 + number,
            "rows_quarantined": 1,
            "rows_skipped": 0,
        }
        assert account["remarks"], "how many nodes the cluster has is said to be unknown"
    lake = Lake(lake_uri)
    jobs = lake.read_jobs("shared")
    expected = {f"w{number}-{job}" for number in range(len(accounts)) for job in range(40 + number)}
    assert set(jobs["job_id"]) == expected
    assert len(jobs) == len(expected)
    assert len(lake.read_quarantine("shared")) == len(accounts)
    assert lake.read_throughput("shared")["submitted_jobs"].sum() == len(jobs)
    assert lake.writes.record("shared").writing is None


def test_writers_and_readers_of_one_cluster_at_once(tmp_path: Path) -> None:
    lake_uri = str(tmp_path / "lake")
    accounts: dict[int, Account] = {}

    def ingest(number: int) -> None:
        accounts[number] = ingest_cluster(
            ClusterLog("jobs-csv", str(write_log(tmp_path, number)), nodes_required=False),
            cluster="shared",
            lake_uri=lake_uri,
            settings=IngestSettings(time_zone="UTC", max_bad_share=1.0),
        )

    ingest(0)
    written = threading.Event()
    failures: list[BaseException] = []

    def told(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    def read() -> None:
        while not written.is_set():
            assert len(Lake(lake_uri).read_jobs("shared")) >= 40

    reader = threading.Thread(target=told, args=(read,))
    writers = [threading.Thread(target=told, args=(partial(ingest, number),)) for number in range(1, 5)]
    for thread in (reader, *writers):
        thread.start()
    for writer in writers:
        writer.join()
    written.set()
    reader.join()
    assert not failures
    check_union(lake_uri, [accounts[number] for number in range(5)])


@pytest.mark.thorough("fifteen processes of the command line")
@pytest.mark.evidence(table="faults", rows=("28",))
def test_fifteen_commands_at_once_all_succeed(tmp_path: Path, evidence: Callable[..., None]) -> None:
    lake_uri = str(tmp_path / "lake")
    command = [
        sys.executable,
        "-m",
        "lucid_cli.main",
        "ingest",
        "--format",
        "jobs-csv",
        "--cluster",
        "shared",
    ]
    options = ["--lake", lake_uri, "--time-zone", "UTC", "--max-bad-share", "1", "--json"]
    writers = [
        subprocess.Popen(
            [*command, *options, "--input", str(write_log(tmp_path, number))],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(WRITERS)
    ]
    said = [writer.communicate(timeout=540) for writer in writers]
    codes = [writer.returncode for writer in writers]
    assert codes == [0] * WRITERS, [errors for _, errors in said]
    check_union(lake_uri, [json.loads(out) for out, _ in said])
    evidence(
        "faults",
        "28",
        f"{codes.count(0)} of {WRITERS} commands at once end with exit code 0, each with the account of its "
        "own rows; the lake holds the union.",
    )
