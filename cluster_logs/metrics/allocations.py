"""Which job held which GPU when: read from a table, or from the samples' own job labels.

What a scheduler says of its running jobs is read by `cluster_logs.metrics.scontrol`.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from cluster_logs import quarantine as q
from cluster_logs.job_table import TIMESTAMP, conform
from cluster_logs.metrics.gpu_samples import JOB_SEPARATOR, is_mig, readable_uuid
from cluster_logs.metrics.source_account import SourceAccount
from cluster_logs.quarantine import Accounting
from foundation.errors import BadInputError
from foundation.storage import open_input
from foundation.unpacking import UnpackedFile


def _field(name: str, kind: pa.DataType, meaning: str, *, nullable: bool = False) -> pa.Field:
    return pa.field(name, kind, nullable=nullable, metadata={"description": meaning, "unit": ""})


ALLOCATION_SCHEMA = pa.schema(
    [
        _field("job_id", pa.string(), "The job's id, as in the job table."),
        _field("gpu_uuid", pa.string(), "The driver's UUID of the GPU."),
        _field("start_time", TIMESTAMP, "From when on the job held it."),
        _field("end_time", TIMESTAMP, "Until when; null: it still does.", nullable=True),
    ]
)


@dataclass(frozen=True)
class AllocationBatch:
    """Allocations (ALLOCATION_SCHEMA), where the source's rows went, and those refused."""

    allocations: pa.Table
    accounting: Accounting
    refused: pa.Table  # QUARANTINE_SCHEMA


def read_allocations(uri: str) -> AllocationBatch:
    """Read a CSV or Parquet file with the columns job_id, gpu_uuid, start_time and, maybe empty, end_time.

    Times are ISO (UTC unless they name a zone). Raises BadInputError for a file without these columns.
    """
    name = uri.rsplit("/", 1)[-1]
    try:
        if name.endswith(".parquet"):
            with open_input(uri) as source:
                table = pq.read_table(source)
        else:
            as_text = pacsv.ConvertOptions(
                column_types=dict.fromkeys(ALLOCATION_SCHEMA.names, pa.string()),
                strings_can_be_null=True,
                null_values=[""],
            )
            with open_input(uri) as raw:
                stream = UnpackedFile(raw, uri) if name.endswith(".gz") else raw
                table = pacsv.read_csv(stream, convert_options=as_text)
    except (OSError, pa.ArrowException) as error:
        raise BadInputError(
            f"The allocations {uri} cannot be read: {error}.",
            remedy="Give CSV or Parquet with the columns job_id, gpu_uuid, start_time, end_time.",
        ) from error
    missing = [column for column in ALLOCATION_SCHEMA.names[:3] if column not in table.column_names]
    if missing:
        raise BadInputError(
            f"The allocations {uri} lack {', '.join(missing)}; they have {', '.join(table.column_names)}.",
            remedy="Name the columns job_id, gpu_uuid, start_time, end_time.",
        )
    frame = table.select([c for c in ALLOCATION_SCHEMA.names if c in table.column_names]).to_pandas()
    if "end_time" not in frame:
        frame["end_time"] = None
    return check_allocations(frame, SourceAccount(source_format="allocations", source_file=name))


def check_allocations(frame: pd.DataFrame, account: SourceAccount) -> AllocationBatch:
    """Sort out rows with the columns of ALLOCATION_SCHEMA, as texts or times.

    `account` may hold what the caller has counted already.
    """
    account.rows_in += len(frame)
    job = frame["job_id"].map(_text)
    uuid = frame["gpu_uuid"].map(_text)
    start, end = _instants(frame["start_time"]), _instants(frame["end_time"])
    said_end = frame["end_time"].map(_text) != ""
    reason = np.select(
        [
            (job == "").to_numpy(),
            (uuid == "").to_numpy(),
            ~uuid.map(lambda name: readable_uuid(name) or is_mig(name)).to_numpy(dtype=bool),
            start.isna().to_numpy(),
            (said_end & end.isna()).to_numpy(),
            (end < start).to_numpy(dtype=bool),
        ],
        [
            q.MISSING_JOB_ID,
            q.MISSING_GPU_UUID,
            q.UNREADABLE_GPU_UUID,
            q.UNREADABLE_TIME,
            q.UNREADABLE_TIME,
            q.END_BEFORE_START,
        ],
        default="",
    )
    for index in np.flatnonzero(reason != "").tolist():
        raw = json.dumps({key: _text(value) for key, value in frame.iloc[index].items()})
        account.refuse(str(reason[index]), index + 1, raw)
    mig = (reason == "") & uuid.map(is_mig).to_numpy(dtype=bool)
    account.skipped[q.MIG_INSTANCE] += int(mig.sum())
    keep = (reason == "") & ~mig
    kept = pd.DataFrame({"job_id": job, "gpu_uuid": uuid, "start_time": start, "end_time": end})[keep]
    repeated = kept.duplicated()
    account.skipped[q.EXACT_DUPLICATE] += int(repeated.sum())
    kept = kept[~repeated].sort_values(["gpu_uuid", "start_time", "job_id"], kind="stable")
    account.kept += len(kept)
    account.check(f"Reading {account.source_file}")
    allocations = conform(kept, ALLOCATION_SCHEMA, what=account.source_file)
    return AllocationBatch(allocations, account, account.refused())


