"""Whose turn it is where every job runs on all of its GPUs or not at all, and is never stopped.

The rules are those of `whole_shares`. Who waits is kept by class and demand, so that a decision costs what
the classes and the different demands cost, however many jobs wait.
"""

from collections.abc import Sequence
from math import inf
from typing import Protocol, TypeVar

from simulator.elastic.rules.whole_shares import Claimant, class_budgets, idle_heads


class Waiting(Claimant, Protocol):
    """A job that waits for all of its GPUs, which are its minimum."""

    @property
    def submit_time_s(self) -> float:
        """When it was submitted."""

    @property
    def service_s(self) -> float:
        """Its work (s on one GPU), as believed."""

    @property
    def size_class(self) -> int:
        """The class that it waits in."""


W = TypeVar("W", bound=Waiting)


class Line(Protocol[W]):
    """Who waits."""

    def first(self, size_class: int, most_gpus: float) -> W | None:
        """Return the first of a class that asks for so few GPUs."""

    def taken(self, job: W) -> W:
        """Take out the first of its class and demand."""


def turns(shares: Sequence[float], held: Sequence[int], line: Line[W], gpus: int, now_s: float) -> list[W]:
    """Take those out of the line who start now, and return them.

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
    given: list[W] = []
    for at, budget in enumerate(budgets):
        job = heads[at]
        while job and own[at] + job.min_gpus <= budget and job.index <= barrier:
            own[at] += job.min_gpus
            given.append(line.taken(job))
            job = heads[at] = line.first(at, inf)
    left = gpus - sum(own)
    if not left or not any(heads):
        return given
    for at in sorted(range(len(own)), key=lambda at: (own[at] / shares[at] if shares[at] else inf, at)):
        while left and (job := line.first(at, left)) and job.index <= barrier:
            left -= job.min_gpus
            given.append(line.taken(job))
    return given
