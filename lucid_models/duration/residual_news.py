"""What the started jobs of groups tell of residuals; earlier starts count ever less.

Weights fall with what has *started* since, not with what has ended: among the jobs that started together the
long ones, which end later, count as much as the short ones. A clock of weight takes the place of time.
"""

import math
from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from lucid_models.duration.residual_hazards import BINS, LEVELS

Floats = NDArray[np.float64]
Name = TypeVar("Name")

# After starts of this weight a job's own weight has fallen by the factor e.
WINDOW = 150.0
_FIRST_PLACES = 8


class ResidualNews(Generic[Name]):
    """Groups of jobs by name, at most `most`: the least recently seen one is forgotten for a new one.

    `places`: name -> place, the least recently seen first. By place, shape (places, levels, BINS): weights of
    jobs by the bin that they `ended` in, or last `passed` while they run; and the weight of all starts until
    now, `clocks`. The first `levels` of LEVELS are followed. There is room for places to come.
    """

    def __init__(self, most: int, levels: int = len(LEVELS)) -> None:
        self.most, self.levels = most, levels
        self.places: dict[Name, int] = {}
        self.ended = np.zeros((_FIRST_PLACES, levels, BINS))
        self.passed = np.zeros_like(self.ended)
        self.clocks = np.zeros(_FIRST_PLACES)
        self._passing = np.empty(0, dtype=np.intp)  # places of which jobs had passed some at the last look

    def see(self, name: Name) -> tuple[int, bool]:
        """Make a group the most recently seen one. Its place, and whether another group is forgotten for
        it.
        """
        place = self.places.pop(name, None)
        forgets = place is None and len(self.places) == self.most
        if forgets:
            place = self.places.pop(next(iter(self.places)))
            self.ended[place], self.passed[place], self.clocks[place] = 0.0, 0.0, 0.0
        if place is None:
            place = len(self.places)
            if place == len(self.clocks):
                self.ended, self.passed, self.clocks = (
                    np.concatenate([table, np.zeros_like(table)])
                    for table in (self.ended, self.passed, self.clocks)
                )
        self.places[name] = place
        return place, forgets

    def start(self, place: int, weight: float) -> float:
        """A job of this weight starts, and those of its group before it fade; returns the clock."""
        fading = math.exp(-weight / WINDOW)
        self.ended[place] *= fading
        self.passed[place] *= fading
        self.clocks[place] += weight
        return float(self.clocks[place])

    def end(self, place: int, bins: Sequence[int], weight: float, clock: float) -> None:
        """A job that started at this clock ended in these bins, one a level."""
        weight = self._weight_now(place, weight, clock)
        for level in range(self.levels):
            self.ended[place, level, bins[level]] += weight

    def stop(self, place: int, bins: Sequence[int], weight: float, clock: float) -> None:
        """A job that started at this clock runs no longer; it had passed these bins, -1: none."""
        weight = self._weight_now(place, weight, clock)
        passed = self.passed[place]
        for level in range(self.levels):
            if bins[level] >= 0:
                passed[level, bins[level]] = max(passed[level, bins[level]] - weight, 0.0)

    def count_passed(
        self, places: NDArray[np.intp], weights: Floats, clocks: Floats, bins: NDArray[np.intp]
    ) -> None:
        """Count anew what the running jobs have passed.

        Of each job: its group's place (-1: forgotten), weight, the group's clock at its start, shape (jobs,)
        each, and the last bins that it has passed (-1: none), shape (jobs, levels or more).
        """
        last = bins[:, : self.levels]
        job, level = ((last >= 0) & (places >= 0)[:, None]).nonzero()
        at = places[job]
        weight = weights[job] * np.exp((clocks[job] - self.clocks[at]) / WINDOW)
        self.passed[self._passing] = 0.0
        np.add.at(self.passed, (at, level, last[job, level]), weight)
        self._passing = at

    def copy(self) -> "ResidualNews[Name]":
        """An independent copy."""
        twin = ResidualNews[Name](self.most, self.levels)
        twin.places, twin._passing = dict(self.places), self._passing
        twin.ended, twin.passed, twin.clocks = self.ended.copy(), self.passed.copy(), self.clocks.copy()
        return twin

    def _weight_now(self, place: int, weight: float, clock: float) -> float:
        return weight * math.exp((clock - float(self.clocks[place])) / WINDOW)
