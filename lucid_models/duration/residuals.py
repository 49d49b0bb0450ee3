"""Residuals of run times, some of them censored, as hazards by bin.

A residual is by how much a log run time exceeds a quantile that was predicted for it. A job that still runs
has none, but has passed some of the bins: it counts among those at risk there, as in the estimate of Kaplan
and Meier (J. Am. Stat. Assoc. 53, 1958). A bin's hazard is the share of those at risk that ended in it; where
few were, it is drawn to another hazard by PRIOR_JOBS.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LEVELS = (0.5, 0.9)
BINS = 64
BIN_WIDTH = 0.25  # of log run time
# Zero lies in the middle of a bin: an exact prediction moves no median.
LOWEST = -0.5 * (BINS - 1) * BIN_WIDTH
# So many jobs at risk weigh as much in a hazard as the one that it is drawn to.
PRIOR_JOBS = 15.0
# Run times below this count as equal.
SHORTEST_S = 1.0
SHAPE = (len(LEVELS), BINS)
# After starts of this weight a job's own weight has fallen by the factor e.
WINDOW = 150.0
_FIRST_PLACES, _FIRST_ROWS = 8, 64
TIERS = 3  # all jobs, those of a virtual cluster, those of an owner in it
# Shifts of log run time, one of each of LEVELS. P90 that misses by four points comes right within ten
# thousand jobs; P50, the estimate that orders queues, follows at a third of that.
STEPS = (0.0003, 0.001)
# Thousands of jobs that were submitted together may all miss: no more than the factor 1.65 either way.
MOST = 0.5

Name = TypeVar("Name")
_EDGES = [LOWEST + BIN_WIDTH * place for place in range(BINS + 1)]


def place_of(residual: float) -> int:
    """The bin of a residual; the outermost bins have no outer edge."""
    return min(max(math.floor((residual - LOWEST) / BIN_WIDTH), 0), BINS - 1)


def places_passed(elapsed_s: Floats, said: Floats) -> NDArray[np.intp]:
    """The last bin that a run has passed whole, shape (jobs, levels); -1: none.

    `elapsed_s`: how long each job has run, shape (jobs,); `said`: its quantiles of log run time.
    """
    beyond = np.log(np.maximum(elapsed_s, SHORTEST_S))[:, None] - said
    places = np.clip(np.floor((beyond - LOWEST) / BIN_WIDTH), 0, BINS - 1).astype(np.intp) - 1
    places[elapsed_s < SHORTEST_S] = -1
    return places


def ends_expected(offsets: tuple[float, ...], jobs: float) -> Floats:
    """How many of so many jobs end in each bin, shape SHAPE, if `offsets` are right: logistic residuals of
    scale 1 with their quantiles of LEVELS there.
    """
    centres = np.array(offsets) - np.log(np.array(LEVELS) / (1.0 - np.array(LEVELS)))
    surviving = 1.0 / (1.0 + np.exp(np.array(_EDGES) - centres[:, None]))
    surviving[:, 0], surviving[:, -1] = 1.0, 0.0
    ends: Floats = -jobs * np.diff(surviving, axis=1)
    return ends


def hazards(ended: Floats, passed: Floats, prior: Floats, prior_jobs: float = PRIOR_JOBS) -> Floats:
    """Hazards by row and bin, from where jobs ended and from the last bins that running jobs have passed,
    shape (..., rows, BINS) each, drawn to `prior` by so many jobs.
    """
    # At risk in a bin is what ended in it or in a later one, or still runs beyond it: sums from the far end.
    at_risk = np.cumsum((ended + passed)[..., ::-1], axis=-1)[..., ::-1]
    # Hazards and not shares are drawn to the prior: a job that still runs informs the bins that it has passed
    # and leaves the prior alone beyond them.
    of_bins: Floats = (ended + prior_jobs * prior) / (at_risk + prior_jobs)
    return of_bins


def offsets_from(of_bins: Floats, levels: Sequence[float]) -> list[float]:
    """The quantile of each row's level of the residuals that have these hazards, shape (rows, BINS)."""
    # Negative, so that they rise: bisecting lists is faster than NumPy's calls for a row or two.
    surviving = np.negative(np.cumprod(1.0 - of_bins, axis=1)).tolist()
    quantiles = []
    for level, after in zip(levels, surviving, strict=True):
        left = 1.0 - level
        place = bisect_left(after, -left - 1e-12)  # rounding must not lose a quantile at an edge
        if place == BINS:
            quantiles.append(_EDGES[-1])
            continue
        before = -after[place - 1] if place else 1.0
        part = (before - left) / (before + after[place])
        quantiles.append(_EDGES[place] + BIN_WIDTH * min(part, 1.0))
    return quantiles


