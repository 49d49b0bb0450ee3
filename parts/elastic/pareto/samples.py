"""Samples of a collected workload, to try a configuration on (PCS, section 3.3, "Simulation-based Search").

A sample is as many arrivals as asked for, each a job of the log: its size, demand and speed-up stay together.
Samples are drawn in three ways in turn, because what a configuration is worth depends on how work comes:

- `resampled`: arrivals of the log, with replacement, at the times when they came. The log's busy and quiet
  weeks stay, the jobs in them change.
- `runs`: runs of consecutive jobs with the gaps between them, put together anew: bursts of hours stay.
- `shuffled`: jobs and gaps one by one, as the paper has it.

Then time is stretched so that the sample asks for as much work per second as the log does (as the authors'
artifact does): else a single long job would decide what a sample says. Samples are numbered and seeded, and
those for different purposes have nothing in common but the log.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from foundation.errors import BadInputError, UnknownNameError
from parts.elastic.active_job import rigid
from parts.elastic.allocation import Pool
from parts.elastic.engine import ElasticSimulation
from parts.elastic.pareto.objectives import STANDARD, Objective, metric_values
from parts.elastic.rules.wfq import WeightedFairQueuing, WfqConfig
from simulator.workload.job import Job
from simulator.workload.workload import Workload

Purpose = Literal["search", "held_out", "comparison"]
Way = Literal["resampled", "runs", "shuffled"]
WAYS: tuple[Way, ...] = get_args(Way)
_PURPOSES: dict[Purpose, int] = {"search": 0, "held_out": 1, "comparison": 2}
LEAST_JOBS = 20  # of a log that can be sampled
RUN_JOBS = 50  # in a run, or less where the log is short, so that samples differ
LEAST_RUNS = 4


@dataclass(frozen=True)
class SampleSpec:
    """How samples are drawn: arrivals in each, and the ways, which samples take in turn."""

    jobs: int = 2_000
    ways: tuple[Way, ...] = WAYS
    seed: int = 0

    def __post_init__(self) -> None:
        if self.jobs < 2:
            raise BadInputError(f"A sample of {self.jobs} jobs says nothing.", remedy="Use 2 or more.")
        for way in self.ways or ("",):
            if way not in WAYS:
                raise UnknownNameError("way to draw samples", way, WAYS)


def draw_sample(collected: Sequence[Job], spec: SampleSpec, purpose: Purpose, number: int) -> Workload:
    """Draw a sample, numbered from 0, of jobs that are in the order of submission.

    Ids are the arrivals' numbers. Raises BadInputError when the log is too short.
    """
    if len(collected) < LEAST_JOBS:
        raise BadInputError(
            f"The log has {len(collected)} jobs to draw samples from.",
            remedy=f"Collect {LEAST_JOBS} or more.",
        )
    submit = np.array([job.submit_time_s for job in collected])
    sizes = np.array([(job.elasticity or rigid(job)).service_s for job in collected])
    rng = np.random.default_rng([spec.seed, _PURPOSES[purpose], number])
    arriving, times = _arrivals(submit, spec.jobs, spec.ways[number % len(spec.ways)], rng)
    times -= times[0]
    if times[-1] and sizes.sum() and sizes[arriving].sum():
        wanted_s = (submit[-1] - submit[0]) * sizes[arriving].sum() / sizes.sum()
        times *= wanted_s / times[-1]
    return Workload(
        tuple(
            replace(collected[row], job_id=str(i), submit_time_s=time, order=i)
            for i, (row, time) in enumerate(zip(arriving.tolist(), times.round(6).tolist(), strict=True))
        ),
        {},
    )


def _arrivals(
    submit: NDArray[np.float64], count: int, way: Way, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return which jobs arrive and when (s, ascending); shapes (count,)."""
    jobs = len(submit)
    if way == "resampled":
        rows = np.sort(rng.integers(0, jobs, count))
        return rows, submit[rows].copy()
    gaps = np.diff(submit, prepend=submit[0])
    arrivals: Any
    if way == "shuffled":
        arrivals = rng.integers(0, jobs, count)
        between = gaps[rng.integers(1, jobs, count)]
    else:
        run = min(RUN_JOBS, jobs // LEAST_RUNS)
        starts = rng.integers(1, jobs - run + 1, -(-count // run))
        arrivals = (starts[:, None] + np.arange(run)).ravel()[:count]
        between = gaps[arrivals]
    return arrivals, np.cumsum(between)


PREDICTED_BY = "truth"  # by true run times, as PCS' authors search


def evaluate(
    config: WfqConfig, sample: Workload, pool: Pool, objectives: Iterable[Objective] = ()
) -> dict[str, float]:
    """Return the standard measures and those asked for, by name (`JCT:avg`, `Pred_err:p99`)."""
    simulation = ElasticSimulation(sample, pool, WeightedFairQueuing(config), predict=True)
    simulation.run()
    values = metric_values(simulation.ended)
    return {
        str(objective): objective.of(values[objective.metric])
        for objective in dict.fromkeys((*STANDARD, *objectives))
    }
