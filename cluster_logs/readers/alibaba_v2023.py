"""Alibaba's GPU trace of 2023: one row a pod.

Times are seconds from the start of the trace. Its publisher does not say when that was; unless another start
is given it is 2023-01-01 00:00 on the reader's clock, so that hours and weekdays of the table are those of an
assumed clock. `gpu_milli` is the share of each GPU in thousandths; `cpu_milli` is rounded up to whole cores.
A pod that was deleted while Running or Pending ended there, by someone's hand: CANCELLED. Pods that are
Running in the trace's last second, in which all that are left are given as deleted, still run. No virtual
clusters, no users.
"""

from collections.abc import Mapping
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cluster_logs.job_facts import source_columns
from cluster_logs.job_table import JobState
from cluster_logs.readers.base import Context, Reader, ReadOptions, build_jobs
from cluster_logs.readers.delimited import Layout
from cluster_logs.readers.row_checker import RowChecker, as_mask
from cluster_logs.readers.source import NOT_A_TIME, TextSource

_STATES: Mapping[str, JobState] = {
    "Succeeded": JobState.COMPLETED,
    "Failed": JobState.FAILED,
    "Running": JobState.RUNNING,
    "Pending": JobState.PENDING,
}


_LAYOUT = Layout(
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
)


def _last_second(source: TextSource, options: ReadOptions) -> float:
    """The newest deletion of the file, in seconds of the trace; NaN without any."""
    newest = [
        RowChecker(chunk, source.name, "UTC").number("deletion_time")
        for chunk in _LAYOUT.read(source, only=("deletion_time",))
    ]
    deletions = np.concatenate([np.array([np.nan]), *newest])
    return float(np.nanmax(deletions, initial=-np.inf))


def _normalise(checker: RowChecker, context: Context) -> pa.Table:
    gpus = checker.number("num_gpu")
    share = checker.number("gpu_milli") / 1000
    words = checker.mapped("pod_phase", _STATES.get, pa.string())
    runs_on = as_mask(pc.equal(words, JobState.RUNNING.value)) & (
        checker.number("deletion_time") == context.facts
    )
    submit, start, deleted = (
        checker.seconds(column, since_s=context.second_0_s)
        for column in ("creation_time", "scheduled_time", "deletion_time")
    )
    end = np.where(runs_on, NOT_A_TIME, deleted)
    unfinished = pa.array([JobState.RUNNING.value, JobState.PENDING.value])
    by_hand = as_mask(pc.is_in(words, unfinished)) & (end != NOT_A_TIME)
    return build_jobs(
        checker,
        source_columns("alibaba-v2023"),
        {
            "gpus": gpus,
            # A pod without GPUs has no share to speak of.
            "gpu_share": np.where(gpus == 0, 1.0, share),
            "cpus": checker.number("cpu_milli", fact="cpus") / 1000,
            "state": pc.if_else(pa.array(by_hand), JobState.CANCELLED.value, words),
            "submit_time": submit,
            "start_time": start,
            "end_time": end,
        },
    )


READER = Reader(
    name="alibaba-v2023",
    summary="Alibaba GPU trace 2023 (openb_pod_list.csv)",
    table="jobs",
    time_zone="UTC",
    chunks=_LAYOUT,
    normalise=_normalise,
    prepare=_last_second,
    trace_start=datetime(2023, 1, 1),  # noqa: DTZ001  on the reader's clock
)
