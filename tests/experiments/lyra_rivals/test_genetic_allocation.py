"""Pollux' search: what it returns always fits, and on small cases it is the best there is."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.lyra_rivals.genetic_allocation import (
    GeneticSearch,
    ScalableDemand,
    search_allocation,
)
from foundation.errors import BadInputError

FREE = GeneticSearch(restart_penalty=0.0)


def linear(gpus_each: int, least: int, most: int, held: int = 0) -> ScalableDemand:
    return ScalableDemand(gpus_each, least, most, held, tuple(w / least for w in range(least, most + 1)))


def rng() -> np.random.Generator:
    return np.random.default_rng(3)


@st.composite
def demands(draw: st.DrawFn) -> ScalableDemand:
    least = draw(st.integers(1, 3))
    most = draw(st.integers(least, 5))
    held = draw(st.one_of(st.just(0), st.integers(least, most)))
    goodputs = [1.0]
    for _ in range(most - least):
        goodputs.append(goodputs[-1] + draw(st.floats(-0.2, 1.0)))
    return ScalableDemand(draw(st.sampled_from((1, 2, 4))), least, most, held, tuple(goodputs))


@given(st.lists(demands(), max_size=5), st.integers(0, 40))
@settings(max_examples=60, deadline=None)
def test_what_it_returns_fits_and_beats_nothing_that_brute_force_rules_out(
    jobs: list[ScalableDemand], spare_gpus: int
) -> None:
    gpus = spare_gpus + sum(job.held * job.gpus_each for job in jobs)
    given_workers = search_allocation(jobs, gpus, FREE, rng())

    def worth(workers: tuple[int, ...]) -> float:
        return sum(job.goodputs[w - job.least] for job, w in zip(jobs, workers, strict=True) if w)

    choices = [([] if job.held else [0]) + list(range(job.least, job.most + 1)) for job in jobs]
    fitting = [
        workers
        for workers in product(*choices)
        if sum(job.gpus_each * w for job, w in zip(jobs, workers, strict=True)) <= gpus
    ]
    assert given_workers in fitting
    best, now = max(map(worth, fitting)), worth(tuple(job.held for job in jobs))
    assert now - 1e-9 <= worth(given_workers) <= best + 1e-9


def test_small_cases_are_solved_exactly() -> None:
    # A job doubles on two GPUs more; the other gains half as much a GPU.
    fast, slow = linear(1, 2, 4), ScalableDemand(1, 2, 4, 0, (1.0, 1.25, 1.5))
    assert search_allocation([slow, fast], 6, FREE, rng()) == (2, 4)
    assert search_allocation([slow, fast], 8, FREE, rng()) == (4, 4)
    assert sum(search_allocation([slow, fast], 3, FREE, rng())) == 3  # only one of them can start
    assert search_allocation([], 8, FREE, rng()) == ()


def test_a_change_must_be_worth_its_penalty() -> None:
    running = ScalableDemand(1, 2, 3, 2, (1.0, 1.05))
    assert search_allocation([running], 8, GeneticSearch(restart_penalty=0.1), rng()) == (2,)
    assert search_allocation([running], 8, FREE, rng()) == (3,)


def test_the_same_seed_gives_the_same_answer() -> None:
    jobs = [linear(1 + i % 3, 1 + i % 2, 4) for i in range(30)]
    asked = GeneticSearch(generations=5)
    assert search_allocation(jobs, 60, asked, rng()) == search_allocation(jobs, 60, asked, rng())


def test_more_generations_never_find_less() -> None:
    jobs = [linear(1 + i % 3, 1 + i % 2, 6) for i in range(40)]

    def worth(generations: int) -> float:
        found = search_allocation(jobs, 60, GeneticSearch(generations=generations), rng())
        return sum(w / job.least for job, w in zip(jobs, found, strict=True))

    assert worth(1) <= worth(20) <= worth(100)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ScalableDemand(1, 3, 2, 0, ()), "3 to 2 workers"),
        (lambda: ScalableDemand(1, 1, 2, 0, (1.0,)), "1 goodputs for 1 to 2 workers"),
        (lambda: GeneticSearch(generations=0), "0 generations"),
        (lambda: GeneticSearch(patience=0), "patience for 0"),
        (lambda: GeneticSearch(restart_penalty=2.0), "restart_penalty is 2.0"),
        (lambda: search_allocation([linear(1, 4, 8, 4)], 3, FREE, rng()), "need 4 GPUs at least"),
    ],
)
def test_what_makes_no_sense_is_refused(make: object, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        make()  # type: ignore[operator]
