"""Profiling as if it took no time, for `--rules lucid-artifact`: a stage that is played before all others.

The Lucid artifact's simulator plays its profiler to the end first: fewest GPUs first, in order of submission,
stop at the first that does not fit. A job that ends there is done. All others then appear in their clusters
at their submission, with all of their work to do, whether or not the profiler would have let them go by then;
only the time for which they waited for the profiler is added to their pending time.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from time import process_time
from typing import Any

import numpy as np
import pandas as pd

from simulator.actions import Action
from simulator.cluster.spec import ClusterSpec
from simulator.engine.simulation import Simulation
from simulator.job_view import JobView
from simulator.policy import Policy, start_from_front
from simulator.results.metrics import schedule_summary
from simulator.results.result import ScheduleColumns, SimulationResult, job_rows
from simulator.scenario.rules import Rules
from simulator.scenario.scenario import Scenario
from simulator.snapshot import Snapshot
from simulator.stages.profiler import PROFILER, ProfilerSettings
from simulator.workload.columns import WorkloadColumns
from simulator.workload.workload import Workload


class _FewestGpusFirst(Policy):
    """The profiler's order on its own."""

    def priority(self, job: JobView) -> int:
        return job.gpus

    def decide(self, snapshot: Snapshot) -> Sequence[Action]:
        return [action for pool in snapshot.changed for action in start_from_front(pool)]


class FreeProfiling:
    """The profiler's stage of a workload: `workload` and `cluster` are what it leaves for later.

    Its nodes come from one virtual cluster, the largest. Jobs of at most `profiling_max_gpus` are profiled;
    those of at most `profiling_limit_s` end there.
    """

    def __init__(
        self, workload: Workload, cluster: ClusterSpec, settings: ProfilerSettings, rules: Rules
    ) -> None:
        began = process_time()
        workload = workload.that_fit(cluster)
        self.whole = workload
        self._whole_cluster = cluster
        self.nodes, self.cluster = _set_aside(cluster, workload, settings.profiling_nodes)
        max_gpus = min(settings.profiling_max_gpus, self.nodes * cluster.gpus_per_node)
        limit_s = settings.profiling_limit_s
        profiled = [i for i, job in enumerate(workload.jobs) if 0 < job.gpus <= max_gpus]
        self.profiled = frozenset(profiled)
        runs = replace(
            workload,
            jobs=tuple(
                replace(
                    workload.jobs[i],
                    virtual_cluster=PROFILER,
                    order=i,
                    duration_s=min(limit_s, workload.jobs[i].duration_s),
                    cancel_time_s=None,
                    withdrawn=False,
                    phase=None,
                )
                for i in profiled
            ),
            rows=None,
        )
        self._simulation = Simulation(
            Scenario(runs, ClusterSpec({PROFILER: max(1, self.nodes)}, cluster.gpus_per_node), rules=rules),
            _FewestGpusFirst(),
            name=PROFILER,
        )
        self._simulation.run()
        self._cpu_s = process_time() - began
        # Position in the whole workload -> the profiling run.
        self._runs = dict(zip(profiled, self._simulation.jobs, strict=True))
        for view in self._simulation.jobs:
            view.profiled = True
        self.ended = frozenset(i for i in profiled if workload.jobs[i].duration_s <= limit_s)
        later = [i for i in range(len(workload.jobs)) if i not in self.ended]
        self._later = later
        self.workload = replace(
            workload,
            jobs=tuple(workload.jobs[i] for i in later),
            rows=None if workload.rows is None else workload.rows[later],
        )

    def mark(self, views: Iterable[JobView]) -> None:
        """Note on the jobs of the later simulation what is known of them from the start."""
        for i, view in zip(self._later, views, strict=True):
            view.profiled = i in self.profiled

    def joined(self, later: SimulationResult) -> SimulationResult:
        """Return the schedule of all jobs, of this stage and of the simulation that came after it.

        A job's first start is the one in its virtual cluster, unless it ended in the profiler.
        """
        jobs = later.jobs.copy()
        held_gpu_s = float(_held_gpu_s(jobs).sum())
        waited_s = np.zeros(len(jobs))
        lost_s = np.zeros(len(jobs))
        for row, i in enumerate(self._later):
            run = self._runs.get(i)
            if run is not None:
                waited_s[row] = run.queuing_delay_s
                lost_s[row] = run.attained_s
        jobs["queuing_delay_s"] += waited_s
        jobs["lost_s"] += lost_s
        ended = sorted(self.ended)
        runs = [self._runs[i] for i in ended]
        early = job_rows(
            WorkloadColumns.of([run.job for run in runs]),
            ScheduleColumns.of(runs, {run.index for run in runs}),
        )
        early["virtual_cluster"] = [self.whole.jobs[i].virtual_cluster for i in ended]
        held_gpu_s += sum(run.gpus * run.attained_s for run in self._runs.values())
        rows = pd.concat([jobs, early], ignore_index=True) if len(early) else jobs
        rows = rows.iloc[np.argsort([*self._later, *ended], kind="stable")].reset_index(drop=True)
        summary = self._summary(rows, later.summary, held_gpu_s)
        return replace(later, jobs=rows, summary=summary)

    def _summary(self, rows: pd.DataFrame, later: Mapping[str, Any], held_gpu_s: float) -> dict[str, Any]:
        replayed = rows[rows["end_time_s"].notna() & (rows["gpus"] > 0)]
        total_gpus = self._whole_cluster.total_gpus
        cpu_s = later["cpu_s"] + self._cpu_s
        return {
            **later,
            **schedule_summary(replayed, total_gpus=total_gpus, held_gpu_s=held_gpu_s),
            "profiling_nodes": self.nodes,
            "decisions": later["decisions"] + self._simulation.decisions,
            "cpu_s": cpu_s,
            "jobs_per_cpu_s": len(rows) / cpu_s if cpu_s > 0 else 0.0,
        }


def _held_gpu_s(jobs: pd.DataFrame) -> "pd.Series[float]":
    """For how long each job held its GPUs, a pair's time counted once."""
    return jobs["gpus"] * (jobs["jct_s"] - jobs["queuing_delay_s"] - jobs["colocated_s"] / 2)


def _set_aside(cluster: ClusterSpec, workload: Workload, nodes: int) -> tuple[int, ClusterSpec]:
    """Take the profiler's nodes from the largest virtual cluster, as many as its largest job leaves."""
    size = cluster.gpus_per_node
    left = dict(cluster.virtual_clusters)
    donor = max(left, key=left.__getitem__)
    largest = max((job.gpus for job in workload.jobs if job.virtual_cluster == donor), default=0)
    taken = max(0, min(nodes, left[donor] - max(1, -(-largest // size))))
    left[donor] -= taken
    return taken, replace(cluster, virtual_clusters=left)
