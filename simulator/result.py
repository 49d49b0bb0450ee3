"""What a simulation returns: one row a job, and a summary."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from simulator.snapshot import JobView

JOB_COLUMNS: Mapping[str, str] = {
    "job_id": "as in the source",
    "virtual_cluster": "",
    "user": "null when the source does not say",
    "gpus": "GPU demand; 0 for a CPU job",
    "state": "completed or cancelled",
    "submit_time_s": "seconds from the first submission",
    "duration_s": "the true run time, alone and undisturbed",
    "estimated_duration_s": "what the policy was told; NaN when nothing",
    "first_start_time_s": "start of the first run, a profiling run included",
    "end_time_s": "when it completed, or was cancelled",
    "queuing_delay_s": "all pending time, at the profiler and after preemptions included",
    "jct_s": "end - submission; NaN for a job that its virtual cluster has outgrown",
    "preemptions": "times that the policy stopped it, evictions included",
    "failures": "times that its node failed under it",
    "colocated": "whether it ever shared its GPUs",
    "colocated_s": "for how long",
    "overhead_s": "GPUs held without progress: preemption, completion",
    "lost_s": "run time thrown away: a profiling run that did not finish the job",
    "profiled": "whether it ran on the profiler",
    "ended_in_profiling": "whether it never reached the main cluster",
}


@dataclass(frozen=True)
class SimulationResult:
    """The outcome of one policy on one workload. Rows are in the workload's order for every policy."""

    jobs: pd.DataFrame  # the columns of JOB_COLUMNS
    summary: Mapping[str, Any]
    origin: pd.Timestamp | None = None  # the instant of second 0 (UTC)


def job_rows(jobs: Sequence[JobView], ended_in_profiling: frozenset[int]) -> pd.DataFrame:
    """Make the table of jobs that left the cluster, completed or cancelled."""
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
        }
    )


def _floats(values: Any) -> pd.Series:
    return pd.Series(list(values), dtype="float64")
