"""Jobs that waited in a Slurm queue, as sites export them for the study of waits.

A row is a job, or a job at a moment at which it was seen waiting (`cluster_logs.queue_log` says what those
moments tell): of rows that repeat a job the one that knows most stands. Columns are found by name in any
order; the id, the submission, the partition and the GPUs must be there (`gpus`, `req_gpus`, or `gres/gpu` in
`req_tres`). Times are naive ones of the site's clock (`--time-zone`; read as UTC otherwise) or seconds since
1970. Ids of accounts and partitions stay as they are; the export names no users.
"""

import pyarrow as pa

from cluster_logs.job_facts import source_columns
from cluster_logs.readers.base import Context, Reader, Values, build_jobs
from cluster_logs.readers.delimited import Layout
from cluster_logs.readers.row_checker import RowChecker
from cluster_logs.readers.sacct import gpus_in_tres, note_shared, shared_by
from cluster_logs.slurm_words import slurm_state

_COLUMNS = source_columns("queue")
_TRES = "req_tres"


def _normalise(checker: RowChecker, context: Context) -> pa.Table:
    derived: dict[str, Values] = {
        fact: checker.instant_or_seconds(_COLUMNS[fact], fact=fact)
        for fact in ("submit_time", "eligible_time", "start_time", "end_time")
        if _COLUMNS[fact] in checker
    }
    if checker.first_of(_COLUMNS["gpus"]) == _TRES:
        derived["gpus"] = gpus_in_tres(checker, _TRES)
        note_shared(checker, shared_by(checker, _TRES))
    return build_jobs(checker, _COLUMNS, derived, states=slurm_state)


READER = Reader(
    name="queue",
    summary="Jobs that waited in a Slurm queue, a site's export (job_id,submit_time,partition,...)",
    table="jobs",
    time_zone="UTC",
    chunks=Layout(
        required=tuple(_COLUMNS[fact] for fact in ("job_id", "submit_time", "gpus", "virtual_cluster")),
        optional=tuple(_COLUMNS.values()),
    ),
    normalise=_normalise,
)
