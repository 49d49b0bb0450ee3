"""The stretch of a node series that is replayed, with the finished bins before it."""

from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from cluster_logs.node_series import NodeSeries
from foundation.errors import BadInputError
from parts.node_sleep.replay.control import BIN_S

LONGEST_STEP_S = 60.0  # longer steps are cut into minutes: nodes boot within less than a bin


@dataclass(frozen=True)
class DemandWindow:
    """Busy and all nodes by step and by bin.

    `running` and `total` have shape (bins, steps a bin) from `start_s` (s since 1970) on; `bins` has all bins
    of the series up to the end of the window, of which the first `bins_before` come before it.
    """

    start_s: float
    step_s: float
    running: NDArray[np.float64]
    total: NDArray[np.float64]
    bins: NodeSeries
    bins_before: int

    @property
    def days(self) -> float:
        """Return how long the window is."""
        return len(self.running) * BIN_S / 86_400


def demand_window(
    series: NodeSeries, start_s: float | None = None, end_s: float | None = None
) -> DemandWindow:
    """Return the whole bins of `series` in [`start_s`, `end_s`), s since 1970; default: all that it has.

    Raises BadInputError for steps that do not fill a bin evenly, and where no whole bin is left.
    """
    steps_a_bin = round(BIN_S / series.step_s)
    if steps_a_bin < 1 or steps_a_bin * series.step_s != BIN_S:
        raise BadInputError(
            f"Steps of {series.step_s:g} s do not fill {BIN_S} s evenly.",
            remedy=f"Use steps that divide {BIN_S} s.",
        )
    series_end_s = series.start_s + series.step_s * len(series.running)
    first = -(-max(series.start_s, start_s if start_s is not None else series.start_s) // BIN_S)
    last = min(series_end_s, end_s if end_s is not None else series_end_s) // BIN_S
    if last <= first:
        raise BadInputError(
            f"The series from {_instant(series.start_s)} to {_instant(series_end_s)} has no whole bin there.",
            remedy="Choose another start and end.",
        )
    at = round((first * BIN_S - series.start_s) / series.step_s)
    steps = slice(at, at + int(last - first) * steps_a_bin)
    repeats = max(1, round(series.step_s / LONGEST_STEP_S))
    shape = (int(last - first), steps_a_bin * repeats)
    bins = series.bins(BIN_S)
    first_bin = round(first - bins.start_s / BIN_S)
    until = slice(0, first_bin + int(last - first))
    return DemandWindow(
        start_s=float(first * BIN_S),
        step_s=series.step_s / repeats,
        running=np.repeat(series.running[steps], repeats).reshape(shape),
        total=np.repeat(series.total[steps], repeats).reshape(shape),
        bins=NodeSeries(bins.start_s, bins.step_s, bins.running[until], bins.total[until], bins.held[until]),
        bins_before=first_bin,
    )


def _instant(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
