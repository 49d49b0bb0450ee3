"""What a simulation returns: one row a job, and a summary."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from simulator.job_view import JobView
from simulator.metrics import Floats, mean, schedule_summary
from simulator.node_sleep.power_history import NodeStates

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class SimulationResult:
    """The outcome of one policy on one workload. Rows are in the workload's order for every policy."""

    jobs: "pd.DataFrame"  # the columns of `job_rows`
    summary: Mapping[str, Any]
    origin: "pd.Timestamp | None" = None  # the instant of second 0 (UTC)
    node_states: NodeStates | None = None  # of a cluster whose nodes sleep
    # (s, servers on loan), each until the next, where an inference service lends.
    servers_on_loan: tuple[tuple[float, int], ...] = ()
    warm_up_jobs: int = 0  # that come before those of the table in the workload
    counted_from_s: float | None = None  # as in the scenario

    @property
    def counted(self) -> "pd.DataFrame":
        """The rows of `jobs` that figures are of: jobs that ran in their log, too."""
        return self.jobs[~self.jobs["withdrawn"]]


def job_rows(jobs: Sequence[JobView], ended_in_profiling: frozenset[int]) -> "pd.DataFrame":
    """Make the table of jobs that left the cluster, completed or withdrawn; times are in s.

    `submit_time_s` counts from second 0. `duration_s` is the true run time, alone and undisturbed, and
    `estimated_duration_s` what the policy was told. `first_start_time_s` may be that of a profiling run.
    `queuing_delay_s` is all pending time, at the profiler and after preemptions included; `jct_s` is NaN for
    a job that its virtual cluster has outgrown. `preemptions` count evictions, `failures` those of its nodes.
    `overhead_s` held GPUs without progress (preemption, completion); `lost_s` is run time that was thrown
    away. `ended_in_profiling`: it never reached the main cluster. A CPU job has 0 `gpus`. A `withdrawn` job
    never ran in its log; `would_have_started`: it left when the policy would have started it.
    """
    import pandas as pd

    return pd.DataFrame(
        {
            "job_id": [view.job.job_id for view in jobs],
            "virtual_cluster": [view.job.virtual_cluster for view in jobs],
            "user": pd.array([view.job.user for view in jobs], dtype="str"),
            "gpus": pd.array([view.job.gpus for view in jobs], dtype="int64"),
            "state": pd.array([view.state.value for view in jobs], dtype="str"),
            "submit_time_s": _floats(view.submit_time_s for view in jobs),
            "duration_s": _floats(view.job.duration_s for view in jobs),
            "estimated_duration_s": _floats(view.job.estimated_duration_s for view in jobs),
            "first_start_time_s": _floats(view.first_start_time_s for view in jobs),
            "end_time_s": _floats(view.end_time_s for view in jobs),
            "queuing_delay_s": _floats(view.queuing_delay_s for view in jobs),
            "jct_s": _floats(
                None if view.end_time_s is None else view.end_time_s - view.submit_time_s for view in jobs
            ),
            "preemptions": pd.array([view.preemptions for view in jobs], dtype="int64"),
            "failures": pd.array([view.failures for view in jobs], dtype="int64"),
            "colocated": pd.array([view.was_colocated for view in jobs], dtype="bool"),
            "colocated_s": _floats(view.colocated_s for view in jobs),
            "overhead_s": _floats(view.overhead_s for view in jobs),
            "lost_s": _floats(view.lost_s for view in jobs),
            "profiled": pd.array([view.profiled for view in jobs], dtype="bool"),
            "ended_in_profiling": pd.array([view.index in ended_in_profiling for view in jobs], dtype="bool"),
            "resizes": pd.array([view.resizes for view in jobs], dtype="int64"),
            "withdrawn": pd.array([view.job.withdrawn for view in jobs], dtype="bool"),
            "would_have_started": pd.array([_left_early(view) for view in jobs], dtype="bool"),
        }
    )


def schedule_of(
    jobs: Sequence[JobView],
    *,
    held: Collection[JobView],
    ended_in_profiling: frozenset[int],
    mean_gpus: Callable[[float], float],
) -> tuple["pd.DataFrame", dict[str, Any]]:
    """Return the table of all jobs, and the figures of merit of the schedule.

    `held` are jobs that their virtual cluster has outgrown: they never ended. `mean_gpus` tells how many GPUs
    the cluster has had on average until a moment (s). All are of the jobs that count.
    """
    table = job_rows(jobs, ended_in_profiling)
    # Colocated jobs hold their GPUs together: each second of the pair counts once.
    held_gpu_s = sum(view.job.gpus * (view.attained_s - view.colocated_s / 2) for view in jobs)
    ended = np.array([view.end_time_s is not None for view in jobs], dtype=bool)
    on_cpus = np.array([not view.job.gpus for view in jobs], dtype=bool)
    replayed = table if ended.all() and not on_cpus.any() else table[ended & ~on_cpus]
    elastic = [view.elastic for view in jobs if view.elastic is not None]
    held_gpu_s -= sum(run.spared_gpu_s for run in elastic)
    until_s = float(replayed["end_time_s"].max()) if len(replayed) else 0.0
    figures = schedule_summary(replayed, total_gpus=mean_gpus(until_s), held_gpu_s=held_gpu_s)
    # These are counted with all GPUs that a job asks for.
    figures["overhead_gpu_s"] -= sum(run.spared_overhead_gpu_s for run in elastic)
    figures["lost_gpu_s"] -= sum(run.spared_lost_gpu_s for run in elastic)
    return table, {
        **figures,
        "resizes": sum(run.resizes for run in elastic),
        "timed_out_jobs": sum(view.job.timed_out for view in jobs),
        "outgrown_jobs": sum(view.job.gpus > 0 for view in held),
        "cpu_jobs": int(on_cpus.sum()),
        "cpu_jobs_mean_queuing_delay_s": mean(table["queuing_delay_s"].to_numpy()[on_cpus]),
        "node_failures_suffered": sum(view.failures for view in jobs),
    }


def _left_early(view: JobView) -> bool:
    """Whether a job that was withdrawn at a later time left because it was to start."""
    until_s = view.job.cancel_time_s
    return until_s is not None and view.end_time_s is not None and view.end_time_s < until_s


def _floats(values: Iterable[float | None]) -> Floats:
    return np.array(list(values), dtype=np.float64)  # NaN for None
