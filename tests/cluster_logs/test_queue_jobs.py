"""The export of a Slurm queue as a log of jobs: whose they are, what they asked for, GPUs from TRES."""

from pathlib import Path

import pandas as pd

from cluster_logs.ingest import read_jobs_file

DATA = Path(__file__).parent / "data"


def test_a_queue_export_is_a_log_of_jobs() -> None:
    jobs, report = read_jobs_file(str(DATA / "queue.csv"), "queue")
    assert report.rows_in == report.rows_kept + report.rows_quarantined + report.rows_skipped == 8
    first, second, waiting = (jobs.set_index("job_id").loc[job_id] for job_id in ("57", "58", "59"))
    assert (first["virtual_cluster"], first["account"], first["gpus"], first["cpus"]) == ("27", "5449", 0, 32)
    assert (first["requested_memory_mib"], first["time_limit_s"]) == (20_480, 532_800)
    assert first["duration_s"] == 179_853
    assert (second["gpus"], second["state"]) == (2, "FAILED")
    assert (waiting["gpus"], waiting["state"]) == (1, "PENDING")
    assert pd.isna(waiting["duration_s"])


def test_times_are_those_of_the_sites_clock() -> None:
    jobs, _ = read_jobs_file(str(DATA / "queue.csv"), "queue", time_zone="America/Toronto")
    assert str(jobs["submit_time"].min()) == "2021-05-01 04:02:52+00:00"


def test_the_first_name_that_a_column_has_is_read(tmp_path: Path) -> None:
    path = tmp_path / "queue.csv"
    path.write_text(
        "jobid,submit_time,start_time,end_time,partition,gpus\n7,1600000000,1600000060,1600000100,a,8\n"
    )
    jobs, _ = read_jobs_file(str(path), "queue")
    assert jobs[["job_id", "gpus", "virtual_cluster", "duration_s"]].iloc[0].tolist() == ["7", 8, "a", 40.0]
