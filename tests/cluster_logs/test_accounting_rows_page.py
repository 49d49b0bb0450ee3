"""What docs/accounting_rows.md says of rows of each state is what the reader makes of them."""

from datetime import datetime, timedelta
from pathlib import Path

import pandas as pd

from cluster_logs.ingest import read_jobs_file

PAGE = Path(__file__).parents[2] / "docs" / "accounting_rows.md"
BEGIN = datetime(2026, 1, 1)  # noqa: DTZ001 - as sacct prints it, on the log's clock


def rows_of_page() -> list[dict[str, str]]:
    lines = [line.strip("|").split("|") for line in PAGE.read_text().splitlines() if line.startswith("|")]
    names, _, *rows = [[cell.strip() for cell in line] for line in lines]
    return [dict(zip(names, row, strict=True)) for row in rows]


def as_accounting(rows: list[dict[str, str]]) -> list[str]:
    """The rows of the page as sacct prints them: a job for each situation, its rows one after the other."""
    lines, job, turn = [], 0, 0
    for row in rows:
        job, turn = (job, turn + 1) if not row["what happened"] else (job + 1, 0)
        resized = "gave a node back" in row["what happened"] or (lines and "|RESIZING|" in lines[-1] and turn)
        submit = BEGIN + timedelta(seconds=100 * turn)
        start = (BEGIN if resized else submit) + timedelta(seconds=0 if "Submit" in row["Start"] else 10)
        end = start + timedelta(seconds=0 if row["Elapsed"] == "0" else 100 * turn + 50)
        said = [
            f"{instant:%Y-%m-%dT%H:%M:%S}" if row[name].startswith("an instant") else row[name]
            for name, instant in (("Start", start), ("End", end))
        ]
        asked = f"gres/gpu={row['GPUs'] or '2'},node=1"
        held = asked if row["AllocTRES"] == "given" else ""
        node = "n1" if row["NodeList"] == "named" else row["NodeList"]
        elapsed = "0" if row["Elapsed"] == "0" else str(int((end - start).total_seconds()))
        times = "|".join([f"{submit:%Y-%m-%dT%H:%M:%S}", *said, elapsed])
        lines.append(f"{job}|main|{row['State']}|{times}|{held}|{asked}|{node}\n")
    return lines


def test_the_page_says_what_the_reader_does(tmp_path: Path) -> None:
    rows = rows_of_page()
    assert {"PENDING", "RUNNING", "COMPLETED", "CANCELLED", "FAILED", "DEADLINE"} <= {
        row["State"] for row in rows
    }
    path = tmp_path / "sacct.txt"
    header = "JobIDRaw|Partition|State|Submit|Start|End|ElapsedRaw|AllocTRES|ReqTRES|NodeList\n"
    path.write_text(header + "".join(as_accounting(rows)))
    jobs, report = read_jobs_file(str(path), "sacct")
    assert report.rows_quarantined == 0
    read = {int(job["source_row"]): job for _, job in jobs.iterrows()}
    for number, row in enumerate(rows, start=1):
        if row["state read"] == "no job of its own":
            assert number not in read
            continue
        job = read[number]
        known = [
            "yes" if pd.notna(job[name]) else "none" for name in ("start_time", "end_time", "duration_s")
        ]
        assert [job["state"], *known, str(job["gpus"])] == [
            row[name] for name in ("state read", "start", "end", "run time", "GPUs")
        ], row
