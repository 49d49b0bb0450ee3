"""Any other log, exported as CSV with the columns of the job table (docs/formats.md), in any order.

The id, the submission and the GPUs must be there (`job_id`, `submit_time`, `gpus`); of all other columns
those are read that are named as in the table, and none is missed. A file that calls a column otherwise is
read all the same, where that is said (`ReadOptions.columns`: our column = the file's). Times are as in ISO
8601 (without an offset: on the clock of `--time-zone`, else UTC), or seconds since 1970. A state is a word of
the table or of Slurm; an empty one is not said.
"""

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from cluster_logs import quarantine as q
from cluster_logs.job_facts import JOB_FACTS, Kind
from cluster_logs.readers.base import JOB_ROWS_SCHEMA, Context, Reader, ReadOptions, Values, build_jobs
from cluster_logs.readers.delimited import Layout, MissingColumnError
from cluster_logs.readers.row_checker import RowChecker, as_mask
from cluster_logs.readers.source import RawChunk, TextSource
from cluster_logs.slurm_words import slurm_state
from foundation.errors import BadInputError

# Where a row comes from is this file, and what its state was called there is its state.
_NOT_READ = ("cluster", "source_state", "source_file", "source_row")
NAMED_COLUMNS = {fact.name: fact.name for fact in JOB_FACTS if fact.name not in _NOT_READ}
_TIMES = [fact.name for fact in JOB_FACTS if fact.kind is Kind.TIME]
_REQUIRED = ("job_id", "submit_time", "gpus")
_OURS = f"The job table has the columns {', '.join(NAMED_COLUMNS)}."


def _normalise(checker: RowChecker, context: Context) -> pa.Table:
    derived: dict[str, Values] = {
        name: checker.instant_or_seconds(name, fact=name) for name in _TIMES if name in checker
    }
    words = checker.optional_text("state")
    if words is not None:
        derived["state"] = checker.mapped("state", slurm_state, pa.string())
        unknown = pc.and_(pc.is_valid(words), pc.is_null(derived["state"]))
        checker.reject(as_mask(unknown), q.UNKNOWN_STATE, "state")
    rows = build_jobs(checker, NAMED_COLUMNS, derived)
    if words is None:
        return rows
    column = rows.schema.get_field_index("source_state")
    return rows.set_column(column, JOB_ROWS_SCHEMA.field(column), words.filter(pa.array(checker.kept())))


def _chunks(source: TextSource, options: ReadOptions) -> Iterator[RawChunk]:
    """Chunks with our names of columns; raises BadInputError for a mapped name that is not there."""
    theirs = {ours: name.strip().lower() for ours, name in options.columns.items()}
    for ours, name in options.columns.items():
        if ours not in NAMED_COLUMNS:
            raise BadInputError(
                f"The job table has no column {ours!r}, which column {name!r} of {source.place} is to be.",
                remedy=_OURS,
            )
    layout = Layout(
        required=(*(theirs.get(name, name) for name in _REQUIRED), *theirs.values()),
        optional=tuple(name for name in NAMED_COLUMNS if name not in theirs),
    )
    try:
        for chunk in layout.read(source):
            read = {ours: chunk.columns.get(theirs.get(ours, ours)) for ours in NAMED_COLUMNS}
            yield replace(
                chunk, columns={ours: values for ours, values in read.items() if values is not None}
            )
    except MissingColumnError as error:
        error.advise(f"{_OURS} One that the file calls otherwise is mapped: our column = the file's.")
        raise


READER = Reader(
    name="jobs-csv",
    summary="Any other log as CSV with our own columns (job_id,submit_time,gpus,start_time,end_time,...)",
    table="jobs",
    time_zone="UTC",
    chunks=_chunks,
    normalise=_normalise,
    maps_columns=True,
)
