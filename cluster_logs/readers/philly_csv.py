"""The derived Philly CSV: timestamp (submission), duration, num_gpus, gpu_time, cluster (= virtual cluster).

Times are naive US Pacific; the hour that occurs twice when summer time ends is taken as its first
occurrence. A job's id is its 1-based row after a stable sort by timestamp of all rows of the file (rows
without a time come last). The file knows neither starts nor ends nor states: they are null, and `duration_s`
is what the file says. Names of virtual clusters such as `6214e9` or `103959` look like numbers and are text.
"""

import numpy as np
import pyarrow as pa

from cluster_logs import quarantine as q
from cluster_logs.job_facts import source_columns
from cluster_logs.readers.base import Context, Reader, ReadOptions, build_jobs
from cluster_logs.readers.delimited import Layout
from cluster_logs.readers.row_checker import IntArray, RowChecker
from cluster_logs.readers.source import NOT_A_TIME, TextSource

TIME_ZONE = "America/Los_Angeles"

_LAYOUT = Layout(required=("timestamp", "duration", "num_gpus", "cluster"), optional=("gpu_time",))


def _rank_rows(source: TextSource, options: ReadOptions) -> IntArray:
    """For each row of the file its 1-based place in the order of submission."""
    times = [np.zeros(0, dtype=np.int64)]
    for chunk in _LAYOUT.read(source, only=("timestamp",)):
        first_row = sum(map(len, times)) + 1
        # Clock readings sort like the instants behind them, except inside the hour that occurs twice; UTC
        # keeps the file's own order there.
        values = np.full(chunk.rows_in, NOT_A_TIME)
        values[chunk.rows - first_row] = RowChecker(chunk, source.name, "UTC").instant("timestamp")
        times.append(values)
    readings = np.concatenate(times)
    readings[readings == NOT_A_TIME] = np.iinfo(np.int64).max
    ranks = np.empty(len(readings), dtype=np.int64)
    ranks[np.argsort(readings, kind="stable")] = np.arange(1, len(readings) + 1)
    return ranks


def _normalise(checker: RowChecker, context: Context) -> pa.Table:
    ranks = context.facts
    if not isinstance(ranks, np.ndarray):
        raise TypeError(f"the ranks of the rows are {type(ranks).__name__}, not an array")
    duration_s = checker.number("duration")
    checker.reject(np.isnan(duration_s), q.MISSING_DURATION, "duration")
    return build_jobs(
        checker,
        source_columns("philly-csv"),
        {"job_id": pa.array(ranks[checker.chunk.rows - 1]).cast(pa.string()), "duration_s": duration_s},
    )


READER = Reader(
    name="philly-csv",
    summary="Philly, the derived CSV (timestamp,duration,num_gpus,gpu_time,cluster)",
    table="jobs",
    time_zone=TIME_ZONE,
    chunks=_LAYOUT,
    normalise=_normalise,
    prepare=_rank_rows,
)
