"""What a simulation returns: one row a job, and a summary."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from simulator.job_view import ElasticRun, JobView, RunState
from simulator.results.metrics import Floats, mean, rows_of, schedule_summary
from simulator.workload.columns import Texts, WorkloadColumns, of_rows

if TYPE_CHECKING:
    import pandas as pd

Flags = NDArray[np.bool_]
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class SimulationResult:
    """The outcome of one policy on one workload. Rows are in the workload's order for every policy."""

    jobs: "pd.DataFrame"  # the columns of `job_rows`
    summary: Mapping[str, Any]
    origin: "pd.Timestamp | None" = None  # the instant of second 0 (UTC)
    # What the scenario's companions noted over time, by their keys; an `OverTime` is written and drawn, too.
    kept: Mapping[str, Any] = field(default_factory=dict)
    warm_up_jobs: int = 0  # that come before those of the table in the workload
    counted_from_s: float | None = None  # as in the scenario

    @property
    def counted(self) -> "pd.DataFrame":
        """The rows of `jobs` that figures are of: jobs that ran in their log, too."""
        return rows_of(self.jobs, ~self.jobs["withdrawn"].to_numpy())


@dataclass(frozen=True)
class ScheduleColumns:
    """What a replay made of each job of a workload, in its order; shape (jobs,) each, times in s.

    `first_start_time_s` may be that of a profiling run; NaN: it never started. `end_time_s` is when it left
    the cluster, completed or `cancelled`; NaN: its virtual cluster has outgrown it. `queuing_delay_s` is all
    pending time, at the profiler and after preemptions included, and `attained_s` the time for which it held
    its GPUs. `overhead_s` of it was without progress (preemption, completion), and `lost_s` thrown away.
    `spared_gpu_s` is how much less than all of its GPUs an elastic job held, in all, in overheads and in what
    was lost. A column that is not given is 0 for all jobs.
    """

    first_start_time_s: Floats
    end_time_s: Floats
    queuing_delay_s: Floats
    attained_s: Floats
    cancelled: Flags | None = None
    preemptions: Counts | None = None  # evictions
    failures: Counts | None = None  # of its nodes
    colocated: Flags | None = None
    colocated_s: Floats | None = None
    overhead_s: Floats | None = None
    lost_s: Floats | None = None
    profiled: Flags | None = None
    ended_in_profiling: Flags | None = None  # it never reached the main cluster
    resizes: Counts | None = None
    spared_gpu_s: Floats | None = None
    spared_overhead_gpu_s: Floats | None = None
    spared_lost_gpu_s: Floats | None = None

    def __getitem__(self, rows: Any) -> "ScheduleColumns":
        """Return those of some jobs: a slice, a mask, or positions."""
        return ScheduleColumns(*(of_rows(getattr(self, field.name), rows) for field in fields(self)))

    def column(self, name: str) -> NDArray[Any]:
        """Return a column by its name, also where it was not given."""
        found: NDArray[Any] | None = getattr(self, name)
        return np.zeros(len(self.end_time_s), dtype=_TYPES[name]) if found is None else found

    @classmethod
    def of(cls, jobs: Sequence[JobView], ended_in_profiling: Collection[int] = ()) -> Self:
        """Return the columns of jobs that left the cluster; `ended_in_profiling` are indices of some."""
        figures: dict[str, Any] = {
            name: np.array([getattr(view, name) for view in jobs], dtype=_TYPES[name]) for name in _OF_VIEWS
        }
        figures["cancelled"] = np.array([view.state is RunState.CANCELLED for view in jobs], dtype=bool)
        figures["colocated"] = np.array([view.was_colocated for view in jobs], dtype=bool)
        if ended_in_profiling:
            figures["ended_in_profiling"] = np.array([view.index in ended_in_profiling for view in jobs])
        if any(view.elastic is not None for view in jobs):
            runs = [view.elastic or ElasticRun() for view in jobs]
            for name in ("resizes", "spared_gpu_s", "spared_overhead_gpu_s", "spared_lost_gpu_s"):
                figures[name] = np.array([getattr(run, name) for run in runs], dtype=_TYPES[name])
        return cls(**figures)


_OF_VIEWS = (
    "first_start_time_s",
    "end_time_s",
    "queuing_delay_s",
    "attained_s",
    "preemptions",
    "failures",
    "colocated_s",
    "overhead_s",
    "lost_s",
    "profiled",
)
_TYPES: Mapping[str, Any] = {
    **dict.fromkeys((field.name for field in fields(ScheduleColumns)), np.float64),
    **dict.fromkeys(("preemptions", "failures", "resizes"), np.int64),
    **dict.fromkeys(("cancelled", "colocated", "profiled", "ended_in_profiling"), np.bool_),
}


