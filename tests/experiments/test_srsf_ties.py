"""SRSF between jobs with the same GPU time left: PCS' simulator tells them apart by the noise of its sums."""

import csv
import random

import pytest

from experiments.pools.quick_rules import QuickSrsf
from parts.elastic.allocation import Pool
from parts.elastic.engine import ElasticSimulation
from simulator.workload.job import Job
from simulator.workload.speed_up import Elasticity
from simulator.workload.speed_up_table import read_speed_ups, speed_ups_for
from simulator.workload.workload import Workload
from tests.reference import ROOT

JOBS, GPUS = 1_500, 18
MICROSECOND = 1_000_000


def tied_trace(seed: int, grid_s: float) -> Workload:
    """Submissions and run times lie on a grid, so that different gangs often have as much left to do."""
    draw = random.Random(seed)
    curves = speed_ups_for(64)
    submit_s, jobs = 0.0, []
    for number in range(JOBS):
        submit_s += grid_s * draw.choice((0, 0, 1, 1, 2, 5))
        gpus = draw.choice((1, 1, 1, 2, 2, 4, 8))
        curve = curves[draw.choice(sorted(name for name in curves if len(curves[name].values) > gpus))]
        duration_s = grid_s * draw.choice((1, 2, 3, 4, 6, 8, 12, 24, 48))
        elasticity = Elasticity(duration_s * curve.at(gpus), curve)
        jobs.append(
            Job(str(number), "vc", None, gpus, submit_s, duration_s, order=number, elasticity=elasticity)
        )
    return Workload(tuple(jobs), {})


def plain_starts_s(workload: Workload) -> list[float]:
    """The rule as PCS' simulator walks it: at every event all work moves on, and everybody is sorted anew.

    The sort is stable, on the order of the event before; times are whole microseconds.
    """
    left = [job.elasticity.service_s for job in workload.jobs]
    starts_s: list[float | None] = [None] * len(left)
    rates: dict[int, float] = {}
    active: list[int] = []
    submitted, now_us, end = 0, 0, None
    submit_us = [round(job.submit_time_s * MICROSECOND) for job in workload.jobs]
    while submitted < len(left) or active:
        ends_first = end is not None and (submitted == len(left) or end[0] <= submit_us[submitted])
        event_us = end[0] if ends_first else submit_us[submitted]
        for at, rate in rates.items():
            left[at] -= rate * ((event_us - now_us) / MICROSECOND)
        now_us = event_us
        if ends_first:
            active.remove(end[1])
        else:
            active.append(submitted)
            submitted += 1

        def gpu_time_s(at: int) -> float:
            job = workload.jobs[at]
            return job.gpus * left[at] / job.elasticity.speed_up.at(job.gpus)

        active.sort(key=gpu_time_s)
        free, rates, end = GPUS, {}, None
        for at in active:
            gpus = min(free, workload.jobs[at].gpus)
            free -= gpus
            if not gpus:
                continue
            rates[at] = workload.jobs[at].elasticity.speed_up.at(gpus)
            if starts_s[at] is None:
                starts_s[at] = now_us / MICROSECOND
            end_us = now_us + round(left[at] / rates[at] * MICROSECOND)
            if end is None or end_us < end[0]:
                end = (end_us, at)
    return starts_s


@pytest.mark.parametrize(("seed", "grid_s"), [(0, 60.0), (1, 7.5), (2, 60.0)])
def test_equal_jobs_start_in_the_order_of_the_reference(seed: int, grid_s: float) -> None:
    workload = tied_trace(seed, grid_s)
    simulation = ElasticSimulation(workload, Pool(GPUS), QuickSrsf())
    simulation.run()
    ours_s = {job.index: job.first_start_time_s for job in simulation.ended}
    assert ours_s == pytest.approx(dict(enumerate(plain_starts_s(workload))), abs=2e-6)


@pytest.mark.reference
def test_speed_ups_equal_the_references_to_the_last_digit() -> None:
    """Jobs of a trace often have the same GPU time left; a unit in the last place of a curve swaps them."""
    path = ROOT / "reference" / "pcs" / "model_speedups.csv"
    ours, theirs = speed_ups_for(64), read_speed_ups(path)
    rows = list(csv.DictReader(path.open()))
    assert set(ours) <= {row["model"] for row in rows} == set(theirs)
    for row in rows:
        for curves in (ours, theirs):
            if row["model"] in curves:
                assert curves[row["model"]].values[int(row["gpus"])] == float(row["speedup"]), row
