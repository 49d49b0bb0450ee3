"""Jobs prepared for a comparison of simulators: each with its true and its estimated run time.

Columns job_id, virtual_cluster, gpus, submit_time, duration_s, estimated_duration_s, and optionally user,
order_in_vc and the job type as model, dataset, batchsize, amp. Ids stay as they are. Times without an offset
are read as UTC: only their differences matter. Where they are numbers they count seconds, from the log's own
beginning (which the table puts at 1970-01-01) or since 1970. An estimate may be below 0, since a simulator
that is compared with may have had such.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cluster_logs import quarantine as q
from cluster_logs.job_facts import source_columns
from cluster_logs.readers.base import Context, Reader, build_jobs
from cluster_logs.readers.delimited import Layout
from cluster_logs.readers.row_checker import RowChecker

_COLUMNS = source_columns("reference-csv")
_TYPE = ("model", "dataset", "batchsize", "amp")


def _normalise(checker: RowChecker, context: Context) -> pa.Table:
    duration_s = checker.number("duration_s")
    estimated_s = checker.number("estimated_duration_s")
    checker.reject(np.isnan(duration_s), q.MISSING_DURATION, "duration_s")
    checker.reject(np.isnan(estimated_s), q.MISSING_DURATION, "estimated_duration_s")
    parts = [checker.optional_text(name) for name in _TYPE]
    all_stated = all(part is not None for part in parts)
    return build_jobs(
        checker,
        _COLUMNS,
        {
            "submit_time": checker.instant_or_seconds("submit_time"),
            "duration_s": duration_s,
            "estimated_duration_s": estimated_s,
            "job_type": pc.binary_join_element_wise(*parts, "/") if all_stated else None,
        },
        signed_estimates=True,
    )


READER = Reader(
    name="reference-csv",
    summary="Jobs for comparing simulators (job_id,virtual_cluster,gpus,submit_time,duration_s,...)",
    table="jobs",
    time_zone="UTC",
    chunks=Layout(
        required=("job_id", "virtual_cluster", "gpus", "submit_time", "duration_s", "estimated_duration_s"),
        optional=(*_COLUMNS.values(), *_TYPE),
    ),
    normalise=_normalise,
)
