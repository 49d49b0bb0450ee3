"""Cluster logs of many kinds, read into one canonical job table, and the lake that keeps it.

    report = ingest_log(source_format="sacct", input_uri="log.txt", cluster="mine", lake_uri="lake")
    jobs = Lake("lake").read_jobs("mine")

`IngestSettings` says how a log is read; `read_jobs_file` reads one without a lake. Each row is kept,
quarantined with a reason, or skipped by a rule; `IngestReport` has the account. `validate_lake` checks what
is stored. A new source is a reader (`readers/`; CONTRIBUTING.md), a new column a job fact (`job_facts.py`).
"""

from typing import TYPE_CHECKING

from foundation.lazy_names import lazy_names

if TYPE_CHECKING:
    from cluster_logs.ingest import IngestReport as IngestReport
    from cluster_logs.ingest import IngestSettings as IngestSettings
    from cluster_logs.ingest import ingest_log as ingest_log
    from cluster_logs.ingest import read_jobs_file as read_jobs_file
    from cluster_logs.ingest import read_throughput_file as read_throughput_file
    from cluster_logs.job_states import JobState as JobState
    from cluster_logs.job_table import JOB_SCHEMA as JOB_SCHEMA
    from cluster_logs.lake import Lake as Lake
    from cluster_logs.validation import ValidationReport as ValidationReport
    from cluster_logs.validation import validate_lake as validate_lake

__getattr__, __dir__ = lazy_names(__name__)
