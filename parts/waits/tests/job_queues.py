"""The queue of `queue_logs` as a job table of the lake, which tells no priorities."""

import pandas as pd

from cluster_logs.job_table import JOB_SCHEMA
from parts.waits.tests.queue_logs import make_queue_tables

FIRST_DAY = pd.Timestamp("2020-04-01", tz="UTC")


def make_queue_jobs(days: int = 12, seed: int = 0) -> pd.DataFrame:
    """All jobs that were seen waiting, with users instead of accounts."""
    table, _ = make_queue_tables(days, seed)
    submit, start, end = (
        FIRST_DAY + pd.to_timedelta(table[name], unit="s")
        for name in ("submit_time", "start_time", "end_time")
    )
    jobs = pd.DataFrame(
        {
            "cluster": "small",
            "job_id": table["job_unique_id"].astype(str),
            "virtual_cluster": table["partition_id"],
            "user": table["account_id"],
            "gpus": table["gpus"],
            "gpu_share": 1.0,
            "cpus": table["req_cpus"],
            "time_limit_s": table["time_limit_sec"].astype(float),
            "state": "COMPLETED",
            "submit_time": submit,
            "start_time": start,
            "end_time": end,
            "duration_s": (end - start).dt.total_seconds(),
            "queuing_delay_s": (start - submit).dt.total_seconds(),
            "source_file": "queue.csv",
            "source_row": range(1, len(table) + 1),
        }
    )
    return jobs.reindex(columns=JOB_SCHEMA.names)
