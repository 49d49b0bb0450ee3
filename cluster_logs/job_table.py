"""The tables that every log is read into: jobs (`job_facts.JOB_FACTS`), throughput, nodes and quarantine.

Each column's unit and meaning are stored in the field's metadata (`describe(JOB_SCHEMA)` prints them), so
that a Parquet file of the lake explains itself. All times are UTC instants with microseconds; all sizes are
whole GPUs.
"""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pandas as pd
import pyarrow as pa

from cluster_logs.job_facts import JOB_FACTS, Kind
from cluster_logs.job_states import FINISHED_STATES as FINISHED_STATES
from cluster_logs.job_states import JobState as JobState
from foundation.errors import BadInputError

TIMESTAMP = pa.timestamp("us", tz="UTC")

# The virtual cluster of a source that has none: the whole cluster is one queue.
WHOLE_CLUSTER = "default"


def required_field(name: str, kind: pa.DataType, meaning: str, unit: str = "") -> pa.Field:
    """Return a column that no row lacks, which says what it means and in which unit."""
    return pa.field(name, kind, nullable=False, metadata={"description": meaning, "unit": unit})


def optional_field(name: str, kind: pa.DataType, meaning: str, unit: str = "") -> pa.Field:
    """Return a column that may be null, which says what it means and in which unit."""
    return pa.field(name, kind, nullable=True, metadata={"description": meaning, "unit": unit})


_TYPES = {
    Kind.TEXT: pa.string(),
    Kind.COUNT: pa.int32(),
    Kind.SERIAL: pa.int64(),
    Kind.NUMBER: pa.float64(),
    Kind.TIME: TIMESTAMP,
}

JOB_SCHEMA = pa.schema(
    [
        (required_field if fact.required else optional_field)(
            fact.name, _TYPES[fact.kind], fact.meaning, fact.unit
        )
        for fact in JOB_FACTS
    ]
)

_OPTIONAL = frozenset(fact.name for fact in JOB_FACTS if not fact.required)

THROUGHPUT_SCHEMA = pa.schema(
    [
        required_field("cluster", pa.string(), "The cluster that is counted."),
        required_field(
            "bin_start", TIMESTAMP, "First instant of the bin; the bin is [bin_start, bin_start + bin_s)."
        ),
        required_field("bin_s", pa.int64(), "Length of the bin.", "s"),
        required_field("submitted_jobs", pa.int64(), "Jobs submitted in the bin.", "jobs"),
        optional_field("started_jobs", pa.int64(), "Jobs that first started in the bin.", "jobs"),
        optional_field("ended_jobs", pa.int64(), "Jobs that ended in the bin.", "jobs"),
        required_field(
            "submitted_gpu_jobs", pa.int64(), "Jobs with at least one GPU submitted in the bin.", "jobs"
        ),
        optional_field(
            "started_gpu_jobs", pa.int64(), "Jobs with at least one GPU started in the bin.", "jobs"
        ),
        optional_field("ended_gpu_jobs", pa.int64(), "Jobs with at least one GPU ended in the bin.", "jobs"),
        required_field("submitted_gpus", pa.int64(), "GPUs of the jobs submitted in the bin.", "GPUs"),
        optional_field("started_gpus", pa.int64(), "GPUs of the jobs started in the bin.", "GPUs"),
        optional_field("ended_gpus", pa.int64(), "GPUs of the jobs ended in the bin.", "GPUs"),
        required_field("origin", pa.string(), "`published` by the source, or `derived` from the job table."),
    ]
)

NODES_SCHEMA = pa.schema(
    [
        required_field("cluster", pa.string(), "The cluster that the nodes belong to."),
        required_field("virtual_cluster", pa.string(), "The virtual cluster that owns the nodes."),
        optional_field("date", pa.date32(), "The day the count holds from; null: always."),
        required_field("nodes", pa.int32(), "Whole nodes.", "nodes"),
        required_field("gpus_per_node", pa.int32(), "GPUs in each node.", "GPUs"),
        optional_field("node", pa.string(), "The node's name, where a row is a node."),
        optional_field(
            "partitions",
            pa.string(),
            "All virtual clusters that may use the nodes, separated by commas; null: that one alone.",
        ),
        optional_field("gpu_type", pa.string(), "What the GPUs are; several kinds on a node joined by `+`."),
        optional_field("cpus_per_node", pa.int32(), "CPU cores in each node.", "cores"),
        optional_field("memory_mib_per_node", pa.int64(), "Memory in each node.", "MiB"),
    ]
)

