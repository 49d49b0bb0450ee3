"""What `lucid evaluate limits` reads: the jobs of a queue's export, or of a log of any format."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
from numpy.typing import NDArray

from cluster_logs.queue_log_files import read_queue_jobs
from experiments.model_quality.inputs import read_jobs
from foundation.progress import Progress
from lucid_models.duration.tables import ends_and_run_times, epoch_seconds
from lucid_models.limits.limit_table import LimitTable

QUEUE = "queue"
_FACTS = ("user", "account", "group", "name", "qos", "gpus", "cpus")


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
    table = LimitTable.of(_columns(frame))
    return LimitSource(table, len(frame), table.skipped)


def _columns(frame: pd.DataFrame) -> dict[str, NDArray[Any]]:
    end_s, run_s = ends_and_run_times(frame)
    return {
        "submit_s": epoch_seconds(frame, "submit_time"),
        "start_s": end_s - run_s,
        "end_s": end_s,
        "limit_s": pd.to_numeric(frame["time_limit_s"], errors="coerce").to_numpy(dtype="float64"),
        "partition": frame["virtual_cluster"].to_numpy(),
        **{name: frame[name].to_numpy() for name in _FACTS if name in frame and frame[name].notna().any()},
    }
