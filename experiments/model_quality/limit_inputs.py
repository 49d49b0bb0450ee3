"""What `lucid evaluate limits` reads: the jobs of a log with their limits, every row accounted for."""

from collections.abc import Mapping
from dataclasses import dataclass

from cluster_logs.ingest import read_jobs_file
from experiments.model_quality.inputs import LAKE, read_jobs
from foundation.progress import Progress
from lucid_models.limits.limit_table import LimitTable


@dataclass(frozen=True)
class LimitSource:
    """The jobs of `rows_in` rows; the others by reason."""

    table: LimitTable
    rows_in: int
    reasons: Mapping[str, int]


def read_limit_table(jobs: str, source_format: str, time_zone: str | None, progress: Progress) -> LimitSource:
    """Read a file of jobs, or a lake's."""
    if source_format == LAKE:
        frame = read_jobs(jobs, LAKE, progress=progress)
        table = LimitTable.of_jobs(frame)
        return LimitSource(table, len(frame), table.skipped)
    frame, report = read_jobs_file(jobs, source_format, time_zone=time_zone, progress=progress)
    table = LimitTable.of_jobs(frame)
    return LimitSource(table, report.rows_in, {**report.reasons, **table.skipped})
