"""What `lucid evaluate limits` reads: the jobs of a queue's export, or of a log of any format."""

from collections.abc import Mapping
from dataclasses import dataclass

from cluster_logs.queue_log_files import read_queue_jobs
from experiments.model_quality.inputs import read_jobs
from foundation.progress import Progress
from lucid_models.limits.limit_table import LimitTable

QUEUE = "queue"


@dataclass(frozen=True)
class LimitSource:
    """The jobs of `rows_in` rows; the others by reason."""

    table: LimitTable
    rows_in: int
    reasons: Mapping[str, int]


def read_limit_table(jobs: str, source_format: str, time_zone: str | None, progress: Progress) -> LimitSource:
    """Read a file of jobs; rows that a log's reader quarantines are not among `rows_in`."""
    if source_format == QUEUE:
        columns, rows_in, reasons = read_queue_jobs(jobs)
        table = LimitTable.of(columns)
        return LimitSource(table, rows_in, {**reasons, **table.skipped})
    frame = read_jobs(jobs, source_format, time_zone=time_zone, progress=progress)
    table = LimitTable.of_jobs(frame)
    return LimitSource(table, len(frame), table.skipped)
