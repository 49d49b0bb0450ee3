"""Jobs in workers, for comparisons with Lyra: job_id, submit_s, duration_s, gpus, gpus_per_worker,
workers_min, workers_max, fungible, heterogeneous, and the draws u_checkpoint, u_elastic, u_hetero, u_wrong,
u_err.

`submit_s` counts seconds from the log's beginning (1970-01-01 in the table, unless another start is given).
`duration_s` and `gpus` are those of `workers_min` workers. Whether a job is elastic follows from its workers.
"""

import numpy as np
import pyarrow as pa

from cluster_logs import quarantine as q
from cluster_logs.job_facts import source_columns
from cluster_logs.readers.base import UNIX_EPOCH, Context, Reader, build_jobs
from cluster_logs.readers.delimited import Layout
from cluster_logs.readers.row_checker import RowChecker

_COLUMNS = source_columns("lyra-csv")
_COUNTS = ("gpus_per_worker", "workers_min", "workers_max")
_FLAGS = ("fungible", "heterogeneous")
_DRAWS = ("u_checkpoint", "u_elastic", "u_hetero", "u_wrong", "u_err")


def _normalise(checker: RowChecker, context: Context) -> pa.Table:
    duration_s = checker.number("duration_s")
    checker.reject(np.isnan(duration_s), q.MISSING_DURATION, "duration_s")
    gpus_each, least, most = (_worker_count(checker, column) for column in _COUNTS)
    checker.reject(most < least, q.FEWER_WORKERS_THAN_LEAST, "workers_max")
    for column in _FLAGS:
        flags = checker.number(column)
        checker.reject(~np.isin(flags, (0.0, 1.0)), q.UNREADABLE_FLAG, column)
    for column in _DRAWS:
        if column in checker:
            checker.reject(np.abs(checker.number(column)) > 1, q.IMPLAUSIBLE_DRAW, column)
    gpus = checker.number("gpus")
    checker.reject(np.isfinite(gpus) & (gpus != gpus_each * least), q.GPUS_OF_OTHER_WORKERS, "gpus")
    return build_jobs(
        checker, _COLUMNS, {"submit_time": checker.seconds("submit_s", since_s=context.second_0_s)}
    )


def _worker_count(checker: RowChecker, column: str) -> np.ndarray:
    counts = checker.number(column)
    checker.reject(np.isnan(counts), q.MISSING_COUNT, column)
    checker.reject(~(counts >= 1), q.NO_WORKER, column)
    checker.reject(counts % 1 > 0, q.UNREADABLE_NUMBER, column)
    return counts


READER = Reader(
    name="lyra-csv",
    summary="Jobs in workers (job_id,submit_s,duration_s,gpus,gpus_per_worker,workers_min,workers_max,...)",
    table="jobs",
    time_zone="UTC",
    chunks=Layout(required=("job_id", "submit_s", "duration_s", "gpus", *_COUNTS, *_FLAGS), optional=_DRAWS),
    normalise=_normalise,
    counts_from_zero=True,
    trace_start=UNIX_EPOCH,
)
