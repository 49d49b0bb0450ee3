"""From a source's columns to rows of the job table: the checks that every job must pass, whatever its
source.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cluster_logs import quarantine as q
from cluster_logs.job_table import JOB_SCHEMA, WHOLE_CLUSTER, JobState
from cluster_logs.readers.sieve import Sieve
from cluster_logs.readers.time_zones import NOT_A_TIME
from cluster_logs.readers.values import FloatArray, IntArray, Mask, as_mask, is_missing

JOB_ROWS_SCHEMA = pa.schema([column for column in JOB_SCHEMA if column.name != "cluster"])

MAX_GPUS = 1_000_000
MAX_COUNT = 1_000_000_000
MAX_DURATION_S = 100 * 365.25 * 86_400


@dataclass
class JobColumns:
    """One chunk of jobs, column by column; None means that the source does not say.

    Times are UTC microseconds with NOT_A_TIME for unknown, numbers are float64 with NaN for unknown.
    `sources` names the source's column behind each of ours, so that a refusal points at the right one.
    """

    job_id: pa.Array
    submit: IntArray
    gpus: FloatArray
    virtual_cluster: pa.Array | None = None
    user: pa.Array | None = None
    name: pa.Array | None = None
    gpu_share: FloatArray | None = None
    cpus: FloatArray | None = None
    nodes: FloatArray | None = None
    state: pa.Array | None = None
    source_state: pa.Array | None = None
    start: IntArray | None = None
    end: IntArray | None = None
    duration_s: FloatArray | None = None
    service_s: FloatArray | None = None
    single_gpu_s: FloatArray | None = None
    queuing_delay_s: FloatArray | None = None
    time_limit_s: FloatArray | None = None
    estimated_duration_s: FloatArray | None = None
    order_in_vc: FloatArray | None = None
    job_type: pa.Array | None = None
    gpu_util_pct: FloatArray | None = None
    gpu_mem_util_pct: FloatArray | None = None
    gpu_mem_mib: FloatArray | None = None
    sources: Mapping[str, str] = field(default_factory=dict)
    signed_estimates: bool = False  # an estimate is a belief: it may be below 0 where the source says so


def build_jobs(sieve: Sieve, jobs: JobColumns) -> pa.Table:
    """The rows that pass every check, as JOB_ROWS_SCHEMA in the file's order; the others are refused.

    Run time is end - start where both are known (published durations are not always that), else what the
    source states. An unfinished job has none.
    """
    size = len(sieve)
    nowhen = np.full(size, NOT_A_TIME)
    start = nowhen if jobs.start is None else jobs.start
    end = nowhen if jobs.end is None else jobs.end
    _check_identity(sieve, jobs)
    _check_times(sieve, jobs, start, end)
    _check_sizes(sieve, jobs)
    unfinished = _check_state(sieve, jobs)

    wall_s = _elapsed_s(start, end)
    stated_s = np.full(size, np.nan) if jobs.duration_s is None else jobs.duration_s
    duration_s = np.where(unfinished, np.nan, np.where(np.isnan(wall_s), stated_s, wall_s))
    service_s = duration_s if jobs.service_s is None else np.where(unfinished, np.nan, jobs.service_s)
    service_s = np.where(np.isnan(service_s), duration_s, service_s)
    waited_s = _elapsed_s(jobs.submit, start)
    if jobs.queuing_delay_s is not None:
        waited_s = np.where(np.isnan(waited_s), jobs.queuing_delay_s, waited_s)

    values: dict[str, pa.Array | FloatArray | None] = {
        "job_id": jobs.job_id,
        "virtual_cluster": _repeat(WHOLE_CLUSTER, size)
        if jobs.virtual_cluster is None
        else jobs.virtual_cluster,
        "user": jobs.user,
        "name": jobs.name,
        "gpus": jobs.gpus,
        "gpu_share": np.ones(size) if jobs.gpu_share is None else jobs.gpu_share,
        "cpus": None if jobs.cpus is None else np.ceil(jobs.cpus),
        "nodes": jobs.nodes,
        "state": jobs.state,
        "source_state": jobs.source_state,
        "submit_time": _times(jobs.submit),
        "start_time": _times(start),
        "end_time": _times(end),
        "duration_s": duration_s,
        "service_s": service_s,
        "single_gpu_s": jobs.single_gpu_s,
        "queuing_delay_s": waited_s,
        "time_limit_s": jobs.time_limit_s,
        "estimated_duration_s": jobs.estimated_duration_s,
        "order_in_vc": jobs.order_in_vc,
        "job_type": jobs.job_type,
        "gpu_util_pct": jobs.gpu_util_pct,
        "gpu_mem_util_pct": jobs.gpu_mem_util_pct,
        "gpu_mem_mib": jobs.gpu_mem_mib,
        "source_file": _repeat(sieve.source_file, size),
        "source_row": pa.array(sieve.chunk.rows, pa.int64()),
    }
    kept = sieve.kept()
    chosen = None if kept.all() else kept
    columns = [_column(values[column.name], column.type, chosen, size) for column in JOB_ROWS_SCHEMA]
    return pa.Table.from_arrays(columns, schema=JOB_ROWS_SCHEMA)


def _check_identity(sieve: Sieve, jobs: JobColumns) -> None:
    sieve.reject(is_missing(jobs.job_id), q.MISSING_JOB_ID, jobs.sources.get("job_id", "job_id"))
    if jobs.virtual_cluster is not None:
        column = jobs.sources.get("virtual_cluster", "virtual_cluster")
        sieve.reject(is_missing(jobs.virtual_cluster), q.MISSING_VIRTUAL_CLUSTER, column)


def _check_sizes(sieve: Sieve, jobs: JobColumns) -> None:
    gpus_column = jobs.sources.get("gpus", "gpus")
    sieve.reject(np.isnan(jobs.gpus), q.MISSING_GPUS, gpus_column)
    sieve.reject(jobs.gpus < 0, q.NEGATIVE_GPUS, gpus_column)
    sieve.reject(jobs.gpus > MAX_GPUS, q.IMPLAUSIBLE_GPUS, gpus_column)
    sieve.reject(jobs.gpus != np.floor(jobs.gpus), q.FRACTIONAL_GPUS, gpus_column)
    if jobs.gpu_share is not None:
        share = jobs.gpu_share
        bad_share = ~((share > 0) & (share <= 1))
        sieve.reject(bad_share, q.IMPLAUSIBLE_GPU_SHARE, jobs.sources.get("gpu_share", "gpu_share"))
    for name in ("cpus", "nodes", "order_in_vc", "gpu_util_pct", "gpu_mem_util_pct", "gpu_mem_mib"):
        values: FloatArray | None = getattr(jobs, name)
        if values is not None:
            sieve.reject(values < 0, q.NEGATIVE_COUNT, jobs.sources.get(name, name))
            sieve.reject(values > MAX_COUNT, q.IMPLAUSIBLE_COUNT, jobs.sources.get(name, name))


def _check_times(sieve: Sieve, jobs: JobColumns, start: IntArray, end: IntArray) -> None:
    def column(name: str) -> str:
        return jobs.sources.get(name, name)

    sieve.reject(jobs.submit == NOT_A_TIME, q.MISSING_SUBMIT_TIME, column("submit_time"))
    started = start != NOT_A_TIME
    ended = end != NOT_A_TIME
    sieve.reject(started & (start < jobs.submit), q.START_BEFORE_SUBMIT, column("start_time"))
    sieve.reject(started & ended & (end < start), q.END_BEFORE_START, column("end_time"))
    sieve.reject(ended & (end < jobs.submit), q.END_BEFORE_SUBMIT, column("end_time"))
    for name in (
        "duration_s",
        "service_s",
        "single_gpu_s",
        "queuing_delay_s",
        "time_limit_s",
        "estimated_duration_s",
    ):
        values: FloatArray | None = getattr(jobs, name)
        if values is not None:
            if name != "estimated_duration_s" or not jobs.signed_estimates:
                sieve.reject(values < 0, q.NEGATIVE_DURATION, column(name))
            sieve.reject(values > MAX_DURATION_S, q.IMPLAUSIBLE_DURATION, column(name))


def _check_state(sieve: Sieve, jobs: JobColumns) -> Mask:
    """Refuse words that nobody knows; which rows are pending or running."""
    if jobs.state is None:
        return np.zeros(len(sieve), dtype=bool)
    said = np.ones(len(sieve), dtype=bool)
    if jobs.source_state is None:
        said = as_mask(pc.is_valid(jobs.state))
    unknown = said & as_mask(pc.is_null(jobs.state))
    sieve.reject(unknown, q.UNKNOWN_STATE, jobs.sources.get("state", "state"))
    return as_mask(pc.is_in(jobs.state, pa.array([JobState.PENDING.value, JobState.RUNNING.value])))


def _elapsed_s(first: IntArray, last: IntArray) -> FloatArray:
    known = (first != NOT_A_TIME) & (last != NOT_A_TIME)
    return np.where(known, (last - np.where(known, first, 0)) / 1e6, np.nan)


def _repeat(word: str, size: int) -> pa.Array:
    return pa.repeat(pa.scalar(word, pa.string()), size)


def _times(values: IntArray) -> pa.Array:
    return pa.array(values, mask=values == NOT_A_TIME)


def _column(
    values: pa.Array | FloatArray | None, kind: pa.DataType, kept: Mask | None, size: int
) -> pa.Array:
    if values is None:
        return pa.nulls(size if kept is None else int(kept.sum()), kind)
    if isinstance(values, pa.Array):
        chosen = values if kept is None else values.filter(pa.array(kept))
        return chosen.cast(kind)
    numbers = values if kept is None else values[kept]
    missing = np.isnan(numbers)
    if pa.types.is_integer(kind):
        numbers = np.where(missing, 0, numbers).astype(kind.to_pandas_dtype())
    return pa.array(numbers, kind, mask=missing if missing.any() else None)
