"""The one table that measurements are kept in: a row a window, with units, in one Parquet file.

A task that did not fit the memory, or failed, is one row without a window. A file is replaced as a whole
after every task, so a run that is killed loses at most the task in progress, and the next run goes on after
the last.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from foundation.errors import BadInputError
from foundation.storage import locate, write_parquet
from profiler_jobs.devices.device import DeviceDescription
from profiler_jobs.method import Method


def _field(name: str, kind: pa.DataType, meaning: str, unit: str = "", *, nullable: bool = True) -> pa.Field:
    return pa.field(name, kind, nullable=nullable, metadata={"description": meaning, "unit": unit})


MEASURED, OUT_OF_MEMORY, FAILED = "measured", "out_of_memory", "failed"

MEASUREMENT_SCHEMA = pa.schema(
    [
        _field("task", pa.string(), "The configuration, or `A + B`.", nullable=False),
        _field("job_type_1", pa.string(), "model/dataset/batch_size/amp", nullable=False),
        _field("job_type_2", pa.string(), "The partner; null for a configuration alone."),
        _field("outcome", pa.string(), "measured, out_of_memory or failed", nullable=False),
        _field("detail", pa.string(), "What an outcome without a window says."),
        _field("last_words", pa.string(), "The end of what a failed worker wrote to its output."),
        _field("repeat", pa.int32(), "0-based round of windows."),
        _field("active", pa.string(), "Which configurations trained in the window: 1, 2 or 12."),
        _field("started", pa.timestamp("us", tz="UTC"), "When the window (or the failed run) began."),
        _field("window_s", pa.float64(), "Length of the window.", "s"),
        _field("speed_1", pa.float64(), "First configuration; null while paused.", "examples/s"),
        _field("speed_2", pa.float64(), "Second configuration; null while paused.", "examples/s"),
        _field("steps_1", pa.int64(), "Whole training steps of the first in the window.", "steps"),
        _field("steps_2", pa.int64(), "Whole training steps of the second in the window.", "steps"),
        _field("overlap", pa.float64(), "Share of the window in which all active ones trained.", "1"),
        _field("host_probe_1_us", pa.float64(), "A loop on the core that the first is bound to.", "us"),
        _field("host_probe_2_us", pa.float64(), "The same loop on the second's core.", "us"),
        _field("gpu_util_pct", pa.float64(), "Mean share of time with a kernel running.", "%"),
        _field("gpu_mem_util_pct", pa.float64(), "Mean share of time memory was read or written.", "%"),
        _field("gpu_mem_mib", pa.float64(), "Largest memory in use by the run.", "MiB"),
        _field("samples", pa.int64(), "Utilisation samples behind the mean.", "samples"),
        _field("utilisation_source", pa.string(), "Where the utilisation is from; null: not reported."),
        _field("power_w", pa.float64(), "Mean power, from the energy counter where there is one.", "W"),
        _field("energy_j", pa.float64(), "Energy of the window.", "J"),
        _field("sm_clock_mhz", pa.float64(), "Mean clock of the multiprocessors.", "MHz"),
        _field("mem_clock_mhz", pa.float64(), "Mean clock of the memory.", "MHz"),
        _field("throttle_reasons", pa.string(), "What held clocks back, with commas; empty: nothing."),
        _field("needed_mib", pa.float64(), "Memory that an out-of-memory task asked for.", "MiB"),
        _field("device", pa.string(), "Name of the device.", nullable=False),
        _field("device_kind", pa.string(), "gpu, simulated or cpu", nullable=False),
        _field("device_uuid", pa.string(), "Its UUID."),
        _field("device_memory_mib", pa.float64(), "Its whole memory.", "MiB", nullable=False),
        _field("driver", pa.string(), "Driver version."),
        _field("sharing_mode", pa.string(), "time-slicing, mps, simulated or processor", nullable=False),
        _field("mig", pa.bool_(), "Whether MIG is on; null: the device has none."),
        _field("method", pa.string(), "The method's settings as JSON.", nullable=False),
        _field("method_id", pa.string(), "Digest of the method's settings.", nullable=False),
    ]
)

# Columns that older tables lack.
ADDED_LATER = ("host_probe_1_us", "host_probe_2_us")


def method_id(method: Method) -> str:
    """Return the digest that names a method in the table."""
    return hashlib.sha256(_method_json(method).encode()).hexdigest()[:12]


def read_measurements(uri: str) -> pd.DataFrame:
    """Read the table; empty, with all columns, when there is none yet.

    Raises BadInputError when the file is no measurement table.
    """
    fs, path = locate(uri)
    if fs.get_file_info(path).type != pafs.FileType.File:
        return _frame(MEASUREMENT_SCHEMA.empty_table())
    try:
        with fs.open_input_file(path) as source:
            table = pq.read_table(source)
    except (pa.ArrowException, OSError) as error:
        raise BadInputError(
            f"{uri} is no Parquet file: {error}.", remedy="Name another file for the measurements."
        ) from error
    for name in set(ADDED_LATER) - set(table.column_names):
        field = MEASUREMENT_SCHEMA.field(name)
        table = table.append_column(field, pa.nulls(len(table), field.type))
    missing = [name for name in MEASUREMENT_SCHEMA.names if name not in table.column_names]
    if missing:
        raise BadInputError(
            f"{uri} is no measurement table: it lacks {', '.join(missing)}.",
            remedy="Name another file for the measurements.",
        )
    return _frame(table.select(MEASUREMENT_SCHEMA.names))


def as_measurement_frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return rows by column as a table of MEASUREMENT_SCHEMA; what a row does not name is null."""
    columns = {name: [row.get(name) for row in rows] for name in MEASUREMENT_SCHEMA.names}
    return _frame(pa.table(columns, schema=MEASUREMENT_SCHEMA))


def write_measurements(uri: str, rows: pd.DataFrame) -> None:
    """Replace the table as a whole; a reader sees the old one or the new one."""
    write_parquet(uri, pa.Table.from_pandas(rows, schema=MEASUREMENT_SCHEMA, preserve_index=False))


def origin_columns(device: DeviceDescription, method: Method) -> dict[str, Any]:
    """Return the columns that all rows of one device and method share."""
    return {
        "device": device.name,
        "device_kind": str(device.kind),
        "device_uuid": device.uuid,
        "device_memory_mib": device.memory_mib,
        "driver": device.driver,
        "sharing_mode": str(device.sharing_mode),
        "mig": device.mig,
        "method": _method_json(method),
        "method_id": method_id(method),
    }


def _method_json(method: Method) -> str:
    return json.dumps(asdict(method), sort_keys=True)


def _frame(table: pa.Table) -> pd.DataFrame:
    frame: pd.DataFrame = table.to_pandas()
    return frame