def job_rows(jobs: WorkloadColumns, schedule: ScheduleColumns) -> "pd.DataFrame":
    """Make the table of jobs that left the cluster, completed or withdrawn; times are in s.

    `submit_time_s` counts from second 0. `duration_s` is the true run time, alone and undisturbed, and
    `estimated_duration_s` what the policy knew; the rest is of `schedule`. `jct_s` is NaN for a job that
    its virtual cluster has outgrown. A CPU job has 0 `gpus`. A `withdrawn` job never ran in its log;
    `would_have_started`: it left when the policy would have started it.
    """
    import pandas as pd

    ended = ~np.isnan(schedule.end_time_s)
    cancelled = schedule.column("cancelled")
    return pd.DataFrame(
        {
            "job_id": jobs.job_id.tolist() if isinstance(jobs.job_id, np.ndarray) else jobs.job_id,
            "virtual_cluster": jobs.virtual_cluster.array(),
            "user": jobs.user.array(),
            "gpus": _shared(jobs.gpus),
            "state": Texts(np.where(cancelled, 1, np.where(ended, 0, 2)), _STATES).array(),
            "submit_time_s": _shared(jobs.submit_time_s),
            "duration_s": _shared(jobs.duration_s),
            "estimated_duration_s": _shared(jobs.estimated_duration_s),
            "first_start_time_s": schedule.first_start_time_s,
            "end_time_s": schedule.end_time_s,
            "queuing_delay_s": schedule.queuing_delay_s,
            "jct_s": schedule.end_time_s - jobs.submit_time_s,
            "preemptions": schedule.column("preemptions"),
            "failures": schedule.column("failures"),
            "colocated": schedule.column("colocated"),
            "colocated_s": schedule.column("colocated_s"),
            "overhead_s": schedule.column("overhead_s"),
            "lost_s": schedule.column("lost_s"),
            "profiled": schedule.column("profiled"),
            "ended_in_profiling": schedule.column("ended_in_profiling"),
            "resizes": schedule.column("resizes"),
            "withdrawn": _shared(jobs.withdrawn),
            "would_have_started": schedule.end_time_s < jobs.cancel_time_s,
        },
        copy=False,  # a million jobs' columns are not held twice
    )


_STATES = (RunState.COMPLETED.value, RunState.CANCELLED.value, RunState.PENDING.value)


def _shared(column: NDArray[Any]) -> NDArray[Any]:
    """Return a column that the table has in common with the workload: it is never written into there."""
    view = column.view()
    view.flags.writeable = False
    return view


def schedule_of(
    jobs: WorkloadColumns, schedule: ScheduleColumns, *, mean_gpus: Callable[[float], float]
) -> tuple["pd.DataFrame", dict[str, Any]]:
    """Return the table of all jobs, and the figures of merit of the schedule.

    `mean_gpus` tells how many GPUs the cluster has had on average until a moment (s). All are of the jobs
    that count.
    """
    table = job_rows(jobs, schedule)
    # Colocated jobs hold their GPUs together: each second of the pair counts once.
    held_gpu_s = _sum(jobs.gpus * (schedule.attained_s - schedule.column("colocated_s") / 2))
    ended = ~np.isnan(schedule.end_time_s)
    on_cpus = jobs.gpus == 0
    replayed = rows_of(table, ended & ~on_cpus)
    held_gpu_s -= _sum(schedule.spared_gpu_s)
    until_s = float(replayed["end_time_s"].max()) if len(replayed) else 0.0
    figures = schedule_summary(replayed, total_gpus=mean_gpus(until_s), held_gpu_s=held_gpu_s)
    # These are counted with all GPUs that a job asks for.
    figures["overhead_gpu_s"] -= _sum(schedule.spared_overhead_gpu_s)
    figures["lost_gpu_s"] -= _sum(schedule.spared_lost_gpu_s)
    return table, {
        **figures,
        "resizes": int(schedule.column("resizes").sum()),
        "timed_out_jobs": int(jobs.timed_out.sum()),
        "outgrown_jobs": int((~ended & ~on_cpus).sum()),
        "cpu_jobs": int(on_cpus.sum()),
        "cpu_jobs_mean_queuing_delay_s": mean(schedule.queuing_delay_s[on_cpus]),
        "node_failures_suffered": int(schedule.column("failures").sum()),
    }


def _sum(values: Floats | None) -> float:
    """Add one by one, as the figures always were: NumPy adds pairwise, and the last digit differs."""
    return 0.0 if values is None else float(sum(values.tolist()))
