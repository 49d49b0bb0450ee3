"""Table 3: the small traces of the paper's testbed (4 nodes, 32 GPUs), simulated.

The paper sampled 100 jobs of Venus that are all there at the beginning (static) and 120 that arrive at random
(continuous); it does not publish the samples. Ours come from the given trace, by rules that are stated here.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from experiments.reproduction import published
from experiments.reproduction.runs import TRACE, Outcome, ReproductionRun
from experiments.reproduction.sections import HOUR_S, Section, name_of, not_measured
from experiments.reproduction.study import BASE, Study, figure_of
from foundation.markdown import number
from simulator.cluster.spec import ClusterSpec
from simulator.workload.job import Job
from simulator.workload.workload import Workload

STATIC, CONTINUOUS = "static", "continuous"
TESTBED = ClusterSpec({"testbed": 4}, 8)
STATIC_JOBS, CONTINUOUS_JOBS = 100, 120
MOST_GPUS = 8
SHORTEST_S, LONGEST_S = 600.0, 12 * HOUR_S  # jobs that an experiment of half a day can hold
CONTINUOUS_LOAD = 1.2  # GPU time asked for / GPU time there is while jobs arrive
TITLE = "Table 3: the testbed's traces, simulated"
# The paper profiles for at most 60 s there; one of four nodes is the profiler.
_LUCID: Mapping[str, Any] = {
    "profiling_limit_s": 60.0,
    "profiling_nodes": 1,
    "profiling_share_max": 0.25,
}


def add_testbed(study: Study) -> Study:
    """Return the study with both small traces among its materials, where the trace has enough jobs."""
    pool = _candidates(study)
    if len(pool) < CONTINUOUS_JOBS:
        return study
    random = np.random.default_rng([study.seed, 3])
    materials = study.materials
    workloads = {
        **materials.workloads,
        STATIC: _static(pool, random),
        CONTINUOUS: _continuous(pool, random),
    }
    clusters = {**materials.clusters, STATIC: TESTBED, CONTINUOUS: TESTBED}
    return replace(study, materials=replace(materials, workloads=workloads, clusters=clusters))


def testbed_runs(study: Study) -> list[ReproductionRun]:
    """The paper's four policies on both traces."""
    if STATIC not in study.materials.workloads:
        return []
    return [_run(policy, trace) for policy in _policies(study) for trace in (STATIC, CONTINUOUS)]


def testbed_sections(study: Study, outcomes: Mapping[ReproductionRun, Outcome]) -> list[Section]:
    """Makespan of the static trace, average JCT of the continuous one."""
    if STATIC not in study.materials.workloads:
        reason = (
            f"the trace has fewer than {CONTINUOUS_JOBS} jobs of at most {MOST_GPUS} GPUs that run from "
            f"{SHORTEST_S:g} s to {LONGEST_S / HOUR_S:g} h"
        )
        return [not_measured("table3_testbed", TITLE, reason)]
    rows, shown = [], []
    for policy in _policies(study):
        line = {"policy": name_of(policy)}
        for trace, measure, words, paper in (
            (STATIC, "makespan_s", "static: makespan, h", published.TABLE_3_STATIC_MAKESPAN_H[policy]),
            (CONTINUOUS, "mean_jct_s", "continuous: mean JCT, h", published.TABLE_3_CONTINUOUS_JCT_H[policy]),
        ):
            ours = figure_of(outcomes[_run(policy, trace)], measure)
            rows.append(
                {
                    "policy": policy,
                    "trace": trace,
                    "measure": measure,
                    "ours_s": ours,
                    "published_physical_s": paper[0] * HOUR_S,
                    "published_simulation_s": paper[1] * HOUR_S,
                }
            )
            line[words] = number(None if ours is None else ours / HOUR_S)
            line[f"{trace}: paper, physical"] = number(paper[0])
            line[f"{trace}: paper, simulated"] = number(paper[1])
        shown.append(line)
    return [
        Section(
            "table3_testbed",
            TITLE,
            pd.DataFrame(rows),
            pd.DataFrame(shown),
            (
                (
                    "Nothing here ran on hardware. The paper's samples are not public: ours are "
                    f"{STATIC_JOBS} and {CONTINUOUS_JOBS} jobs of this trace of at most {MOST_GPUS} GPUs "
                    f"and {SHORTEST_S:g} s to {LONGEST_S / HOUR_S:g} h (seed {study.seed}), the latter with "
                    f"a preference for long ones and random arrivals that ask for {CONTINUOUS_LOAD:g} times "
                    "the testbed. Only the order of the policies can be compared."
                ),
            ),
        )
    ]


def _policies(study: Study) -> list[str]:
    return [policy for policy in published.TABLE_3_STATIC_MAKESPAN_H if policy in study.policies]


def _run(policy: str, trace: str) -> ReproductionRun:
    settings = tuple(sorted(_LUCID.items())) if policy == "lucid" else ()
    return ReproductionRun(policy, settings, trace)


def _candidates(study: Study) -> list[Job]:
    """The trace's jobs that fit the testbed and half a day, as the end-to-end evaluation knows them."""
    run = ReproductionRun("", (), TRACE, study.beliefs.default, BASE)
    jobs = study.materials.workload_of(run).jobs
    return [job for job in jobs if 1 <= job.gpus <= MOST_GPUS and SHORTEST_S <= job.duration_s <= LONGEST_S]


def _static(pool: list[Job], random: np.random.Generator) -> Workload:
    chosen = random.choice(len(pool), STATIC_JOBS, replace=False)
    return _workload([pool[i] for i in chosen], np.zeros(STATIC_JOBS))


def _continuous(pool: list[Job], random: np.random.Generator) -> Workload:
    weight = np.sqrt([job.duration_s for job in pool])
    chosen = random.choice(len(pool), CONTINUOUS_JOBS, replace=False, p=weight / weight.sum())
    jobs = [pool[i] for i in chosen]
    asked_s = sum(job.gpus * job.duration_s for job in jobs) / TESTBED.total_gpus
    gaps = random.exponential(asked_s / CONTINUOUS_LOAD / CONTINUOUS_JOBS, CONTINUOUS_JOBS)
    gaps[0] = 0.0
    return _workload(jobs, np.floor(np.cumsum(gaps)))


def _workload(jobs: list[Job], submit_s: "np.ndarray[Any, np.dtype[np.float64]]") -> Workload:
    return Workload(
        tuple(
            replace(job, virtual_cluster="testbed", submit_time_s=float(submit_s[i]), order=i)
            for i, job in enumerate(jobs)
        ),
        {},
    )
