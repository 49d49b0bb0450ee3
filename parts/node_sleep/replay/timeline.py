"""What a replay of sleeping nodes comes to: nodes by step, wake-ups, and the figures of Helios' table 5."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class SleepTimeline:
    """Nodes at every step of `step_s` seconds from `start_s` (s since 1970) on; arrays of shape (steps,).

    `awake` are usable, `booting` are not yet; `short` is what demand lacked, before anything woke for it.
    `woken` are the nodes of a step's wake-up, 0 without one; `failed_boots` are those that did not come up.
    Where nodes do not boot (`boots`), how long demand lacked them is unknown.
    """

    start_s: float
    step_s: float
    running: NDArray[np.float64]
    total: NDArray[np.float64]
    awake: NDArray[np.int64]
    booting: NDArray[np.int64]
    short: NDArray[np.float64]
    woken: NDArray[np.int64]
    failed_boots: NDArray[np.int64]
    boots: bool = True

    def part(self, first: int, last: int) -> "SleepTimeline":
        """Return the steps from `first` up to, without it, `last`."""
        steps = slice(first, last)
        names = ("running", "total", "awake", "booting", "short", "woken", "failed_boots")
        series: dict[str, Any] = {name: getattr(self, name)[steps] for name in names}
        return replace(self, start_s=self.start_s + first * self.step_s, **series)

    @property
    def unserved(self) -> NDArray[np.float64] | None:
        """Nodes that demand lacks while others boot, shape (steps,); None where nodes do not boot."""
        return np.maximum(0.0, self.running - self.awake) if self.boots else None


@dataclass(frozen=True)
class SleepFigures:
    """The figures of a replay.

    - `asleep_mean`: nodes asleep, the mean over time.
    - `wake_ups_per_day`, `nodes_per_wake_up` (0 without any).
    - `utilisation_before_pct`: the mean over time of busy over all nodes; `utilisation_after_pct`: of the
      busy nodes that are awake, over those that are powered (awake or booting).
    - `shortages`: stretches of time in which demand was above what was awake; `node_minutes_short`: by how
      many nodes, times minutes; None where nodes do not boot (bin rules).
    """

    asleep_mean: float
    wake_ups_per_day: float
    nodes_per_wake_up: float
    utilisation_before_pct: float
    utilisation_after_pct: float
    shortages: int
    node_minutes_short: float | None
    failed_boots: int
    days: float


def figures_of(timeline: SleepTimeline) -> SleepFigures:
    """Return the figures of a timeline."""
    powered = timeline.awake + timeline.booting
    served = np.minimum(timeline.running, timeline.awake)
    woken = timeline.woken[timeline.woken > 0]
    days = len(powered) * timeline.step_s / 86_400
    is_short = timeline.short > 0
    unserved = timeline.unserved
    return SleepFigures(
        asleep_mean=float((timeline.total - powered).mean()),
        wake_ups_per_day=len(woken) / days,
        nodes_per_wake_up=float(woken.mean()) if len(woken) else 0.0,
        utilisation_before_pct=_mean_ratio_pct(timeline.running, timeline.total),
        utilisation_after_pct=_mean_ratio_pct(served, powered),
        shortages=int((is_short & ~np.concatenate(([False], is_short[:-1]))).sum()),
        node_minutes_short=None if unserved is None else float(unserved.sum() * timeline.step_s / 60),
        failed_boots=int(timeline.failed_boots.sum()),
        days=days,
    )


def _mean_ratio_pct(part: NDArray[np.float64], whole: NDArray[np.float64] | NDArray[np.int64]) -> float:
    """Return the mean of ratios in %, over the steps in which there was a node at all."""
    there = whole > 0
    return float((part[there] / whole[there]).mean() * 100) if there.any() else 0.0
