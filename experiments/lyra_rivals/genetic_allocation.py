"""Pollux' search: workers of each job that make the sum of speed-ups largest, found by a genetic algorithm.

Pollux (OSDI '21, section 4.2) mutates, crosses and repairs a population of allocations, and keeps the fittest
of parents and children. Here an allocation is a count of workers a job, not a matrix of jobs by nodes: where
workers go is decided after it, alike for all schemes that are compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foundation.errors import BadInputError

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]
TOLERANCE = 1e-9  # by which an allocation must be fitter to count as better


@dataclass(frozen=True, slots=True)
class ScalableDemand:
    """What one job may be given: no worker (only while it waits), or `least` to `most`, of `gpus_each` GPUs.

    `goodputs[i]` is its goodput on `least + i` workers as a multiple of that on `least`.
    """

    gpus_each: int
    least: int
    most: int
    held: int  # workers that it has now; 0: it waits
    goodputs: tuple[float, ...]

    def __post_init__(self) -> None:
        if not (self.gpus_each >= 1 and 1 <= self.least <= self.most):
            raise BadInputError(
                f"A job has {self.least} to {self.most} workers of {self.gpus_each} GPUs.",
                remedy="Use 1 or more, and no more than the most.",
            )
        if len(self.goodputs) != self.most - self.least + 1:
            raise BadInputError(
                f"{len(self.goodputs)} goodputs for {self.least} to {self.most} workers.",
                remedy="Give one for each number of workers.",
            )


@dataclass(frozen=True, slots=True)
class GeneticSearch:
    """How long and how widely to search.

    It ends after so many `generations`, or when `patience` of them in a row found nothing better.
    `restart_penalty`: the share of its goodput that a running job whose workers change counts less, as in
    Pollux' open implementation.
    """

    generations: int = 100
    population: int = 40
    patience: int = 20
    restart_penalty: float = 0.1

    def __post_init__(self) -> None:
        if self.generations < 1 or self.population < 2 or self.patience < 1:
            raise BadInputError(
                f"{self.generations} generations of {self.population} allocations, with patience for "
                f"{self.patience}.",
                remedy="Use at least 1 generation of at least 2, and patience for 1.",
            )
        if not 0 <= self.restart_penalty <= 1:
            raise BadInputError(f"restart_penalty is {self.restart_penalty!r}.", remedy="Use 0 to 1.")


def search_allocation(
    demands: Sequence[ScalableDemand], gpus: int, search: GeneticSearch, rng: np.random.Generator
) -> tuple[int, ...]:
    """Return the workers of each job, in the order of `demands`: the fittest allocation that was found.

    Running jobs keep their least at least, waiting ones get none or their least at least, and all together
    hold at most `gpus`. Raises BadInputError where the running jobs alone need more. The same generator
    state gives the same answer.
    """
    problem = _Problem(demands, gpus, search.restart_penalty)
    if not demands:
        return ()
    everything = problem.most[None, :]
    if int((everything @ problem.gpus_each)[0]) <= gpus and problem.never_falls:
        return tuple(problem.most.tolist())
    fittest = problem.search(search, rng)
    return tuple(fittest.tolist())


class _Problem:
    """The jobs as arrays, one element a job."""

    def __init__(self, demands: Sequence[ScalableDemand], gpus: int, restart_penalty: float) -> None:
        self.gpus_each = np.array([demand.gpus_each for demand in demands], dtype=np.int64)
        self.least = np.array([demand.least for demand in demands], dtype=np.int64)
        self.most = np.array([demand.most for demand in demands], dtype=np.int64)
        self.held = np.array([demand.held for demand in demands], dtype=np.int64)
        self.runs = self.held > 0
        self.jobs = np.arange(len(demands), dtype=np.int64)
        self.free = gpus - int((self.least * self.gpus_each)[self.runs].sum())
        if self.free < 0:
            raise BadInputError(
                f"The running jobs need {gpus - self.free} GPUs at least, and there are {gpus}.",
                remedy="Preempt jobs first.",
            )
        self.never_falls = all(
            demand.goodputs[-1] * (1 - restart_penalty * (0 < demand.held < demand.most))
            >= max(demand.goodputs)
            for demand in demands
        )
        self.fitness = self._fitness(demands, restart_penalty)

    def _fitness(self, demands: Sequence[ScalableDemand], restart_penalty: float) -> Floats:
        """What each count of workers of each job adds, shape (jobs, most workers + 1)."""
        widest = max((demand.most for demand in demands), default=0)
        table = np.zeros((len(demands), widest + 1))
        for row, demand in zip(table, demands, strict=True):
            row[demand.least : demand.most + 1] = demand.goodputs
            if demand.held:
                kept = row[demand.held]
                row *= 1 - restart_penalty
                row[demand.held] = kept
        return table

    def search(self, search: GeneticSearch, rng: np.random.Generator) -> Counts:
        size = search.population
        population = self._random(size, rng)
        population[0] = self.held  # what is so now is one of the first parents
        population = self._repaired(population, rng)
        fitness = self._of(population)
        best, stalled = -np.inf, 0
        for _ in range(search.generations):
            children = self._crossed(population, fitness, rng)
            self._mutate(children, rng)
            children = self._repaired(children, rng)
            together = np.concatenate((population, children))
            fitness = np.concatenate((fitness, self._of(children)))
            # Stable: of equals the parent survives.
            fittest = np.argsort(-fitness, kind="stable")[:size]
            population, fitness = together[fittest], fitness[fittest]
            stalled = 0 if fitness[0] > best + TOLERANCE else stalled + 1
            best = max(best, float(fitness[0]))
            if stalled >= search.patience:
                break
        fittest_of_all: Counts = population[0]
        return fittest_of_all

    def _of(self, population: Counts) -> Floats:
        """Return the sum of speed-ups of each allocation."""
        total: Floats = self.fitness[self.jobs, population].sum(axis=1)
        return total

    def _random(self, size: int, rng: np.random.Generator) -> Counts:
        """Draw allocations: least to most workers, and as often none for a job that waits."""
        return self._drawn(np.broadcast_to(self.jobs, (size, len(self.jobs))), rng)

    def _drawn(self, jobs: Counts, rng: np.random.Generator) -> Counts:
        """Draw a count of workers for each of these jobs."""
        least = self.least[jobs]
        drawn: Counts = rng.integers(least - ~self.runs[jobs], self.most[jobs] + 1)
        return np.where(drawn < least, 0, drawn)

    def _mutate(self, children: Counts, rng: np.random.Generator) -> None:
        """Draw one job of each allocation anew, as many as Pollux does on average."""
        each = np.arange(len(children))
        jobs = rng.integers(0, len(self.jobs), size=len(children))
        children[each, jobs] = self._drawn(jobs, rng)

    @staticmethod
    def _crossed(population: Counts, fitness: Floats, rng: np.random.Generator) -> Counts:
        """Mix two parents job by job; each is the fitter of two that were drawn."""
        size, jobs = population.shape
        drawn = rng.integers(0, size, size=(2, 2, size))
        first, second = np.where(fitness[drawn[:, 0]] >= fitness[drawn[:, 1]], drawn[:, 0], drawn[:, 1])
        bits = rng.integers(0, 256, size=(size, -(-jobs // 8)), dtype=np.uint8)
        of_first = np.unpackbits(bits, axis=1, count=jobs).view(bool)
        mixed: Counts = np.where(of_first, population[first], population[second])
        return mixed

    def _repaired(self, population: Counts, rng: np.random.Generator) -> Counts:
        """Return allocations that fit: in a random order of jobs, first what starts, then further workers."""
        order = rng.permutation(len(self.least))
        counts = population[:, order]
        least, gpus_each, runs = self.least[order], self.gpus_each[order], self.runs[order]
        starts = (counts > 0) & ~runs
        base = np.where(starts, least * gpus_each, 0)
        starts &= np.cumsum(base, axis=1) <= self.free
        room = self.free - np.where(starts, base, 0).sum(axis=1, keepdims=True)
        alive = starts | runs
        asked = np.where(alive, np.maximum(counts, least) - least, 0) * gpus_each
        before = np.cumsum(asked, axis=1) - asked
        more = np.clip(room - before, 0, asked) // gpus_each
        repaired = np.empty_like(population)
        repaired[:, order] = np.where(alive, least + more, 0)
        return repaired
