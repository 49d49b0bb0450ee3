"""The tables that every log is read into: jobs (`job_facts.JOB_FACTS`), throughput, nodes and quarantine; how
newer rows are merged into older ones, and how throughput is counted from jobs.

Each column's unit and meaning are stored in the field's metadata (`describe(JOB_SCHEMA)` prints them), so
that a Parquet file of the lake explains itself. All times are UTC instants with microseconds; all sizes are
whole GPUs.
"""

from collections.abc import Callable, Iterable
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from cluster_logs.job_facts import JOB_FACTS, Kind
from cluster_logs.job_states import FINISHED_STATES as FINISHED_STATES
from cluster_logs.job_states import JobState as JobState
from foundation.errors import BadInputError

TIMESTAMP = pa.timestamp("us", tz="UTC")

# The virtual cluster of a source that has none: the whole cluster is one queue.
WHOLE_CLUSTER = "default"


# The order of rows in a file of the lake: by time, equal times as in the source.
JOB_ORDER = [
    ("submit_time", "ascending"),
    ("source_file", "ascending"),
    ("source_row", "ascending"),
    ("job_id", "ascending"),
]

DAY_S = 86_400
DEFAULT_BIN_S = 600
# One job with a wrong year must not make a million empty bins: a silence this long is left out of the series.
LONGEST_SILENCE_S = 366 * DAY_S

THROUGHPUT_COLUMNS = ("submit_time", "start_time", "end_time", "gpus")


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

SERIES_SCHEMA = pa.schema([column for column in THROUGHPUT_SCHEMA if column.name != "cluster"])
# The quarantine table without its cluster, which the lake adds.
REFUSED_SCHEMA = pa.schema([column for column in QUARANTINE_SCHEMA if column.name != "cluster"])

_EVENTS = {"submitted": "submit_time", "started": "start_time", "ended": "end_time"}
_IntArray = npt.NDArray[np.int64]


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
    return pd.DataFrame(data, copy=False)  # the columns are new: no other frame shares them


# How a newer table is merged into an older one: by key, never losing a row ------------------------------


def microseconds(column: pa.ChunkedArray | pa.Array) -> npt.NDArray[np.int64]:
    """A timestamp column without nulls, as microseconds since 1970."""
    return column.cast(pa.int64()).to_numpy()  # type: ignore[no-any-return]


def group_by_key(jobs: pa.Table) -> npt.NDArray[np.int64]:
    """For each row the number of its key (job_id, submit_time); equal keys get equal numbers."""
    ids = pc.dictionary_encode(jobs.column("job_id").combine_chunks())
    codes = ids.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    submits = microseconds(jobs.column("submit_time"))
    order = np.lexsort((submits, codes))
    changes = (np.diff(codes[order]) != 0) | (np.diff(submits[order]) != 0)
    groups = np.empty(len(order), dtype=np.int64)
    groups[order] = np.concatenate(([0], np.cumsum(changes))) if len(order) else []
    return groups


def is_finished(jobs: pa.Table) -> npt.NDArray[np.bool_]:
    """Whether each job has ended for good; a source that gives no state lists finished jobs."""
    unfinished = pc.invert(pc.is_in(jobs.column("state"), pa.array(sorted(FINISHED_STATES), pa.string())))
    running = pc.and_(pc.is_valid(jobs.column("state")), unfinished)
    return ~np.asarray(running.to_numpy(zero_copy_only=False), dtype=bool)


def merge_jobs(older: pa.Table, newer: pa.Table) -> pa.Table:
    """Both tables' jobs in the lake's order, one row a key.

    The newer row of a key wins, except that a finished job never turns back into an unfinished one:
    ingesting an older export again must not undo what a newer one said.
    """
    both = pa.concat_tables([older, newer])
    groups = group_by_key(both)
    order = np.lexsort((np.arange(len(groups)), is_finished(both), groups))
    last_of_group = np.append(np.diff(groups[order]) != 0, True) if len(order) else np.zeros(0, dtype=bool)
    winners = np.sort(order[last_of_group])
    return both.take(pa.array(winners)).sort_by(JOB_ORDER)


