"""Samples of GPUs: one row a GPU and moment, by any exporter, and where the rows of a source went.

A source's row is one value of one metric (Prometheus) or one sample (a table). Each is kept, quarantined with
a reason or skipped by a named rule (`cluster_logs.quarantine`).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from cluster_logs import quarantine as q
from cluster_logs.job_table import REFUSED_SCHEMA, TIMESTAMP, conform
from cluster_logs.metrics.source_account import SourceAccount
from cluster_logs.quarantine import Accounting
from foundation.errors import BadInputError
from foundation.storage import open_input

# Names repeat in every row: dictionaries keep ten million samples in memory.
NAME = pa.dictionary(pa.int32(), pa.string())
JOB_SEPARATOR = ","


def _field(name: str, kind: pa.DataType, meaning: str, unit: str = "", *, nullable: bool = True) -> pa.Field:
    return pa.field(name, kind, nullable=nullable, metadata={"description": meaning, "unit": unit})


SAMPLE_SCHEMA = pa.schema(
    [
        _field("time", TIMESTAMP, "When the sample was taken.", nullable=False),
        _field("host", NAME, "The node; null when the source does not say."),
        _field("gpu_uuid", NAME, "The driver's UUID of the whole GPU, GPU-...", nullable=False),
        _field("gpu_util_pct", pa.float64(), "Share of time in which a kernel ran.", "%"),
        _field("gpu_mem_util_pct", pa.float64(), "Share of time in which memory was read or written.", "%"),
        _field("gpu_mem_mib", pa.float64(), "Memory in use.", "MiB"),
        _field("power_w", pa.float64(), "Power drawn.", "W"),
        _field("gr_engine_active", pa.float64(), "Share of time in which the compute engine was busy.", "1"),
        _field("tensor_active", pa.float64(), "Share of cycles in which the tensor pipe was busy.", "1"),
        _field("dram_active", pa.float64(), "Share of cycles in which memory moved data.", "1"),
        _field("job_ids", NAME, "Jobs that the source says were on it, by comma; null: it does not say."),
    ]
)
METRICS = tuple(name for name in SAMPLE_SCHEMA.names if pa.types.is_floating(SAMPLE_SCHEMA.field(name).type))

# What a metric can be. A ratio may read a little above 1, where two counters were not read at one moment.
MOST: Mapping[str, float] = {
    "gpu_util_pct": 100.0,
    "gpu_mem_util_pct": 100.0,
    "gpu_mem_mib": 4_194_304.0,
    "power_w": 10_000.0,
    "gr_engine_active": 1.05,
    "tensor_active": 1.05,
    "dram_active": 1.05,
}
FIRST_US, LAST_US = 0, 4_102_444_800_000_000  # 1970 to 2099, as for jobs


@dataclass(frozen=True)
class SampleBatch:
    """Samples (SAMPLE_SCHEMA, by GPU and time), where the source's rows went, and those refused."""

    samples: pa.Table
    accounting: Accounting
    refused: pa.Table  # REFUSED_SCHEMA


def readable_uuid(uuid: str) -> bool:
    """Whether the text can be the driver's name of a whole GPU."""
    return uuid.startswith("GPU-") and len(uuid) > 4 and uuid.isprintable() and " " not in uuid


def is_mig(uuid: str) -> bool:
    """Whether it names a part of a GPU."""
    return uuid.startswith("MIG-")


