"""Helios' control as its artifact runs it: how many nodes are awake in each 10-minute bin of a series.

For comparison with what was published (SC '21, section 4.3 and table 5), not to run a cluster with. Faults of
the artifact that stay here, with any forecast: the highest number of busy nodes of a bin is acted on at the
bin's start, nodes wake at once, and `change` is not corrected where more is woken than there is. With the
artifact's own forecast (`artifact_decisions`) there is another: a bin's forecast is made of actuals up to six
bins before it, and a decision reads forecasts of the next 2 x `near_bins` bins.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import floor

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foundation.errors import BadInputError
from parts.node_sleep.replay.control import has_fallen, stays_low
from parts.node_sleep.replay.settings import SleepSettings

WARM_UP_BINS = 6  # bins at the beginning in which all but the buffer sleeps, without a rule

Floats = NDArray[np.float64]
NearAndFar = Callable[[int], tuple[float, float]]
"""The forecast at a bin: the mean of the next `near_bins` bins, and of twice as many."""


@dataclass(frozen=True, slots=True)
class BinDecisions:
    """Nodes awake in each bin, shape (bins,), and by how many a decision changed them (0: none)."""

    active: NDArray[np.int64]
    change: NDArray[np.int64]


def bin_decisions(
    settings: SleepSettings,
    running: ArrayLike,
    total: ArrayLike,
    forecast: NearAndFar | None,
    *,
    bins_before: ArrayLike = (),
) -> BinDecisions:
    """Return what the artifact's rules decide for busy nodes and all nodes of bins, each of shape (bins,).

    `forecast` is asked where the past allows nodes to sleep; without it the past alone decides. `bins_before`
    are busy nodes of earlier bins, for what looks back. Raises BadInputError for series that differ in
    length, are empty or not finite.
    """
    busy, all_nodes, before = (
        np.asarray(values, dtype=np.float64) for values in (running, total, bins_before)
    )
    if busy.ndim != 1 or not len(busy) or busy.shape != all_nodes.shape:
        raise BadInputError(
            f"Busy nodes of shape {busy.shape} and all nodes of shape {all_nodes.shape} are no series.",
            remedy="Give one value of each for every bin.",
        )
    if not all(np.isfinite(values).all() for values in (busy, all_nodes, before)):
        raise BadInputError("A bin has no number of nodes.", remedy="Hold the last value in gaps.")
    demand = np.concatenate((before, busy))
    offset, buffer_nodes = len(before), settings.buffer_nodes
    active = np.zeros(len(busy), dtype=np.int64)
    change = np.zeros(len(busy), dtype=np.int64)
    active[:WARM_UP_BINS] = busy[:WARM_UP_BINS] + buffer_nodes
    # The artifact's first quiet bin, 0 or 1 by cluster, lies before the first decision.
    quiet_until = 0
    for at in range(WARM_UP_BINS, len(busy)):
        awake = previous = int(active[at - 1])
        if awake < busy[at]:
            awake = int(busy[at]) + buffer_nodes
            change[at] = awake - previous
            quiet_until = at + settings.keep_bins
        awake = min(awake, floor(all_nodes[at]))
        if at >= quiet_until and _may_shrink(settings, demand[: offset + at + 1], forecast, at):
            highest = demand[max(0, offset + at + 1 - settings.peak_bins) : offset + at + 1].max()
            smaller = min(awake, int(highest) + buffer_nodes)
            if awake - smaller >= settings.least_nodes:
                awake = smaller
                change[at] = awake - previous
        active[at] = awake
    return BinDecisions(active, change)


def artifact_decisions(
    settings: SleepSettings, running: ArrayLike, total: ArrayLike, forecast: ArrayLike
) -> BinDecisions:
    """Return what the artifact decides with its forecast of each bin's busy nodes, shape (bins,).

    The forecast is floored to whole nodes; means are cut at the end of the series. Raises BadInputError as
    `bin_decisions`, and for a forecast that is not one of every bin.
    """
    expected = np.floor(np.asarray(forecast, dtype=np.float64))
    if expected.shape != np.shape(running) or not np.isfinite(expected).all():
        raise BadInputError(
            f"{expected.shape} forecasts for {np.shape(running)} bins, or one that is no number.",
            remedy="Give a forecast of every bin.",
        )
    near = settings.near_bins
    return bin_decisions(
        settings,
        running,
        total,
        lambda at: (float(expected[at : at + near].mean()), float(expected[at : at + 2 * near].mean())),
    )


def _may_shrink(settings: SleepSettings, demand: Floats, forecast: NearAndFar | None, at: int) -> bool:
    """Return whether demand has fallen, stays low and does not rise again; `demand` ends with bin `at`."""
    return has_fallen(settings, demand) and (
        forecast is None or stays_low(settings, float(demand[-1]), *forecast(at))
    )
