"""Our own Parquet: a lake (the cluster that the caller names, or its only one) or one Parquet file of job
rows.

The rows pass the same checks as those of any other source, and keep their own source file and row.
"""

import json
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from cluster_logs import quarantine as q
from cluster_logs.job_table import JobState, conform
from cluster_logs.lake import Lake
from cluster_logs.readers.base import JOB_ROWS_SCHEMA, Context, Reader, ReadOptions, build_jobs
from cluster_logs.readers.row_checker import RowChecker
from cluster_logs.readers.source import RawChunk, TextSource
from foundation.errors import BadInputError, NotFoundError
from foundation.storage import locate, open_input

# On the way in every column may be absent or null, and a number that is to be whole may be none: the checks
# refuse the row and say why.
_LENIENT_SCHEMA = pa.schema(
    pa.field(
        column.name,
        pa.float64() if pa.types.is_integer(column.type) and column.name != "source_row" else column.type,
    )
    for column in JOB_ROWS_SCHEMA
)


# What the file's own rows say of where they come from is set beside the checks.
_OF_SOURCE = ("source_state", "source_file", "source_row")
_COLUMNS = {name: name for name in JOB_ROWS_SCHEMA.names if name not in _OF_SOURCE}
_TEXTS = [name for name in _COLUMNS if pa.types.is_string(JOB_ROWS_SCHEMA.field(name).type)]


def _tables(source: TextSource, options: ReadOptions) -> Iterator[pa.Table]:
    fs, path = locate(source.uri)
    kind = fs.get_file_info(path).type
    if kind == pafs.FileType.NotFound:
        raise NotFoundError(f"There is nothing at {source.place}.", remedy="Check the path.")
    if kind == pafs.FileType.Directory:
        lake = Lake(source.uri)
        clusters = lake.clusters()
        yield from lake.iter_jobs(clusters[0] if len(clusters) == 1 else options.cluster)
        return
    try:
        with open_input(source.uri) as raw:
            file = pq.ParquetFile(raw)
            for group in range(file.num_row_groups):
                yield file.read_row_group(group)
    except (pa.ArrowException, OSError) as error:
        raise BadInputError(
            f"{source.place} is not a Parquet file: {error}.", remedy="Check the format."
        ) from error


def _chunks(source: TextSource, options: ReadOptions) -> Iterator[RawChunk]:
    first = 1
    for table in _tables(source, options):
        rows = conform(table, _LENIENT_SCHEMA, what=source.uri).combine_chunks()
        columns = {name: rows.column(name).combine_chunks() for name in rows.column_names}

        def raw(index: int, rows: pa.Table = rows) -> str:
            return json.dumps(rows.slice(index, 1).to_pylist()[0], default=str)

        yield RawChunk(columns, np.arange(first, first + rows.num_rows), raw, rows_in=rows.num_rows)
        first += rows.num_rows


def _normalise(checker: RowChecker, context: Context) -> pa.Table:
    state = checker.text("state")
    words = [word.value for word in JobState]
    unknown = [word is not None and word not in words for word in state.to_pylist()]
    checker.reject(np.array(unknown, dtype=bool), q.UNKNOWN_STATE, "state")
    texts: dict[str, pa.Array] = {name: checker.text(name) for name in _TEXTS}
    rows = build_jobs(checker, _COLUMNS, {**texts, "state": state})
    kept_rows = pa.array(checker.kept())
    for name in _OF_SOURCE:
        values = checker.chunk.columns[name].filter(kept_rows)
        if values.null_count == 0 or name == "source_state":
            rows = rows.set_column(rows.schema.get_field_index(name), JOB_ROWS_SCHEMA.field(name), values)
    return rows


READER = Reader(
    name="lake",
    summary="Our own Parquet: a lake, or one file of job rows",
    table="jobs",
    time_zone="UTC",
    chunks=_chunks,
    normalise=_normalise,
)
