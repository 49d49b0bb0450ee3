"""What the nodes of a cluster were over time: awake, booting, asleep, busy, and short; and figures of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from simulator.energy import EnergySettings
from simulator.recorders.usage import StepLog
from simulator.scenario.companion import OverTime

if TYPE_CHECKING:
    from matplotlib.figure import Figure


DAYS_A_YEAR = 365.0
DAY_S = 86_400.0
MINUTE_S = 60.0

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class EnergySaved:
    """Savings over the days of a replay, and the energy of a year at the same rate."""

    kwh: float
    cost: float
    co2_kg: float
    kwh_per_year: float


def energy_saved(asleep_mean: float, days: float, settings: EnergySettings) -> EnergySaved:
    """Return what `asleep_mean` nodes asleep for so many days save beside idle ones.

    Helios (SC '21, section 4.3.2) counts 800 W an idle DGX-1 and twice that for its cooling; a node asleep is
    taken to draw nothing.
    """
    kwh_per_day = asleep_mean * settings.idle_w * settings.cooling_factor * 24 / 1_000
    kwh = kwh_per_day * days
    return EnergySaved(
        kwh, kwh * settings.price_per_kwh, kwh * settings.co2_kg_per_kwh, kwh_per_day * DAYS_A_YEAR
    )


@dataclass(frozen=True)
class NodeStates(OverTime):
    """Step functions of time: `busy[i]`, say, holds from `at_s[i]` until `at_s[i + 1]`; equal lengths.

    Nodes of the virtual clusters that are there, neither failed nor set aside. `awake` holds the busy ones;
    `short` is what waiting jobs need of those that sleep or boot.
    """

    at_s: Floats
    awake: Floats
    booting: Floats
    asleep: Floats
    busy: Floats
    short: Floats
    name: ClassVar[str] = "nodes"
    counters: ClassVar[tuple[str, ...]] = ("awake", "booting", "asleep")

    def columns(self) -> Mapping[str, Floats]:
        """Return the numbers of nodes."""
        return vars(self)

    @classmethod
    def drawn(cls, by_policy: Mapping[str, Self], *, from_s: float) -> "Figure":
        """Draw busy, awake and all nodes over time."""
        from parts.node_sleep.replay.figure import nodes_over_time  # matplotlib is slow to load

        states = {policy: each.columns() for policy, each in by_policy.items()}
        return nodes_over_time(states, from_s=from_s)


@dataclass
class PowerTotals:
    """Node-seconds of each state, and boots, from second 0 on, or since warm-up was over."""

    total_node_s: float = 0.0
    asleep_node_s: float = 0.0
    booting_node_s: float = 0.0
    busy_node_s: float = 0.0
    short_node_s: float = 0.0
    wake_ups: int = 0  # moments at which nodes were woken
    woken_nodes: int = 0
    boots_failed: int = 0
    waiting_jobs: set[int] = field(default_factory=set)  # indices of jobs that needed nodes not awake

    def copy(self) -> "PowerTotals":
        """Return a copy that stays as it is."""
        return replace(self, waiting_jobs=set(self.waiting_jobs))


class PowerHistory:
    """Writes down the states of nodes whenever they change, and adds up node-seconds."""

    def __init__(self, began_s: float, totals: PowerTotals) -> None:
        self.totals = totals
        self._since_s = began_s
        self._now = (0, 0, 0, 0, 0)
        self._log = StepLog(len(self._now))

    def pass_time(self, now_s: float) -> None:
        """Add up what has been so until now."""
        passed_s = now_s - self._since_s
        if passed_s > 0:
            awake, booting, asleep, busy, short = self._now
            totals = self.totals
            totals.total_node_s += passed_s * (awake + booting + asleep)
            totals.booting_node_s += passed_s * booting
            totals.asleep_node_s += passed_s * asleep
            totals.busy_node_s += passed_s * busy
            totals.short_node_s += passed_s * short
            self._since_s = now_s

    def note(self, now_s: float, awake: int, booting: int, asleep: int, busy: int, short: int) -> None:
        """Write down what is so from now on."""
        values = (awake, booting, asleep, busy, short)
        if values == self._now and self._log:
            return
        self.pass_time(now_s)
        self._now = values
        self._log.note(now_s, values)

    def count_from(self, at_s: float) -> None:
        """Forget what was added up and written down until then; the nodes are as they are."""
        self.totals, self._since_s = PowerTotals(), at_s
        self._log = StepLog(len(self._now))
        self._log.note(at_s, self._now)

    def states(self) -> NodeStates:
        """Return what has been written down."""
        return NodeStates(*self._log.steps())


def power_figures(totals: PowerTotals, counted_s: float) -> dict[str, float]:
    """Return means over the time of the totals, of `counted_s` seconds, and counts, for a summary.

    Node utilisation is busy over all nodes, and over those that do not sleep (Helios, table 5): a node that
    boots is one, and draws as much as an idle one.
    """
    counted_s = max(counted_s, 1.0)
    asleep_mean = totals.asleep_node_s / counted_s
    on_node_s = totals.total_node_s - totals.asleep_node_s
    return {
        "nodes_asleep_mean": asleep_mean,
        "nodes_booting_mean": totals.booting_node_s / counted_s,
        "wake_ups": totals.wake_ups,
        "wake_ups_per_day": totals.wake_ups / counted_s * DAY_S,
        "nodes_per_wake_up": totals.woken_nodes / totals.wake_ups if totals.wake_ups else 0.0,
        "boots_failed": totals.boots_failed,
        "node_minutes_short": totals.short_node_s / MINUTE_S,
        "jobs_that_waited_for_boots": len(totals.waiting_jobs),
        "node_utilisation_pct": _percent(totals.busy_node_s, totals.total_node_s),
        "node_utilisation_awake_pct": _percent(totals.busy_node_s, on_node_s),
        "kwh_saved": energy_saved(asleep_mean, counted_s / DAY_S, EnergySettings()).kwh,
    }


def _percent(part: float, whole: float) -> float:
    return 100 * part / whole if whole else 0.0
