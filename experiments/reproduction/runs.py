"""The simulations of an evaluation: each named by what it depends on, each done once, over processes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from experiments.reproduction.observing import Activity, ActivityRecorder
from foundation.errors import LucidError
from foundation.progress import Progress, silent
from foundation.worker_processes import over_processes
from simulator.cluster.spec import ClusterSpec
from simulator.replay import simulate
from simulator.results.metrics import SHORT_JOB_S
from simulator.scenario.scenario import Scenario
from simulator.workload.colocation import ColocationModel
from simulator.workload.forecast import naive_forecast
from simulator.workload.job import Job, JobProfile
from simulator.workload.workload import Workload

Floats = NDArray[np.float64]
TRACE = "trace"  # the name of the trace's own workload and cluster
QUANTILES = tuple(float(percent) for percent in np.arange(0.0, 100.5, 0.5))  # of the JCT, in percent


@dataclass(frozen=True)
class ReproductionRun:
    """One simulation: a policy with settings on a workload, with beliefs and profiles by name.

    `estimates` and `profiles` name entries of `Materials`; "" leaves the workload's own. `forecast`: whether
    the policy sees a naive, causal throughput forecast.
    """

    policy: str
    settings: tuple[tuple[str, Any], ...] = ()
    workload: str = TRACE
    estimates: str = ""
    profiles: str = ""
    forecast: bool = False

    @property
    def label(self) -> str:
        """The policy and what was changed."""
        changed = ", ".join(f"{name}={value}" for name, value in self.settings)
        return f"{self.policy} ({changed})" if changed else self.policy


@dataclass(frozen=True)
class Materials:
    """What runs are made of; `estimates` and `profiles` hold one value a job of the workload `TRACE`."""

    workloads: Mapping[str, Workload]
    clusters: Mapping[str, ClusterSpec]
    estimates: Mapping[str, Floats]
    profiles: Mapping[str, tuple[JobProfile | None, ...]]
    colocation: ColocationModel

    def workload_of(self, run: ReproductionRun) -> Workload:
        """Return the jobs with the beliefs and profiles of a run."""
        workload = self.workloads[run.workload]
        if run.profiles:
            workload = workload_with_profiles(workload, self.profiles[run.profiles])
        return workload.with_estimates(self.estimates[run.estimates]) if run.estimates else workload

    def scenario_of(self, run: ReproductionRun) -> Scenario:
        """Return what a run replays."""
        workload = self.workload_of(run)
        forecast = naive_forecast(workload) if run.forecast else None
        cluster = self.clusters[run.workload]
        return Scenario(workload, cluster, colocation=self.colocation, forecast=forecast)


@dataclass(frozen=True)
class Outcome:
    """What is kept of a run. `failed` says why a policy could not replay; then the rest is empty.

    `by_vc`: virtual_cluster, jobs, mean_queuing_delay_s. `jct_s`: the JCT at QUANTILES. `short_jobs_waiting`:
    jobs of at most SHORT_JOB_S that waited for longer than that.
    """

    run: ReproductionRun
    summary: Mapping[str, Any]
    by_vc: pd.DataFrame
    jct_s: Floats
    activity: Activity | None
    short_jobs_waiting: int = 0
    failed: str = ""


def workload_with_profiles(workload: Workload, profiles: Sequence[JobProfile | None]) -> Workload:
    """Return the same jobs with other profiles, one a job.

    What a job runs is what recurs: its template becomes the profile's job type.
    """
    return replace(
        workload,
        jobs=tuple(_with_profile(job, profile) for job, profile in zip(workload.jobs, profiles, strict=True)),
    )


def _with_profile(job: Job, profile: JobProfile | None) -> Job:
    if profile is None or profile.job_type is None:
        return replace(job, profile=profile)
    return replace(job, profile=profile, template=profile.job_type)


def measure(materials: Materials, run: ReproductionRun) -> Outcome:
    """Simulate one run and keep its figures."""
    watching = ActivityRecorder()
    try:
        scenario = materials.scenario_of(run)
        result = simulate(scenario, run.policy, settings=dict(run.settings), recorder=watching)
    except LucidError as error:
        return Outcome(run, {}, pd.DataFrame(), np.empty(0), None, failed=str(error))
    jobs = result.jobs
    by_vc = (
        jobs.groupby("virtual_cluster", sort=True)["queuing_delay_s"]
        .agg(jobs="size", mean_queuing_delay_s="mean")
        .reset_index()
    )
    jct_s = np.percentile(jobs["jct_s"].to_numpy(), QUANTILES)
    short = (jobs["duration_s"] <= SHORT_JOB_S) & (jobs["queuing_delay_s"] > SHORT_JOB_S)
    return Outcome(run, dict(result.summary), by_vc, jct_s, watching.activity(), int(short.sum()))


def execute(
    materials: Materials, runs: Sequence[ReproductionRun], *, workers: int = 1, progress: Progress = silent
) -> dict[ReproductionRun, Outcome]:
    """Do each distinct run once, over `workers` processes; the outcome does not depend on their number."""
    todo = list(dict.fromkeys(runs))
    return over_processes(measure, materials, todo, workers=workers, what="simulations", progress=progress)