def plausible(metric: str, values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which values the metric can have; NaN it cannot."""
    with np.errstate(invalid="ignore"):
        return np.asarray((values >= 0) & (values <= MOST[metric]), dtype=bool)


def concat_batches(batches: Sequence[SampleBatch]) -> SampleBatch:
    """All samples by GPU and time; the accounts added up."""
    accounting = Accounting()
    for batch in batches:
        accounting.add(batch.accounting)
    samples = pa.concat_tables([SAMPLE_SCHEMA.empty_table(), *(batch.samples for batch in batches)])
    refused = pa.concat_tables([REFUSED_SCHEMA.empty_table(), *(batch.refused for batch in batches)])
    return SampleBatch(samples.unify_dictionaries(), accounting, refused)


def read_sample_table(uri: str) -> SampleBatch:
    """Read samples that are rows of a Parquet file already (the node sampler's, or our own).

    Columns of SAMPLE_SCHEMA that the file lacks are null, others are left alone. A sample that says no metric
    is skipped; one with a metric out of range is quarantined as a whole. Raises BadInputError for a file
    without `time` and `gpu_uuid`.
    """
    try:
        with open_input(uri) as source:
            table = pq.read_table(source)
    except (OSError, pa.ArrowException) as error:
        raise BadInputError(
            f"The samples {uri} cannot be read: {error}.", remedy="Give a Parquet file."
        ) from error
    return check_sample_table(table, source_file=uri.rsplit("/", 1)[-1])


def check_sample_table(table: pa.Table, *, source_file: str) -> SampleBatch:
    """As `read_sample_table`, of a table in memory."""
    loose = pa.schema([field.with_nullable(True) for field in SAMPLE_SCHEMA])
    for name in ("time", "gpu_uuid"):
        if name not in table.column_names:
            raise BadInputError(
                f"The samples {source_file} have no column {name!r}.",
                remedy=f"Give the columns {', '.join(SAMPLE_SCHEMA.names)}; metrics may be missing.",
            )
    rows = conform(table, loose, what=f"samples {source_file}")
    account = SourceAccount(rows_in=rows.num_rows, source_format="gpu-samples", source_file=source_file)
    verdict = np.full(rows.num_rows, "", dtype=object)
    for name in METRICS:
        values = _floats(rows.column(name))
        verdict[~np.isnan(values) & ~plausible(name, values)] = f"{q.IMPLAUSIBLE_METRIC}/{name}"
    silent = np.all([np.isnan(_floats(rows.column(name))) for name in METRICS], axis=0)
    verdict[silent & (verdict == "")] = q.NO_VALUE
    times = rows.column("time").cast(pa.int64()).fill_null(-1).to_numpy()
    verdict[(times < FIRST_US) | (times >= LAST_US)] = f"{q.IMPLAUSIBLE_TIME}/time"
    uuids = rows.column("gpu_uuid").cast(pa.string()).combine_chunks().dictionary_encode()
    codes = uuids.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    names = [str(name) for name in uuids.dictionary.to_pylist()]
    for code, name in enumerate(names):
        if is_mig(name):
            verdict[codes == code] = q.MIG_INSTANCE
        elif not readable_uuid(name):
            reason = q.UNREADABLE_GPU_UUID if name.strip() else q.MISSING_GPU_UUID
            verdict[codes == code] = f"{reason}/gpu_uuid"
    verdict[codes < 0] = f"{q.MISSING_GPU_UUID}/gpu_uuid"
    for given, count in pd.Series(verdict[verdict != ""]).value_counts().items():
        reason, _, column = str(given).partition("/")
        if not column:
            account.skipped[reason] += int(count)
            continue
        at = np.flatnonzero(verdict == given)
        for index, row in zip(at.tolist(), rows.take(pa.array(at)).to_pylist(), strict=True):
            raw = json.dumps(row, default=str)
            account.refuse(reason, index + 1, raw, column=column, value=row[column])
    kept = rows.filter(pa.array(verdict == ""))
    account.kept = kept.num_rows
    account.check(f"Reading {source_file}")
    order = pc.sort_indices(
        pa.table({"gpu": kept.column("gpu_uuid").cast(pa.string()), "time": kept.column("time")}),
        sort_keys=[("gpu", "ascending"), ("time", "ascending")],
    )
    samples = conform(kept.take(order), SAMPLE_SCHEMA, what=f"samples {source_file}")
    return SampleBatch(samples, account, account.refused())


def _floats(column: pa.ChunkedArray) -> NDArray[np.float64]:
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)