def quantiles_of_all(of_bins: Floats, level: float) -> Floats:
    """`offsets_from` of the hazards of many jobs, shape (jobs, BINS)."""
    surviving = np.cumprod(1.0 - of_bins, axis=1)
    left = 1.0 - level
    is_below = surviving <= left + 1e-12
    place = is_below.argmax(axis=1)
    rows = np.arange(len(place))
    before = np.where(place > 0, surviving[rows, place - 1], 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        part = (before - left) / (before - surviving[rows, place])
    found: Floats = np.array(_EDGES)[place] + BIN_WIDTH * np.minimum(part, 1.0)
    return np.where(is_below.any(axis=1), found, _EDGES[-1])


def _expected_hazards() -> Floats:
    ends = ends_expected((0.0,) * len(LEVELS), 1.0)
    at_risk = np.cumsum(ends[:, ::-1], axis=1)[:, ::-1]
    of_bins: Floats = ends / at_risk
    return of_bins


# What is believed before any job has ended: the quantiles are as said.
EXPECTED = _expected_hazards()


class ResidualCounts(Generic[Name]):
    """Residuals of the started jobs of groups, earlier starts counting ever less. Groups have names, and are
    at most `most`: the least recently seen one is forgotten for a new one.

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
        # Weights fall with what has started since, not with what has ended or with time: among jobs that
        # started together the long ones, which end later, then count as much as the short ones. Fading by
        # ends would hear of the short ones first and bias every quantile low.
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

    def copy(self) -> "ResidualCounts[Name]":
        """An independent copy."""
        twin = ResidualCounts[Name](self.most, self.levels)
        twin.places, twin._passing = dict(self.places), self._passing
        twin.ended, twin.passed, twin.clocks = self.ended.copy(), self.passed.copy(), self.clocks.copy()
        return twin

    def _weight_now(self, place: int, weight: float, clock: float) -> float:
        return weight * math.exp((clock - float(self.clocks[place])) / WINDOW)


class SlowShifts:
    """A slow shift of each quantile of log run time (`shifts`, one of each of LEVELS): what the residuals of
    started jobs miss for weeks on end.

    Those count a crowd of alike jobs as a few, hear of waiting jobs late, and are of their virtual cluster's
    last jobs. Each leaves a bias of some points. Here every ended job counts as one.
    """

    def __init__(self, shifts: Sequence[float] = (0.0,) * len(LEVELS)) -> None:
        self.shifts = tuple(shifts)

    def ended(self, calibrated: Sequence[float], logarithm: float) -> None:
        """A job ended; `calibrated`: its quantiles of log run time, with offsets and shifts in them."""
        # A quantile q moves by a step times (q - 1) where a job ended within it, by the step times q where it
        # did not: it rests where a share q ends within (quantile tracking; Angelopoulos, Candès and
        # Tibshirani, "Conformal PID Control for Time Series Prediction", NeurIPS 2023).
        self.shifts = tuple(
            [
                min(max(shift + step * (level - (logarithm <= said)), -MOST), MOST)
                for shift, step, level, said in zip(self.shifts, STEPS, LEVELS, calibrated, strict=True)
            ]
        )


@dataclass(frozen=True)
class RunningJob:
    """A started job: its quantiles as said, its weight, and of each tier the place of its group (-1: none, or
    forgotten) and that group's clock at its start.
    """

    start_s: float
    said: tuple[float, ...]
    weight: float
    places: tuple[int, ...]
    clocks: tuple[float, ...]


class RunningJobs:
    """Rows of one table: what they have passed is counted for all of them together."""

    START, WEIGHT = 0, 1
    PLACES, CLOCKS = slice(2, 2 + TIERS), slice(2 + TIERS, 2 + 2 * TIERS)
    SAID = slice(2 + 2 * TIERS, None)

    def __init__(self) -> None:
        self.job_ids: list[str] = []
        self._rows: dict[str, int] = {}
        self._table = np.empty((_FIRST_ROWS, 2 + 2 * TIERS + len(LEVELS)))

    def __len__(self) -> int:
        return len(self.job_ids)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._rows

    def add(self, job_id: str, job: RunningJob) -> None:
        """A job that has just started."""
        row = len(self.job_ids)
        if row == len(self._table):
            self._table = np.concatenate([self._table, np.empty_like(self._table)])
        self._table[row] = (job.start_s, job.weight, *job.places, *job.clocks, *job.said)
        self._rows[job_id] = row
        self.job_ids.append(job_id)

    def remove(self, job_id: str) -> RunningJob:
        """Take a job out; the last one takes its row."""
        row = self._rows.pop(job_id)
        values = self._table[row].tolist()
        last = self.job_ids.pop()
        if last != job_id:
            self._table[row] = self._table[len(self.job_ids)]
            self._rows[last] = row
            self.job_ids[row] = last
        return RunningJob(
            values[self.START],
            tuple(values[self.SAID]),
            values[self.WEIGHT],
            tuple(map(int, values[self.PLACES])),
            tuple(values[self.CLOCKS]),
        )

    def forget(self, tier: int, place: int) -> None:
        """The group that had this place in a tier is forgotten."""
        places = self._table[: len(self), self.PLACES][:, tier]
        places[places == place] = -1.0

    def count_passed(self, at_s: float, tiers: Sequence[ResidualCounts[Any]]) -> None:
        """Count anew what the running jobs have passed by `at_s` (Unix time)."""
        table = self._table[: len(self)]
        bins = places_passed(at_s - table[:, self.START], table[:, self.SAID])
        places, clocks = table[:, self.PLACES].astype(np.intp), table[:, self.CLOCKS]
        for number, tier in enumerate(tiers):
            tier.count_passed(places[:, number], table[:, self.WEIGHT], clocks[:, number], bins)

    def table(self) -> Floats:
        """A row a job, in the order of `job_ids`: the fields of RunningJob."""
        return self._table[: len(self)].copy()

    def copy(self) -> "RunningJobs":
        """An independent copy."""
        twin = RunningJobs()
        twin.job_ids, twin._rows, twin._table = list(self.job_ids), dict(self._rows), self._table.copy()
        return twin
