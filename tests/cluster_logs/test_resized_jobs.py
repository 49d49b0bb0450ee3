"""Records of a job whose size was changed while it ran are one job."""

from pathlib import Path

import pandas as pd

from cluster_logs.ingest import IngestReport, read_jobs_file

# As Slurm 22.05 writes them: a job that gave one of two nodes back, and one that took its place.
HEADER = "JobIDRaw|JobID|Partition|State|Submit|Start|End|Elapsed|AllocTRES|ReqTRES|NNodes|NodeList"
AT = "2026-11-27T08:09:"
FIRST = f"1|1|main|RESIZING|{AT}10|{AT}12|{AT}18|00:00:06|gres/gpu=8,node=2|gres/gpu=8,node=2|2|n[1-2]"
LAST = f"1|1|main|COMPLETED|{AT}18|{AT}12|{AT}35|00:00:23|gres/gpu=4,node=1|gres/gpu=8,node=1|1|n1"
RUNS_ON = f"1|1|main|RUNNING|{AT}18|{AT}12|Unknown|00:00:23|gres/gpu=4,node=1|gres/gpu=8,node=1|1|n1"
OTHER = f"2|2|main|COMPLETED|{AT}13|{AT}18|{AT}23|00:00:05|gres/gpu=4,node=1|gres/gpu=4,node=1|1|n2"


def read(tmp_path: Path, *rows: str) -> tuple[pd.DataFrame, IngestReport]:
    path = tmp_path / "sacct.txt"
    path.write_text("\n".join([HEADER, *rows, ""]))
    return read_jobs_file(str(path), "sacct")


def test_the_records_of_a_resized_job_are_one_job(tmp_path: Path) -> None:
    jobs, report = read(tmp_path, FIRST, LAST, OTHER)
    assert jobs["job_id"].tolist() == ["1", "2"]
    assert jobs["state"].tolist() == ["COMPLETED", "COMPLETED"]
    assert jobs[["queuing_delay_s", "duration_s", "gpus", "nodes"]].to_numpy().tolist() == [
        [2, 23, 8, 2],
        [5, 5, 4, 1],
    ]
    assert report.reasons == {"resized": 1}


def test_whichever_record_comes_first(tmp_path: Path) -> None:
    jobs, _ = read(tmp_path, FIRST, LAST)
    again, _ = read(tmp_path, LAST, FIRST)
    where = ["source_row"]
    pd.testing.assert_frame_equal(jobs.drop(columns=where), again.drop(columns=where))


def test_a_job_that_was_resized_twice_and_runs(tmp_path: Path) -> None:
    between = FIRST.replace(f"{AT}10", f"{AT}15").replace("gpu=8", "gpu=6")
    jobs, report = read(tmp_path, between, RUNS_ON, FIRST)
    assert jobs[["state", "gpus"]].to_numpy().tolist() == [["RUNNING", 8]]
    assert jobs["queuing_delay_s"].tolist() == [2]
    assert pd.isna(jobs.loc[0, "end_time"])
    assert report.reasons == {"resized": 2}


def test_a_log_that_ends_at_the_change_has_a_job_that_runs(tmp_path: Path) -> None:
    jobs, report = read(tmp_path, FIRST, OTHER)
    assert jobs["state"].tolist() == ["RUNNING", "COMPLETED"]
    assert pd.isna(jobs.loc[0, "end_time"])
    assert report.reasons == {}


def test_a_run_after_a_requeue_is_no_record_of_the_run_before(tmp_path: Path) -> None:
    again = f"1|1|main|COMPLETED|{AT}36|{AT}40|{AT}50|00:00:10|gres/gpu=4,node=1|gres/gpu=8,node=1|1|n1"
    jobs, _ = read(tmp_path, FIRST, LAST.replace("COMPLETED", "REQUEUED"), again)
    assert jobs[["state", "gpus", "duration_s"]].to_numpy().tolist() == [
        ["CANCELLED", 8, 23],
        ["COMPLETED", 4, 10],
    ]


def test_a_name_that_says_resizing_changes_nothing(tmp_path: Path) -> None:
    jobs, report = read(tmp_path, OTHER.replace("main", "RESIZING"))
    assert jobs["virtual_cluster"].tolist() == ["RESIZING"]
    assert report.reasons == {}