QUARANTINE_SCHEMA = pa.schema(
    [
        required_field("cluster", pa.string(), "The cluster that the row was read for."),
        required_field(
            "reason", pa.string(), "Name of the reason; `cluster_logs.quarantine.REASONS` says what it means."
        ),
        optional_field("column", pa.string(), "The source's column that the reason is about."),
        optional_field("value", pa.string(), "What stood in that column."),
        required_field("source_format", pa.string(), "The reader (or check) that refused the row."),
        required_field("source_file", pa.string(), "Base name of the input file."),
        required_field("source_row", pa.int64(), "1-based data row (or array index + 1) in the input file."),
        required_field(
            "raw_row", pa.string(), "The row as it stood in the input; undecodable bytes are written \\xNN."
        ),
    ]
)


def to_digest(jobs: pd.DataFrame) -> pd.DataFrame:
    """Jobs as digests take them: without the facts that no job has, so that a fact which comes to the table
    changes no digest of jobs without it.
    """
    return jobs.drop(columns=[name for name in jobs if name in _OPTIONAL and jobs[name].isna().all()])


def describe(schema: pa.Schema) -> pd.DataFrame:
    """One row a column of the schema: name, type, nullable, unit, description."""
    rows = [
        {
            "name": field.name,
            "type": str(field.type),
            "nullable": field.nullable,
            "unit": field.metadata[b"unit"].decode(),
            "description": field.metadata[b"description"].decode(),
        }
        for field in schema
    ]
    return pd.DataFrame(rows)


def conform(table: pa.Table | pd.DataFrame, schema: pa.Schema, *, what: str = "table") -> pa.Table:
    """The table with exactly the schema's columns, order and types.

    Nullable columns that are missing, or null throughout, become null. Raises BadInputError when a required
    column is missing or holds a null, or when a value does not fit its column's type.
    """
    if isinstance(table, pd.DataFrame):
        wanted = [column for column in table.columns if column in schema.names]
        table = pa.table({column: _from_pandas(table[column], what) for column in wanted})
    columns = []
    for field in schema:
        if field.name not in table.column_names:
            if not field.nullable:
                raise BadInputError(
                    f"The {what} has no column {field.name!r}.",
                    remedy=f"It needs: {', '.join(f.name for f in schema if not f.nullable)}.",
                )
            columns.append(pa.nulls(table.num_rows, field.type))
            continue
        column = table.column(field.name)
        if not field.nullable and column.null_count:
            raise BadInputError(
                f"The {what} has {column.null_count} empty values in required column {field.name!r}."
            )
        if column.null_count == table.num_rows:  # of whatever type: pandas makes numbers of unknown times
            column = pa.nulls(table.num_rows, field.type)
        try:
            columns.append(column if column.type == field.type else column.cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise BadInputError(
                f"Column {field.name!r} of the {what} is not {field.type}: {error}"
            ) from error
    return pa.Table.from_arrays(columns, schema=schema)


def _from_pandas(column: "pd.Series[Any]", what: str) -> pa.Array | pa.ChunkedArray:
    if isinstance(column.dtype, pd.DatetimeTZDtype):
        return pa.array(column.dt.tz_convert(None).to_numpy()).cast(pa.timestamp(column.dtype.unit, tz="UTC"))
    try:
        return pa.array(column, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise BadInputError(f"Column {column.name!r} of the {what} mixes types: {error}") from error


# A nullable integer stays an integer in pandas; a required one is a plain NumPy integer.
_NULLABLE_INTEGERS: dict[pa.DataType, object] = {pa.int32(): pd.Int32Dtype(), pa.int64(): pd.Int64Dtype()}


def to_frame(table: pa.Table) -> pd.DataFrame:
    """A pandas frame with the same dtypes whatever the content: `str` text, Int32/Int64 for nullable
    integers.
    """
    data = {}
    for field in table.schema:
        mapper = cast(
            "Callable[[pa.DataType], object] | None", _NULLABLE_INTEGERS.get if field.nullable else None
        )
        if pa.types.is_string(field.type):
            mapper = {field.type: pd.StringDtype(na_value=np.nan)}.get  # the dtype "str"
        data[field.name] = table.column(field.name).to_pandas(types_mapper=mapper)
    return pd.DataFrame(data, copy=False)  # the columns are new: nobody else has them
