"""Samples, preferences and fronts: what a search draws from a log, asks for and keeps."""

from dataclasses import replace
from itertools import pairwise
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.errors import BadInputError, UnknownNameError
from parts.elastic.allocation import Pool
from parts.elastic.pareto.objectives import (
    STANDARD,
    Objective,
    covers,
    front_positions,
    hypervolume,
    preference_of,
)
from parts.elastic.pareto.samples import RUN_JOBS, WAYS, Purpose, SampleSpec, draw_sample, evaluate
from parts.elastic.rules.wfq import WfqConfig
from simulator.workload.job import Job
from simulator.workload.speed_up import Elasticity, SpeedUp
from simulator.workload.workload import Workload

FIFO = WfqConfig((inf,), (1.0,), 0.0, 0.5)


def log_of(count: int, seed: int = 0) -> list[Job]:
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.exponential(100.0, count) * rng.choice([0.2, 3.0], count))
    jobs = []
    for i, time in enumerate(times.tolist()):
        gpus, size = int(rng.choice([1, 2, 4])), float(rng.lognormal(6.0, 1.5))
        elasticity = Elasticity(size, SpeedUp.linear(gpus))
        jobs.append(Job(f"log-{i}", "all", None, gpus, time, size / gpus, order=i, elasticity=elasticity))
    return jobs


LOG = log_of(300)


def work_per_second(jobs: list[Job] | tuple[Job, ...]) -> float:
    sizes = [job.elasticity.service_s for job in jobs if job.elasticity is not None]
    return sum(sizes) / (jobs[-1].submit_time_s - jobs[0].submit_time_s)


@pytest.mark.parametrize("number", range(len(WAYS)))
def test_a_sample_is_of_the_log_and_asks_for_as_much(number: int) -> None:
    spec = SampleSpec(jobs=120)
    sample = draw_sample(LOG, spec, "search", number)
    assert len(sample) == 120
    assert [job.job_id for job in sample.jobs] == [str(i) for i in range(120)]
    assert sample.jobs[0].submit_time_s == 0
    assert all(a.submit_time_s <= b.submit_time_s for a, b in pairwise(sample.jobs))
    known = {(job.gpus, job.elasticity) for job in LOG}
    assert all((job.gpus, job.elasticity) in known for job in sample.jobs)
    assert work_per_second(sample.jobs) == pytest.approx(work_per_second(LOG), rel=1e-6)


def test_runs_keep_jobs_that_came_together() -> None:
    sample = draw_sample(LOG, SampleSpec(jobs=200, ways=("runs",)), "search", 0)
    sizes = [job.elasticity for job in LOG]
    for first in range(0, 200, RUN_JOBS):
        start = sizes.index(sample.jobs[first].elasticity)
        drawn = [job.elasticity for job in sample.jobs[first : first + RUN_JOBS]]
        assert drawn == sizes[start : start + RUN_JOBS]


def test_resampling_keeps_the_logs_busy_times() -> None:
    busy = [replace(job, submit_time_s=i * (1.0 if i < 200 else 1_000.0)) for i, job in enumerate(LOG)]
    sample = draw_sample(busy, SampleSpec(jobs=3_000, ways=("resampled",)), "search", 0)
    times = np.array([job.submit_time_s for job in sample.jobs])
    early = np.array([job.submit_time_s for job in busy])
    for share in (0.3, 0.6, 0.9):
        of_log = np.mean(early <= share * early[-1])
        assert np.mean(times <= share * times[-1]) == pytest.approx(of_log, abs=0.03)


def test_samples_depend_on_seed_purpose_and_number_only() -> None:
    spec = SampleSpec(jobs=40)
    purposes: tuple[Purpose, ...] = ("search", "held_out", "comparison")
    drawn = [draw_sample(LOG, spec, purpose, n).jobs for purpose in purposes for n in range(2)]
    assert all(a != b for i, a in enumerate(drawn) for b in drawn[:i])
    assert draw_sample(LOG, spec, "held_out", 1).jobs == drawn[3]
    assert draw_sample(LOG, SampleSpec(jobs=40, seed=1), "search", 0).jobs != drawn[0]


def test_a_log_that_is_too_short() -> None:
    with pytest.raises(BadInputError, match="19 jobs"):
        draw_sample(LOG[:19], SampleSpec(jobs=10), "search", 0)
    with pytest.raises(BadInputError, match="1 jobs"):
        SampleSpec(jobs=1)
    with pytest.raises(UnknownNameError, match="resampled, runs, shuffled"):
        SampleSpec(ways=("days",))  # type: ignore[arg-type]


def test_measures_are_those_of_the_jobs() -> None:
    """Two jobs of 100 s on one GPU, first come first served: all can be said by hand."""
    one = Elasticity(100.0, SpeedUp.linear(1))
    jobs = tuple(
        Job(str(i), "all", None, 1, time, 100.0, order=i, elasticity=one)
        for i, time in enumerate((0.0, 50.0))
    )
    found = evaluate(FIFO, Workload(jobs, {}), Pool(1), [Objective("JCT", "p75")])
    assert set(found) == {*map(str, STANDARD), "JCT:p75"}
    assert found["JCT:avg"] == 125.0  # 100 s and 150 s
    assert found["JCT:p75"] == 137.5
    assert found["Pred_err:p99"] == 0.0  # what comes later takes nothing from who came first


@pytest.mark.parametrize(
    ("stated", "error", "message"),
    [
        ([("JCT", "avg"), ("speed", "avg")], UnknownNameError, "speed.*JCT, Pred_err, unfairness"),
        ([("JCT", "avg"), ("JCT", "median")], UnknownNameError, "median.*p99, avg"),
        ([("JCT", "p101"), "Pred_err"], UnknownNameError, "p101"),
        (["JCT"], BadInputError, "two or more"),
        (["JCT", ("JCT", "avg")], BadInputError, "JCT:avg, JCT:avg"),
    ],
)
def test_a_preference_that_cannot_be(
    stated: list[str | tuple[str, str]], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        preference_of(stated)


def test_a_preference_may_repeat_a_metric() -> None:
    found = preference_of([("JCT", "avg"), "JCT:p99", Objective("unfairness")])
    assert [str(objective) for objective in found] == ["JCT:avg", "JCT:p99", "unfairness:avg"]


POINTS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12)


@pytest.mark.slow
@given(POINTS)
@settings(max_examples=60, deadline=None)
def test_the_front_covers_all_and_nobody_in_it_another(points: list[tuple[int, int, int]]) -> None:
    for seen in (points, [point[:2] for point in points]):
        front = [seen[i] for i in front_positions(seen)]
        assert all(covers(front, point) for point in seen)
        assert not any(covers([a], b) for a in front for b in front if a is not b)


@given(POINTS)
@settings(max_examples=60, deadline=None)
def test_the_hypervolume_counts_the_cells_that_points_dominate(points: list[tuple[int, int, int]]) -> None:
    cells = [(x, y, z) for x in range(6) for y in range(6) for z in range(6)]
    covered = sum(covers(points, cell) for cell in cells)
    assert hypervolume(points, (6, 6, 6)) == covered
    flat = [point[:2] for point in points]
    assert hypervolume(flat, (6, 6)) == sum(covers(flat, (x, y)) for x in range(6) for y in range(6))
