"""Replays elastic jobs under a rule of allocation: one pool of GPUs for each virtual cluster."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from foundation.progress import Progress
from parts.elastic.active_job import ActiveJob
from parts.elastic.allocation import Pool
from parts.elastic.elastic_policy import ElasticPolicy
from parts.elastic.engine import ElasticSimulation
from simulator.job_view import RunState
from simulator.results.metrics import Floats, schedule_summary
from simulator.results.prediction_metrics import prediction_summary
from simulator.results.result import SimulationResult
from simulator.scenario.scenario import Scenario

if TYPE_CHECKING:
    import pandas as pd


def replay_in_pools(
    scenario: Scenario,
    policy: ElasticPolicy,
    *,
    name: str,
    predict: bool = False,
    progress: Progress | None = None,
) -> SimulationResult:
    """Replay a workload, each virtual cluster's GPUs being one pool; rows are in the workload's order.

    Jobs that could never start are left out and counted, as in the main engine; an elastic job that asks for
    more than its pool has is served as if the rest of it had to wait, as the reference does.
    `predict` predicts each job's end at its submission
    (PCS, section 3.4). Columns and summary are those of the main engine.
    """
    cluster = scenario.cluster
    workload = scenario.workload.that_fit(cluster)
    ended: list[ActiveJob] = []
    cpu_s = 0.0
    by_virtual_cluster: dict[str, list[int]] = {}
    for i, job in enumerate(workload.jobs):
        by_virtual_cluster.setdefault(job.virtual_cluster, []).append(i)
    for virtual_cluster, rows in by_virtual_cluster.items():
        gpus = cluster.virtual_clusters[virtual_cluster] * cluster.gpus_per_node
        done = len(ended)

        def reported(jobs: int, _: int | None, what: str, done: int = done) -> None:
            if progress is not None:
                progress(done + jobs, len(workload), what)

        simulation = ElasticSimulation(
            replace(workload, jobs=tuple(workload.jobs[i] for i in rows), rows=None),
            Pool(gpus),
            policy.rule,
            predict=predict,
            progress=reported,
            name=name,
        )
        simulation.run()
        cpu_s += simulation.cpu_s
        for found in simulation.ended:
            found.index = rows[found.index]
        ended += simulation.ended
    ended.sort(key=lambda job: job.index)
    jobs = _table(ended, predict=predict)
    total_gpus = sum(cluster.virtual_clusters.values()) * cluster.gpus_per_node
    summary: dict[str, Any] = {
        "policy": name,
        "rules": scenario.rules.name,
        "oracle": policy.oracle,
        **schedule_summary(jobs, total_gpus=total_gpus, held_gpu_s=sum(job.held_gpu_s for job in ended)),
        "resizes": sum(job.resizes for job in ended),
        **({"predict_by": "truth"} if predict else {}),
        **prediction_summary(jobs),
        "skipped": {rule: count for rule, count in workload.skipped.items() if count},
        "cpu_s": cpu_s,
        "jobs_per_cpu_s": len(ended) / cpu_s if cpu_s > 0 else 0.0,
    }
    return SimulationResult(jobs, summary, workload.origin)


def _table(ended: Sequence[ActiveJob], *, predict: bool) -> "pd.DataFrame":
    """Make the table of jobs (`job_rows`), with what was predicted and what is fair."""
    import pandas as pd

    count = len(ended)
    columns: dict[str, Any] = {
        "job_id": [job.job.job_id for job in ended],
        "virtual_cluster": [job.job.virtual_cluster for job in ended],
        "user": pd.array([job.job.user for job in ended], dtype="str"),
        "gpus": pd.array([job.demand for job in ended], dtype="int64"),
        "state": pd.array([RunState.COMPLETED.value] * count, dtype="str"),
        "submit_time_s": _floats([job.submit_time_s for job in ended]),
        "duration_s": _floats([job.job.duration_s for job in ended]),
        "estimated_duration_s": _floats([job.job.estimated_duration_s for job in ended]),
        "first_start_time_s": _floats([job.first_start_time_s for job in ended]),
        "end_time_s": _floats([job.end_time_s for job in ended]),
        "queuing_delay_s": _floats([job.queuing_delay_s for job in ended]),
        "jct_s": _floats([(job.end_time_s or 0.0) - job.submit_time_s for job in ended]),
        "preemptions": pd.array([job.preemptions for job in ended], dtype="int64"),
        "failures": pd.array([0] * count, dtype="int64"),
        "colocated": pd.array([False] * count, dtype="bool"),
        "colocated_s": _floats([0.0] * count),
        "overhead_s": _floats([0.0] * count),
        "lost_s": _floats([0.0] * count),
        "profiled": pd.array([False] * count, dtype="bool"),
        "ended_in_profiling": pd.array([False] * count, dtype="bool"),
        "resizes": pd.array([job.resizes for job in ended], dtype="int64"),
        "withdrawn": pd.array([False] * count, dtype="bool"),
        "would_have_started": pd.array([False] * count, dtype="bool"),
        "fair_time_s": _floats([job.fair_duration_s for job in ended]),
    }
    if predict:
        columns["predicted_end_time_s"] = _floats([job.predicted_end_time_s for job in ended])
    return pd.DataFrame(columns)


def _floats(values: Sequence[float | None]) -> Floats:
    return np.array(values, dtype=np.float64)  # NaN for None
