"""The traces of PCS (OSDI '24): app_id, submit_time, service, num_jobs, sleep_time, model_name.

Each row is an elastic job that makes use of up to `num_jobs` GPUs. `service` is its run time (s) on one GPU:
the job table's `single_gpu_s`. How long it runs on more depends on its model's speed-up curve, which the file
does not hold, so that `duration_s` is null. `submit_time` counts seconds from the trace's beginning
(1970-01-01 in the table, unless another start is given), `sleep_time` the seconds since the submission before
it. `app_id` is the row's number from 0. The name of the job is that of its model.
"""

import numpy as np
import pyarrow as pa

from cluster_logs import quarantine as q
from cluster_logs.job_facts import source_columns
from cluster_logs.readers.base import UNIX_EPOCH, Context, Reader, build_jobs
from cluster_logs.readers.delimited import Layout
from cluster_logs.readers.row_checker import RowChecker, is_missing


def _normalise(checker: RowChecker, context: Context) -> pa.Table:
    service_s, gpus = checker.number("service"), checker.number("num_jobs")
    checker.reject(np.isnan(service_s), q.MISSING_DURATION, "service")
    checker.reject(is_missing(checker.text("model_name")), q.MISSING_MODEL, "model_name")
    return build_jobs(
        checker,
        source_columns("pcs-csv"),
        {
            "gpus": gpus,
            "submit_time": checker.seconds("submit_time", since_s=context.second_0_s),
            "single_gpu_s": service_s,
        },
    )


READER = Reader(
    name="pcs-csv",
    summary="Elastic jobs of PCS (app_id,submit_time,service,num_jobs,sleep_time,model_name)",
    table="jobs",
    time_zone="UTC",
    chunks=Layout(
        required=("app_id", "submit_time", "service", "num_jobs", "model_name"), optional=("sleep_time",)
    ),
    normalise=_normalise,
    counts_from_zero=True,
    trace_start=UNIX_EPOCH,
)
