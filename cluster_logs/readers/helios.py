"""Helios (SenseTime): `cluster_log.csv`, and the two tables published beside it.

Times are naive local times (UTC+8). Ids are unique in one cluster only. `gpu_num` 0 is a CPU job. Some
copies have a `jobname`, some lack `user`: what is not there is null. `duration` = end - start and `queue` =
start - submit are recomputed.
"""

from datetime import date

import numpy as np
import pyarrow as pa

from cluster_logs import quarantine as q
from cluster_logs.job_facts import source_columns
from cluster_logs.job_table import NODES_SCHEMA, THROUGHPUT_SCHEMA
from cluster_logs.readers.base import MAX_COUNT, Context, Reader, build_jobs
from cluster_logs.readers.delimited import Layout
from cluster_logs.readers.row_checker import RowChecker
from cluster_logs.readers.source import NOT_A_TIME
from cluster_logs.slurm_words import slurm_state

TIME_ZONE = "Asia/Shanghai"
BIN_S = 600

_COLUMNS = source_columns("helios")
_JOBS = Layout(
    required=("job_id", "vc", "gpu_num", "state", "submit_time", "start_time", "end_time"),
    optional=tuple(_COLUMNS.values()),
)


def _normalise_jobs(checker: RowChecker, context: Context) -> pa.Table:
    return build_jobs(checker, _COLUMNS, states=slurm_state)


READER = Reader(
    name="helios",
    summary="Helios cluster_log.csv (SenseTime)",
    table="jobs",
    time_zone=TIME_ZONE,
    chunks=_JOBS,
    normalise=_normalise_jobs,
)

# Our column -> the column of cluster_throughput.csv.
_COUNTS = {
    "submitted_jobs": "submit_job_all",
    "started_jobs": "start_job_all",
    "ended_jobs": "end_job_all",
    "submitted_gpu_jobs": "submit_gpu_job",
    "started_gpu_jobs": "start_gpu_job",
    "ended_gpu_jobs": "end_gpu_job",
    "submitted_gpus": "submit_gpu_num",
    "started_gpus": "start_gpu_num",
    "ended_gpus": "end_gpu_num",
}
THROUGHPUT_ROWS_SCHEMA = pa.schema([column for column in THROUGHPUT_SCHEMA if column.name != "cluster"])


def _normalise_throughput(checker: RowChecker, context: Context) -> pa.Table:
    starts = checker.instant("time")
    checker.reject(starts == NOT_A_TIME, q.MISSING_SUBMIT_TIME, "time")
    checker.reject(starts % (BIN_S * 1_000_000) != 0, q.UNREADABLE_TIME, "time")
    counts = {ours: checker.count(theirs, MAX_COUNT) for ours, theirs in _COUNTS.items()}
    kept_rows = checker.kept()
    rows = int(kept_rows.sum())
    columns: dict[str, pa.Array] = {
        name: pa.array(values[kept_rows].astype(np.int64)) for name, values in counts.items()
    }
    columns["bin_start"] = pa.array(starts[kept_rows]).cast(pa.timestamp("us", tz="UTC"))
    columns["bin_s"] = pa.repeat(pa.scalar(BIN_S, pa.int64()), rows)
    columns["origin"] = pa.repeat(pa.scalar("published", pa.string()), rows)
    arrays = [columns[name] for name in THROUGHPUT_ROWS_SCHEMA.names]
    return pa.Table.from_arrays(arrays, schema=THROUGHPUT_ROWS_SCHEMA)


THROUGHPUT_READER = Reader(
    name="helios-throughput",
    summary="Helios cluster_throughput.csv: submissions, starts and ends in 10-minute bins",
    table="throughput",
    time_zone=TIME_ZONE,
    chunks=Layout(required=("time", *_COUNTS.values())),
    normalise=_normalise_throughput,
)

NODE_ROWS_SCHEMA = pa.schema([column for column in NODES_SCHEMA if column.name != "cluster"])


def _normalise_nodes(checker: RowChecker, context: Context) -> pa.Table:
    """One row a day and virtual cluster; a day with GPUs that do not fill whole nodes is refused."""
    per_node = context.options.gpus_per_node
    # A day is a day: no clock is involved.
    days = RowChecker(checker.chunk, checker.source_file, "UTC").instant("date")
    checker.instant("date")
    checker.reject(days == NOT_A_TIME, q.MISSING_SUBMIT_TIME, "date")
    gpus = {
        name: checker.count(name, MAX_COUNT, step=per_node, between_steps=q.PARTIAL_NODE)
        for name in checker.chunk.columns
        if name.lower() not in ("date", "total")
    }
    rows = [
        {
            "virtual_cluster": name,
            "date": date.fromordinal(date(1970, 1, 1).toordinal() + int(days[index] // 86_400_000_000)),
            "nodes": int(values[index]) // per_node,
            "gpus_per_node": per_node,
        }
        for index in np.flatnonzero(checker.kept())
        for name, values in gpus.items()
    ]
    return pa.Table.from_pylist(rows, schema=NODE_ROWS_SCHEMA)


NODES_READER = Reader(
    name="helios-nodes",
    summary="Helios cluster_gpu_number.csv: GPUs of each virtual cluster by day",
    table="nodes",
    time_zone=TIME_ZONE,
    chunks=Layout(required=("date",), every_column=True),
    normalise=_normalise_nodes,
)
