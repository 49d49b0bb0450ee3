"""AcmeTrace (Shanghai AI Lab): the clusters Seren and Kalos.

Times carry their offset (+08:00 in Seren, +00:00 in Kalos); one without is read on that clock. The
workload's `type` (Pretrain, Eval, ...) is kept as the name. Run time is recomputed as end - start: Kalos
publishes end - submit. Kalos' ids are text; its `fail_time`, `stop_time` and memory columns are not needed
here. No virtual clusters.
"""

from collections.abc import Callable

import pyarrow as pa

from cluster_logs.readers.base import Context, Reader
from cluster_logs.readers.delimited import Layout
from cluster_logs.readers.job_rows import JobColumns, build_jobs
from cluster_logs.readers.sieve import Sieve
from cluster_logs.slurm_words import slurm_state

_REQUIRED = (
    "job_id",
    "user",
    "node_num",
    "gpu_num",
    "type",
    "state",
    "submit_time",
    "start_time",
    "end_time",
)


def _normaliser(*, published_duration: bool) -> Callable[[Sieve, Context], pa.Table]:
    def normalise(sieve: Sieve, context: Context) -> pa.Table:
        return build_jobs(
            sieve,
            JobColumns(
                job_id=sieve.text("job_id"),
                user=sieve.optional_text("user"),
                name=sieve.optional_text("type"),
                gpus=sieve.number("gpu_num"),
                cpus=sieve.optional_number("cpu_num"),
                nodes=sieve.number("node_num"),
                state=sieve.mapped("state", slurm_state, pa.string()),
                source_state=sieve.text("state"),
                submit=sieve.instant("submit_time"),
                start=sieve.instant("start_time"),
                end=sieve.instant("end_time"),
                duration_s=sieve.optional_number("duration") if published_duration else None,
                queuing_delay_s=sieve.optional_number("queue"),
                sources={
                    "gpus": "gpu_num",
                    "cpus": "cpu_num",
                    "nodes": "node_num",
                    "duration_s": "duration",
                    "queuing_delay_s": "queue",
                },
            ),
        )

    return normalise


SEREN_READER = Reader(
    name="acme-seren",
    summary="AcmeTrace, cluster Seren (trace_seren.csv)",
    table="jobs",
    time_zone="Asia/Shanghai",
    chunks=Layout(required=_REQUIRED, optional=("cpu_num", "duration", "queue")),
    normalise=_normaliser(published_duration=True),
)

KALOS_READER = Reader(
    name="acme-kalos",
    summary="AcmeTrace, cluster Kalos (trace_kalos.csv)",
    table="jobs",
    time_zone="UTC",
    chunks=Layout(required=_REQUIRED, optional=("cpu_num", "queue")),
    normalise=_normaliser(published_duration=False),
)
