"""From when on a job might have started: kept beside all pending time; before, the cluster made no wait."""

from pathlib import Path

import pandas as pd

from cluster_logs.ingest import read_jobs_file
from cluster_logs.slurm_words import DEFAULT_FIELDS, EXPORT_FIELDS

HOUR_S = 3_600.0
COLUMNS = "JobIDRaw|State|Submit|Eligible|Start|End|AllocTRES|ReqTRES\n"
DAY = "2022-09-09T"


def row(job_id: str, state: str, eligible: str, start: str = "12:00:00", tres: str = "gres/gpu=1") -> str:
    when = eligible if eligible in ("Unknown", "") else f"{DAY}{eligible}"
    begun = start if start == "Unknown" else f"{DAY}{start}"
    return f"{job_id}|{state}|{DAY}10:00:00|{when}|{begun}|{DAY}13:00:00|{tres}|{tres}\n"


def eligible(folder: Path, *rows: str) -> dict[str, str | None]:
    log = folder / "sacct.txt"
    log.write_text(COLUMNS + "".join(rows))
    jobs, report = read_jobs_file(str(log), "sacct")
    assert report.rows_kept == len(rows)
    assert jobs["queuing_delay_s"].dropna().unique().tolist() in ([], [2 * HOUR_S])
    return {
        job_id: None if pd.isna(at) else f"{at:%H:%M:%S}"
        for job_id, at in zip(jobs["job_id"], jobs["eligible_time"], strict=True)
    }


def test_eligible_is_read_beside_all_pending_time(tmp_path: Path) -> None:
    told = eligible(
        tmp_path,
        row("1", "COMPLETED", "11:30:00"),
        row("2", "COMPLETED", "10:00:00"),
        row("3", "PENDING", "Unknown", "Unknown"),
        row("4", "CANCELLED by 0", "Unknown", "Unknown", tres=""),
        row("5", "COMPLETED", "09:00:00"),
        row("6", "COMPLETED", ""),
        row("7", "COMPLETED", "soon"),
    )
    assert told == {
        "1": "11:30:00",
        "2": "10:00:00",
        "3": None,
        "4": None,
        "5": "10:00:00",
        "6": None,
        "7": None,
    }


def test_begin_times_of_jobs_of_shares_are_the_live_schedulers(tmp_path: Path) -> None:
    told = eligible(tmp_path, row("1", "COMPLETED", "11:30:00", tres="gres/shard=2,node=1"))
    assert told == {"1": None}


def test_a_queues_export_and_a_csv_of_our_columns_tell_it_too(tmp_path: Path) -> None:
    queue, own = tmp_path / "queue.csv", tmp_path / "jobs.csv"
    queue.write_text(
        "jobid,submit_time,eligible_time,start_time,end_time,partition,gpus\n"
        "7,1600000000,1600000050,1600000060,1600000100,a,8\n"
    )
    own.write_text("job_id,submit_time,eligible_time,gpus\n7,1600000000,1600000050,8\n")
    for path, source_format in ((queue, "queue"), (own, "jobs-csv")):
        jobs, _ = read_jobs_file(str(path), source_format)
        assert jobs["eligible_time"].tolist() == [pd.Timestamp(1_600_000_050, unit="s", tz="UTC")]


def test_fields_of_files_without_a_header_stay_at_their_places() -> None:
    assert DEFAULT_FIELDS[15:20] == ("NNodes", "account", "group", "qos", "eligible")
    assert [name.lower() for name in EXPORT_FIELDS].count("eligible") == 1
