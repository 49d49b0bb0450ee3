"""What nodes that sleep under a release may cost on the held-out window: queuing, boots, missing nodes.

Asked of releases with that part alone. The counts of nodes tell what demand was, whatever ran; the replay of
the jobs tells what waiting for boots adds (Helios, SC '21, section 4.3.3, which asks for few wake-ups and no
effect on users).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from foundation.checked_settings import Between
from simulator.gate.limits import at_most, forecast_coverage, unmeasured
from simulator.gate.rules import GateRules, PartRules
from simulator.gate.verdict import Constraint


@dataclass(frozen=True, slots=True)
class SleepEvidence:
    """Figures of the window; None where nothing could be measured, which `unmeasured` explains.

    `short_pct`: node-minutes that demand lacked, of all busy node-minutes. `coverage`: of the forecast's
    quantiles of the highest bin, the share of bins that each was not exceeded in; empty without a forecast.
    `added_queuing_s`: mean queuing delay of all replayed jobs beyond that with all nodes awake.
    """

    wake_ups_per_day: float | None = None
    short_pct: float | None = None
    coverage: Mapping[float, float] = field(default_factory=dict)
    added_queuing_s: float | None = None
    unmeasured: str = ""


@dataclass(frozen=True, kw_only=True)
class SleepGateRules(PartRules):
    """What sleeping nodes may cost."""

    wake_ups_per_day_limit: Annotated[float, Between(0, 1e6)] = 3.0
    """Of a release with sleeping nodes. With 20 of 420 nodes as a buffer Philly's wake 1.9 times a day,
    without one 60 times."""
    nodes_short_limit_pct: Annotated[float, Between(0, 100)] = 0.1
    """Node-minutes that demand lacks on the window's counts of nodes, of all that it had."""
    added_queuing_limit_s: Annotated[float, Between(0, 1e9)] = 60.0
    """What waiting for boots may add to the mean queuing delay."""


def sleeping_nodes(seen: SleepEvidence, rules: GateRules) -> list[Constraint]:
    """Return the constraints of the part of sleeping nodes; those without a figure neither pass nor block."""
    own = SleepGateRules.of(rules)
    figures = (
        ("wake_ups", "wake-ups a day", seen.wake_ups_per_day, own.wake_ups_per_day_limit, "Nodes woke"),
        ("short", "% of demand", seen.short_pct, own.nodes_short_limit_pct, "Nodes lacked"),
        (
            "added_queuing",
            "s",
            seen.added_queuing_s,
            own.added_queuing_limit_s,
            "Sleeping nodes add to the mean queuing delay",
        ),
    )
    constraints = [
        unmeasured(f"sleeping_nodes_{name}", unit, f"Not measured: {seen.unmeasured}", limit)
        if value is None
        else at_most(f"sleeping_nodes_{name}", unit, value, limit, what)
        for name, unit, value, limit, what in figures
    ]
    if seen.coverage:
        limit_points = rules.coverage_margin_points
        constraints.append(
            forecast_coverage("sleeping_nodes_coverage", seen.coverage, limit_points, "the highest bin")
        )
    return constraints
