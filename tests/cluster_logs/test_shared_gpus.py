"""Jobs that have parts of GPUs count whole ones, and the account says how many did, kind by kind."""

from pathlib import Path

from cluster_logs.ingest import read_jobs_file
from pipeline.ingest.ingestion import remarks_on_kept_jobs

WHEN = "2026-06-03T08:58:01|2026-06-03T08:58:17|2026-06-03T09:58:17"
HELD = {
    "1": "cpu=2,gres/mps=25,node=1",
    "2": "cpu=2,gres/mps:a100=50,gres/mps=50,node=2",
    "3": "cpu=2,gres/shard=4,node=1",
    "4": "cpu=2,gres/gpu=2,node=1",
    "5": "cpu=2,gres/gpu:1g.5gb=7,gres/gpu=7,node=1",
    "6": "cpu=2,node=1",
    "1.batch": "cpu=2,gres/mps=25,node=1",
}


def test_the_account_says_how_many_jobs_count_whole_gpus(tmp_path: Path) -> None:
    path = tmp_path / "sacct.txt"
    rows = [f"{job}|{job}|gpu|COMPLETED|{WHEN}|{held}\n" for job, held in HELD.items()]
    path.write_text("JobIDRaw|JobID|Partition|State|Submit|Start|End|AllocTRES\n" + "".join(rows))
    jobs, report = read_jobs_file(str(path), "sacct")
    assert jobs["gpus"].tolist() == [1, 2, 1, 2, 1, 0]
    assert report.notes == {"shared_by_mps": 2, "shared_by_shard": 1, "sliced_by_mig": 1}
    remarks = remarks_on_kept_jobs(report.notes, {"time_limit_s": 1_200, "name": 1})
    assert remarks[0].startswith("shared_by_mps (2 jobs): The job shares GPUs by MPS")
    assert remarks[-1] == (
        "Values that cannot be used are unknown, their jobs are kept: 1,200 of time limit, 1 of name."
    )


def test_a_queue_tells_of_shares_as_accounting_does(tmp_path: Path) -> None:
    path = tmp_path / "queue.csv"
    path.write_text(
        "job_id,submit_time,partition,req_tres\n"
        '1,2026-06-03 08:58:01,gpu,"cpu=2,gres/shard=4,node=1"\n2,2026-06-03 08:58:01,gpu,\n'
    )
    jobs, report = read_jobs_file(str(path), "queue")
    assert jobs["gpus"].tolist() == [1, 0]
    assert report.notes == {"shared_by_shard": 1}
