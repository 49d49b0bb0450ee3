"""How far run times end beyond what was said of them, when some have not ended: hazards of residuals by bin.

A residual is by how much a log run time exceeds a quantile that was said of it. A job that still runs has
none, but has passed some of the bins: it counts among those at risk there, as in the estimate of Kaplan and
Meier (J. Am. Stat. Assoc. 53, 1958). A bin's hazard is the share of those at risk that ended in it; where few
were, it is drawn to another hazard by PRIOR_JOBS.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LEVELS = (0.5, 0.9)
BINS = 64
BIN_WIDTH = 0.25  # of log run time
# Zero lies in the middle of a bin: what is said exactly right moves no median.
LOWEST = -0.5 * (BINS - 1) * BIN_WIDTH
# So many jobs at risk speak for a hazard as loudly as what it is drawn to.
PRIOR_JOBS = 15.0
# Run times below this are not told apart.
SHORTEST_S = 1.0
SHAPE = (len(LEVELS), BINS)
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
    scale 1 whose quantiles of LEVELS lie there.
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
    at_risk = np.cumsum((ended + passed)[..., ::-1], axis=-1)[..., ::-1]
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
