"""Silences that are longer than a cluster's usual ones: an outage of the recorder, or a holiday.

While one lasts, its zeros are what is known. Once it is over, it says nothing of the demand to come: what is
forecast afterwards reads its bins as unknown, so that the same time of the last days stands in for them
(features.filled), and nothing is learned from them. A silence is over when every bin of a run has brought
something: a job here and there does not end it.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from lucid_models.series.windows import Floats

RESUMED_BINS = 3  # bins in a row that brought something, after which a silence is over
USUAL_DAYS = 0.75  # of days this share has a longest silence that is usual
LONGER_THAN_USUAL = 2
SHORTEST_DAYS = 1 / 8


def usual_silence_bins(counts: Floats, day_bins: int) -> int:
    """Twice the longest silence of three days in four, at least three hours; 0 where that is a day or more:
    in so sparse a series no silence is unusual.
    """
    whole_days = _silent_bins(counts)[: counts.size // day_bins * day_bins].reshape(-1, day_bins)
    if not whole_days.size:
        return 0
    usual = int(np.quantile(whole_days.max(axis=1), USUAL_DAYS, method="higher"))
    longest = max(LONGER_THAN_USUAL * usual, int(SHORTEST_DAYS * day_bins), RESUMED_BINS)
    return longest if longest < day_bins else 0


def as_known(counts: Floats, usual_bins: int) -> Iterator[tuple[int, Floats]]:
    """Yield the series as it was known in turn: (first, values) holds for a forecast with `first`
    as its newest known bin or a later one, until the next pair.

    The bins of silences of more than `usual_bins` bins (0: of none) are NaN in `values` once they were over.
    """
    yield 0, counts
    if not usual_bins:
        return
    values = counts
    silent = _silent_bins(counts)
    ends = np.flatnonzero((silent[1:] == 0) & (silent[:-1] > usual_bins)) + 1
    for end in ends.tolist():
        values = values.copy()
        values[end - silent[end - 1] : end + 1 - RESUMED_BINS] = np.nan
        yield end, values


def newest_known(counts: Floats, usual_bins: int) -> Floats:
    """The series as it is known at its end."""
    values = counts
    for _, known in as_known(counts, usual_bins):
        values = known
    return values


def _silent_bins(counts: Floats) -> NDArray[np.intp]:
    """How many bins ago each bin saw the end of a run of RESUMED_BINS that brought something."""
    brought = np.concatenate([np.zeros(RESUMED_BINS - 1, dtype=np.bool_), counts >= 1.0])
    resumed = np.lib.stride_tricks.sliding_window_view(brought, RESUMED_BINS).all(axis=1)
    bins = np.arange(counts.size)
    return bins - np.maximum.accumulate(np.where(resumed, bins, -1))
