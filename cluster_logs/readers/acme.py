"""AcmeTrace (Shanghai AI Lab): the clusters Seren and Kalos.

Times carry their offset (+08:00 in Seren, +00:00 in Kalos); one without is read on that clock. The
workload's `type` (Pretrain, Eval, ...) is kept as the name. Run time is recomputed as end - start: Kalos
publishes end - submit. Kalos' ids are text; its memory is of each pod, one a node; its `fail_time` and
`stop_time` are not needed here. No virtual clusters.
"""

from collections.abc import Callable, Mapping

import pyarrow as pa

from cluster_logs.job_facts import source_columns
from cluster_logs.readers.base import Context, Reader, build_jobs
from cluster_logs.readers.delimited import Layout
from cluster_logs.readers.row_checker import RowChecker
from cluster_logs.slurm_words import slurm_state

_REQUIRED = (
    "job_id",
    "node_num",
    "gpu_num",
    "type",
    "state",
    "submit_time",
    "start_time",
    "end_time",
)


_COLUMNS = source_columns("acme")
_OF_KALOS = {fact: column for fact, column in _COLUMNS.items() if fact != "duration_s"}


def _normaliser(columns: Mapping[str, str]) -> Callable[[RowChecker, Context], pa.Table]:
    def normalise(checker: RowChecker, context: Context) -> pa.Table:
        memory = columns["requested_memory_mib"]
        of_job_mib = None
        if memory in checker:
            of_pod_gib = checker.number(memory, fact="requested_memory_mib")
            of_job_mib = of_pod_gib * checker.number("node_num", fact="nodes") * 1024
        return build_jobs(checker, columns, {"requested_memory_mib": of_job_mib}, states=slurm_state)

    return normalise


SEREN_READER = Reader(
    name="acme-seren",
    summary="AcmeTrace, cluster Seren (trace_seren.csv)",
    table="jobs",
    time_zone="Asia/Shanghai",
    chunks=Layout(required=_REQUIRED, optional=tuple(_COLUMNS.values())),
    normalise=_normaliser(_COLUMNS),
)

KALOS_READER = Reader(
    name="acme-kalos",
    summary="AcmeTrace, cluster Kalos (trace_kalos.csv)",
    table="jobs",
    time_zone="UTC",
    chunks=Layout(required=_REQUIRED, optional=tuple(_OF_KALOS.values())),
    normalise=_normaliser(_OF_KALOS),
)
