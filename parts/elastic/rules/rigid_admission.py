"""Which jobs start where every job runs on all of its GPUs or not at all, and is never stopped.

The rules are those of `whole_shares`. Waiting jobs are kept by class and demand, so that a decision costs
what the classes and the different demands cost, however many jobs wait.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from heapq import merge
from math import inf
from operator import attrgetter
from typing import Generic, Protocol, TypeVar

from parts.elastic.rules.whole_shares import Claimant, class_budgets, idle_heads

SWEPT = 256  # popped jobs are swept out of a part when they are more than this and than half of it


class Waiting(Claimant, Protocol):
    """A job that waits for all of its GPUs, which are its minimum."""

    @property
    def submit_time_s(self) -> float:
        """When it was submitted."""

    @property
    def service_s(self) -> float:
        """Its work (s on one GPU), as estimated."""

    @property
    def size_class(self) -> int:
        """The class that it waits in."""


W = TypeVar("W", bound=Waiting)
_by_index: Callable[[Waiting], int] = attrgetter("index")


class WaitingLine(Generic[W]):
    """Waiting jobs by class and demand, in the order of submission.

    A copy shares the jobs: it may be popped from as long as nothing is added to the original.
    """

    __slots__ = ("_parts", "asked")

    def __init__(self, classes: int) -> None:
        # By class and demand: the jobs, and how many of them have been popped.
        self._parts: list[dict[int, tuple[list[W], int]]] = [{} for _ in range(classes)]
        self.asked = [0] * classes  # GPUs, together

    def __iter__(self) -> Iterator[W]:
        """Iterate in the order of submission."""
        parts = (part for parts in self._parts for part in parts.values())
        return merge(*(jobs[popped:] for jobs, popped in parts), key=_by_index)

    def copy(self) -> "WaitingLine[W]":
        """Return a line that may be popped from while the original stands still."""
        other: WaitingLine[W] = WaitingLine(0)
        other._parts = [parts.copy() for parts in self._parts]
        other.asked = self.asked.copy()
        return other

    def add(self, job: W) -> None:
        """Put a job in its place; most come after all others."""
        parts = self._parts[job.size_class]
        jobs, popped = parts.get(job.min_gpus, ([], 0))
        if jobs and jobs[-1].index > job.index:
            jobs.insert(bisect_left(jobs, job.index, lo=popped, key=_by_index), job)
        else:
            jobs.append(job)
        if popped > SWEPT and popped > len(jobs) / 2:
            del jobs[:popped]
            popped = 0
        parts[job.min_gpus] = jobs, popped
        self.asked[job.size_class] += job.min_gpus

    def keep(self, wanted: Callable[[W], bool]) -> None:
        """Take out all jobs but those that are wanted."""
        for at, parts in enumerate(self._parts):
            for gpus, (jobs, popped) in list(parts.items()):
                kept = [job for job in jobs[popped:] if wanted(job)]
                self.asked[at] -= gpus * (len(jobs) - popped - len(kept))
                if kept:
                    parts[gpus] = kept, 0
                else:
                    del parts[gpus]

    def least(self) -> float:
        """The fewest GPUs that any job asks for."""
        return min((gpus for parts in self._parts for gpus in parts), default=inf)

    def first(self, size_class: int, most_gpus: float) -> W | None:
        """Return the first job of a class that asks for at most so many GPUs."""
        first: W | None = None
        for gpus, (jobs, popped) in self._parts[size_class].items():
            if gpus <= most_gpus:
                job = jobs[popped]
                if first is None or job.index < first.index:
                    first = job
        return first

    def pop(self, job: W) -> W:
        """Take out a job, the first of its class and demand, and return it."""
        parts = self._parts[job.size_class]
        jobs, popped = parts[job.min_gpus]
        if popped + 1 == len(jobs):
            del parts[job.min_gpus]
        else:
            parts[job.min_gpus] = jobs, popped + 1
        self.asked[job.size_class] -= job.min_gpus
        return job


def admit(
    shares: Sequence[float], held: Sequence[int], line: WaitingLine[W], gpus: int, now_s: float
) -> list[W]:
    """Pop the jobs that start now, and return them.

    `shares` are the classes' parts of a pool of `gpus` by water-filling, `held` the GPUs that they hold.
    """
    own = list(held)
    heads = [line.first(at, inf) for at in range(len(own))]
    budgets, kept_out = class_budgets(tuple(shares), tuple(held), idle_heads(held, heads), gpus)
    barrier: float = inf
    for at in kept_out:
        head = heads[at]
        if head and (now_s - head.submit_time_s) * min(shares[at], head.min_gpus) >= head.service_s:
            barrier = min(barrier, head.index)
    admitted: list[W] = []
    for at, budget in enumerate(budgets):
        job = heads[at]
        while job and own[at] + job.min_gpus <= budget and job.index <= barrier:
            own[at] += job.min_gpus
            admitted.append(line.pop(job))
            job = heads[at] = line.first(at, inf)
    free_gpus = gpus - sum(own)
    if not free_gpus or not any(heads):
        return admitted
    for at in sorted(range(len(own)), key=lambda at: (own[at] / shares[at] if shares[at] else inf, at)):
        while free_gpus and (job := line.first(at, free_gpus)) and job.index <= barrier:
            free_gpus -= job.min_gpus
            admitted.append(line.pop(job))
    return admitted