def merge_throughput(older: pa.Table, newer: pa.Table) -> pa.Table:
    """The bins of one day, by time.

    A published bin stands above a derived one: a day with published bins holds no others. Derived bins
    replace the day's derived bins as a whole; of two published bins of one time the newer wins.
    """
    published = [table.filter(pc.equal(table.column("origin"), "published")) for table in (older, newer)]
    if not any(table.num_rows for table in published):
        return newer.sort_by("bin_start")
    both = pa.concat_tables(published)
    starts = microseconds(both.column("bin_start"))
    order = np.lexsort((np.arange(len(starts)), starts))
    last = np.append(np.diff(starts[order]) != 0, True)
    return both.take(pa.array(order[last]))


# The throughput of the jobs: submissions, starts and ends, in bins of equal length ----------------------


def derive_throughput(jobs: Iterable[pa.Table], bin_s: int = DEFAULT_BIN_S) -> pa.Table:
    """The series of all jobs (tables with `THROUGHPUT_COLUMNS`, any order), SERIES_SCHEMA by time.

    Complete between the first and the last event: a bin without events holds zeros, except in a silence of
    more than a year, which is left out. Starts (or ends) are null when no job's start (or end) is known.
    """
    counts_of: dict[str, list[tuple[_IntArray, _IntArray]]] = {event: [] for event in _EVENTS}
    for table in jobs:
        gpus = table.column("gpus").to_numpy().astype(np.int64)
        for event, column in _EVENTS.items():
            times = table.column(column)
            is_set = pc.is_valid(times).to_numpy()
            instants = times.drop_null().cast(pa.int64()).to_numpy()
            counts_of[event].append(_count(instants // (bin_s * 1_000_000), gpus[is_set]))
    events = {event: _together(parts) for event, parts in counts_of.items()}
    bins = _complete([numbers for numbers, _ in events.values()], LONGEST_SILENCE_S // bin_s)
    columns: dict[str, pa.Array] = {
        "bin_start": pa.array(bins * bin_s * 1_000_000).cast(pa.timestamp("us", tz="UTC")),
        "bin_s": pa.repeat(pa.scalar(bin_s, pa.int64()), len(bins)),
        "origin": pa.repeat(pa.scalar("derived", pa.string()), len(bins)),
    }
    for event, (numbers, counts) in events.items():
        series = np.zeros((len(bins), 3), dtype=np.int64)
        series[np.searchsorted(bins, numbers)] = counts
        for index, what in enumerate(("jobs", "gpu_jobs", "gpus")):
            unknown = event != "submitted" and not len(numbers)
            columns[f"{event}_{what}"] = (
                pa.nulls(len(bins), pa.int64()) if unknown else pa.array(series[:, index])
            )
    return pa.Table.from_arrays([columns[name] for name in SERIES_SCHEMA.names], schema=SERIES_SCHEMA)


def _count(bins: _IntArray, gpus: _IntArray) -> tuple[_IntArray, _IntArray]:
    """Distinct bins, and for each: jobs, jobs with GPUs, GPUs."""
    numbers, position = np.unique(bins, return_inverse=True)
    counts = np.zeros((len(numbers), 3), dtype=np.int64)
    np.add.at(counts, position, np.stack([np.ones_like(gpus), (gpus > 0).astype(np.int64), gpus], axis=1))
    return numbers, counts


def _together(parts: list[tuple[_IntArray, _IntArray]]) -> tuple[_IntArray, _IntArray]:
    if not parts:
        return np.zeros(0, dtype=np.int64), np.zeros((0, 3), dtype=np.int64)
    numbers, position = np.unique(np.concatenate([numbers for numbers, _ in parts]), return_inverse=True)
    counts = np.zeros((len(numbers), 3), dtype=np.int64)
    np.add.at(counts, position, np.concatenate([counts for _, counts in parts]))
    return numbers, counts


def _complete(parts: list[_IntArray], longest_silence: int) -> _IntArray:
    """All bins from the first to the last, without the silences that are too long."""
    seen = np.unique(np.concatenate(parts))
    if not len(seen):
        return seen
    edges = np.flatnonzero(np.diff(seen) > longest_silence) + 1
    spells = [np.arange(spell[0], spell[-1] + 1) for spell in np.split(seen, edges)]
    return np.concatenate(spells)
