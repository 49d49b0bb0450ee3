"""What finding a configuration costs (Figure 9): a simulation, and what four numbers are worth to it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf
from time import process_time

import numpy as np
import pandas as pd

from foundation.errors import BadInputError
from foundation.progress import Progress, Work
from parts.elastic.allocation import Pool
from parts.elastic.configurations import PUBLISHED
from parts.elastic.pareto.objectives import hypervolume
from parts.elastic.pareto.samples import SampleSpec, draw_sample, evaluate
from parts.elastic.pareto.size_classes import (
    InfeasibleError,
    SearchBounds,
    WfqParameters,
    class_weights,
    size_thresholds,
)
from parts.elastic.rules.wfq import WfqConfig
from simulator.workload.job import Job
from simulator.workload.speed_up import Elasticity
from simulator.workload.workload import Workload

SIMULATED_SAMPLES = (0.25, 0.5, 1.0, 2.0)  # of the jobs in a sample of the search
SIMULATED_GPUS = (64, 256, 1_024)
PARAMETER_SAMPLE = 0.5  # of them, for samples on which parameterisations are compared
PARAMETER_SEEDS = (0, 1, 2)
MOST_CLASSES = 8


def simulation_times(jobs: Sequence[Job], gpus: int, jobs_per_sample: int, seed: int) -> pd.DataFrame:
    """Time simulations with predictions (Figure 9a): `jobs`, `gpus`, `cpu_s`, and the load is the log's.

    A larger pool has its arrivals closer together.
    """
    rows = []
    for size in SIMULATED_GPUS:
        for count in (max(2, round(part * jobs_per_sample)) for part in SIMULATED_SAMPLES):
            sample = draw_sample(jobs, SampleSpec(jobs=count, seed=seed), "comparison", 0)
            closer = tuple(
                replace(job, submit_time_s=round(job.submit_time_s * gpus / size, 6)) for job in sample.jobs
            )
            began = process_time()
            evaluate(PUBLISHED["fig7-jct"], Workload(closer, {}), Pool(size))
            rows.append({"jobs": count, "gpus": size, "cpu_s": process_time() - began})
    return pd.DataFrame(rows)


def parameter_jobs(jobs_per_sample: int) -> int:
    """Return the jobs of a sample on which parameterisations are compared."""
    return max(2, round(PARAMETER_SAMPLE * jobs_per_sample))


def parameterisations(
    jobs: Sequence[Job], gpus: int, jobs_per_sample: int, evaluations: int, progress: Progress
) -> pd.DataFrame:
    """Compare drawing T, W, zeta and delta with drawing classes and weights outright (Figure 9c).

    Returns `space`, `seed`, `evaluations` and `hypervolume`: the share of the space between the best and the
    worst that either found which configurations so far dominate, on logarithms of both objectives.
    """
    found: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for seed in PARAMETER_SEEDS:
        sample = draw_sample(
            jobs, SampleSpec(jobs=parameter_jobs(jobs_per_sample), seed=seed), "comparison", 0
        )
        sizes = sorted(elastic.service_s for elastic in map(_elasticity, jobs))
        for space, configurations in (("four numbers", _by_parameters), ("outright", _outright)):
            drawn = configurations(sizes, np.random.default_rng([seed, len(space)]))
            points = found.setdefault((space, seed), [])
            for _ in range(evaluations):
                values = evaluate(next(drawn), sample, Pool(gpus))
                points.append(
                    (float(np.log(values["JCT:avg"])), float(np.log(max(values["Pred_err:avg"], 0.01))))
                )
            progress(len(found), 2 * len(PARAMETER_SEEDS), Work("parameterisations", "searches"))
    every = np.array([point for points in found.values() for point in points])
    low, high = every.min(axis=0), every.max(axis=0)
    span = np.where(high > low, high - low, 1.0)
    rows = []
    for (space, seed), points in found.items():
        scaled = [tuple((np.array(point) - low) / span) for point in points]
        for count in sorted({1, *range(10, evaluations + 1, 10), evaluations}):
            volume = hypervolume(scaled[:count], (1.0, 1.0))
            rows.append({"space": space, "seed": seed, "evaluations": count, "hypervolume": volume})
    return pd.DataFrame(rows)


def _elasticity(job: Job) -> Elasticity:
    if job.elasticity is None:
        raise BadInputError(f"Job {job.job_id!r} is rigid.", remedy="Give a log of elastic jobs.")
    return job.elasticity


def _by_parameters(sizes_s: Sequence[float], rng: np.random.Generator) -> Iterator[WfqConfig]:
    """Draw the four numbers of section 3.3, as the search's first round does."""
    bounds = SearchBounds.of(sizes_s)
    while True:
        parameters = WfqParameters(*(float(rng.uniform(low, high)) for low, high in vars(bounds).values()))
        try:
            class_weights(len(size_thresholds(sizes_s, parameters.variation_max)), parameters.weight_decay)
            yield parameters.config(sizes_s)
        except InfeasibleError:
            continue


def _outright(sizes_s: Sequence[float], rng: np.random.Generator) -> Iterator[WfqConfig]:
    """Draw how many classes, their thresholds (log-uniform over the sizes), their weights and the caps."""
    low, high = max(1.0, sizes_s[0]), sizes_s[-1]
    while True:
        classes = int(rng.integers(1, MOST_CLASSES + 1))
        bounds = sorted(set(np.exp(rng.uniform(np.log(low), np.log(high), classes - 1)).round().tolist()))
        weights = rng.dirichlet(np.ones(len(bounds) + 1))
        if weights.min() < 1e-3:
            continue
        yield WfqConfig(
            (*bounds, inf),
            tuple((weights / weights.sum()).tolist()),
            float(rng.uniform(0, 1)),
            float(rng.uniform(0.01, 0.9)),
        )