def allocations_from_labels(samples: pa.Table, interval_s: float, hold_intervals: float) -> pa.Table:
    """What the samples' job labels say (SAMPLE_SCHEMA, by GPU and time): runs of samples with the same job.

    A run goes on while samples follow within `hold_intervals` intervals, and ends with the sample that does
    not name the job, or one interval after the last one before a gap.
    """
    if not samples.num_rows:
        return ALLOCATION_SCHEMA.empty_table()
    gpus = samples.column("gpu_uuid").combine_chunks()
    labels = samples.column("job_ids").combine_chunks()
    gpu = gpus.indices.to_numpy().astype(np.int64)
    label = labels.indices.fill_null(-1).to_numpy().astype(np.int64)
    time_us = samples.column("time").cast(pa.int64()).to_numpy()
    longest_us, step_us = round(hold_intervals * interval_s * 1e6), round(interval_s * 1e6)
    # When each sample ceases to hold: at the GPU's next one, or one interval later where that is far.
    same = np.append(np.diff(gpu) == 0, False)
    gap = np.append(np.diff(time_us), 0)
    held = same & (gap <= longest_us)
    until = time_us + np.where(held, gap, step_us)
    names = [str(name) for name in labels.dictionary.to_pylist()]
    parts = list(_runs_of_jobs(gpu, label, time_us, until, held, names))
    if not parts:
        return ALLOCATION_SCHEMA.empty_table()
    codes = np.concatenate([part[1] for part in parts])
    columns = [
        pa.array(np.repeat([part[0] for part in parts], [len(part[1]) for part in parts]), pa.string()),
        gpus.dictionary.take(pa.array(codes)),
        pa.array(np.concatenate([part[2] for part in parts])).cast(TIMESTAMP),
        pa.array(np.concatenate([part[3] for part in parts])).cast(TIMESTAMP),
    ]
    allocations = pa.Table.from_arrays(columns, schema=ALLOCATION_SCHEMA)
    return allocations.sort_by(
        [("gpu_uuid", "ascending"), ("start_time", "ascending"), ("job_id", "ascending")]
    )


_Run = tuple[str, NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]


def _runs_of_jobs(
    gpu: NDArray[np.int64],
    label: NDArray[np.int64],
    time_us: NDArray[np.int64],
    until: NDArray[np.int64],
    held: NDArray[np.bool_],
    names: list[str],
) -> Iterator[_Run]:
    """Each job's runs: job, GPUs, starts, ends."""
    order = np.argsort(label, kind="stable")
    borders = np.searchsorted(label[order], np.arange(len(names) + 1))
    rows_of: dict[str, list[NDArray[np.intp]]] = {}
    for code, name in enumerate(names):
        rows = order[borders[code] : borders[code + 1]]
        for job in name.split(JOB_SEPARATOR):
            if job and len(rows):
                rows_of.setdefault(job, []).append(rows)
    for job in sorted(rows_of):
        rows = np.unique(np.concatenate(rows_of[job]))
        # A run goes on with the sample right after it, where that one is near enough.
        goes_on = (np.diff(rows) == 1) & held[rows[:-1]]
        first = rows[np.append(True, ~goes_on)]
        last = rows[np.append(~goes_on, True)]
        yield job, gpu[first], time_us[first], until[last]


def read_gpu_map(uri: str) -> dict[tuple[str, int], str]:
    """Read which GPU a node's index is: CSV host,index,gpu_uuid, where the index is Slurm's (the minor number
    of `nvidia-smi -q`), not nvidia-smi's own.
    """
    columns = ("host", "index", "gpu_uuid")
    try:
        with open_input(uri) as stream:
            options = pacsv.ConvertOptions(column_types={"host": pa.string(), "gpu_uuid": pa.string()})
            table = pacsv.read_csv(stream, convert_options=options)
        rows = table.select(columns).to_pylist()
        return {(str(row["host"]), int(row["index"])): str(row["gpu_uuid"]).strip() for row in rows}
    except (OSError, pa.ArrowException, KeyError, TypeError, ValueError) as error:
        raise BadInputError(
            f"The map of GPUs {uri} cannot be read: {error}.", remedy="Give CSV: host,index,gpu_uuid."
        ) from error


def merge_allocations(tables: list[pa.Table]) -> pa.Table:
    """All allocations by GPU and start, each once."""
    both = pa.concat_tables([ALLOCATION_SCHEMA.empty_table(), *tables])
    once = both.group_by(ALLOCATION_SCHEMA.names, use_threads=False).aggregate([])
    order = [("gpu_uuid", "ascending"), ("start_time", "ascending"), ("job_id", "ascending")]
    return once.select(ALLOCATION_SCHEMA.names).cast(ALLOCATION_SCHEMA).sort_by(order)


def _text(value: object) -> str:
    return "" if value is None or value is pd.NaT or value != value else str(value).strip()


def _instants(column: "pd.Series[Any]") -> "pd.Series[pd.Timestamp]":
    read = pd.to_datetime(column, utc=True, errors="coerce", format="ISO8601")
    return read.astype("datetime64[us, UTC]")
