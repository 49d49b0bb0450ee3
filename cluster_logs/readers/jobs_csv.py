"""Any other log, exported as CSV with the columns of the job table (docs/formats.md), in any order.

The id, the submission and the GPUs must be there (`job_id`, `submit_time`, `gpus`); of all other columns
those are read that are named as in the table, and none is missed. Times are as in ISO 8601 (without an
offset: on the clock of `--time-zone`, else UTC), or seconds since 1970. A state is a word of the table or of
Slurm; an empty one is not said.
"""

import pyarrow as pa
import pyarrow.compute as pc

from cluster_logs import quarantine as q
from cluster_logs.job_facts import JOB_FACTS, Kind
from cluster_logs.readers.base import Context, Reader
from cluster_logs.readers.delimited import Layout
from cluster_logs.readers.job_rows import JOB_ROWS_SCHEMA, Values, build_jobs
from cluster_logs.readers.row_checker import RowChecker
from cluster_logs.readers.values import as_mask
from cluster_logs.slurm_words import slurm_state

# Where a row comes from is this file, and what its state was called there is told by its state.
_NOT_READ = ("cluster", "source_state", "source_file", "source_row")
_COLUMNS = {fact.name: fact.name for fact in JOB_FACTS if fact.name not in _NOT_READ}
_TIMES = [fact.name for fact in JOB_FACTS if fact.kind is Kind.TIME]
_REQUIRED = ("job_id", "submit_time", "gpus")


def _normalise(checker: RowChecker, context: Context) -> pa.Table:
    derived: dict[str, Values] = {
        name: checker.instant_or_seconds(name, fact=name) for name in _TIMES if name in checker
    }
    words = checker.optional_text("state")
    if words is not None:
        derived["state"] = checker.mapped("state", slurm_state, pa.string())
        unknown = pc.and_(pc.is_valid(words), pc.is_null(derived["state"]))
        checker.reject(as_mask(unknown), q.UNKNOWN_STATE, "state")
    rows = build_jobs(checker, _COLUMNS, derived)
    if words is None:
        return rows
    column = rows.schema.get_field_index("source_state")
    return rows.set_column(column, JOB_ROWS_SCHEMA.field(column), words.filter(pa.array(checker.kept())))


READER = Reader(
    name="jobs-csv",
    summary="Any other log as CSV with our own columns (job_id,submit_time,gpus,start_time,end_time,...)",
    table="jobs",
    time_zone="UTC",
    chunks=Layout(required=_REQUIRED, optional=tuple(_COLUMNS.values())),
    normalise=_normalise,
)
