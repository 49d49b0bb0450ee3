"""Alibaba's GPU trace of 2023: one row a pod.

Times are seconds from the start of the trace and are read as seconds since 1970 on the reader's clock.
`gpu_milli` is the share of each GPU in thousandths; `cpu_milli` is rounded up to whole cores. A pod that was
deleted while Running or Pending ended there, by someone's hand: CANCELLED. No virtual clusters, no users.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from cluster_logs.job_facts import source_columns
from cluster_logs.job_table import JobState
from cluster_logs.readers.base import Context, Reader
from cluster_logs.readers.delimited import Layout
from cluster_logs.readers.job_rows import build_jobs
from cluster_logs.readers.row_checker import RowChecker
from cluster_logs.readers.time_zones import NOT_A_TIME

_STATES: Mapping[str, JobState] = {
    "Succeeded": JobState.COMPLETED,
    "Failed": JobState.FAILED,
    "Running": JobState.RUNNING,
    "Pending": JobState.PENDING,
}


def _normalise(checker: RowChecker, context: Context) -> pa.Table:
    gpus = checker.number("num_gpu")
    share = checker.number("gpu_milli") / 1000
    deleted = checker.seconds("deletion_time", time_zone=checker.time_zone)
    words = checker.mapped("pod_phase", _STATES.get, pa.string()).to_pylist()
    unfinished = (JobState.RUNNING.value, JobState.PENDING.value)
    states = [
        JobState.CANCELLED.value if gone and word in unfinished else word
        for word, gone in zip(words, (deleted != NOT_A_TIME).tolist(), strict=True)
    ]
    return build_jobs(
        checker,
        source_columns("alibaba-v2023"),
        {
            "gpus": gpus,
            # A pod without GPUs has no share to speak of.
            "gpu_share": np.where(gpus == 0, 1.0, share),
            "cpus": checker.number("cpu_milli") / 1000,
            "state": pa.array(states, pa.string()),
            "submit_time": checker.seconds("creation_time", time_zone=checker.time_zone),
            "start_time": checker.seconds("scheduled_time", time_zone=checker.time_zone),
            "end_time": deleted,
        },
    )


READER = Reader(
    name="alibaba-v2023",
    summary="Alibaba GPU trace 2023 (openb_pod_list.csv)",
    table="jobs",
    time_zone="UTC",
    chunks=Layout(
        required=(
            "name",
            "cpu_milli",
            "num_gpu",
            "gpu_milli",
            "pod_phase",
            "creation_time",
            "deletion_time",
            "scheduled_time",
        ),
        optional=("memory_mib", "gpu_spec", "qos"),
    ),
    normalise=_normalise,
)
