"""What a release whose nodes sleep may cost on the held-out window: queuing, boots, nodes that were missing.

Asked of releases with that part alone. The counts of nodes tell what demand was, whatever ran; the replay of
the jobs tells what waiting for boots adds (Helios, SC '21, section 4.3.3, which asks for few wake-ups and no
effect on users).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from simulator.gate.constraints import quantity
from simulator.gate.forecast_coverage import forecast_coverage
from simulator.gate.rules import GateRules
from simulator.gate.verdict import Constraint

_NAMES = {
    "sleeping_nodes_wake_ups": "wake-ups a day",
    "sleeping_nodes_short": "% of demand",
    "sleeping_nodes_added_queuing": "s",
}


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


def sleeping_nodes(seen: SleepEvidence, rules: GateRules) -> list[Constraint]:
    """Return the constraints of the part of sleeping nodes; those without a figure neither pass nor block."""
    constraints = [
        _at_most(
            "sleeping_nodes_wake_ups", seen.wake_ups_per_day, rules.wake_ups_per_day_limit, "Nodes woke", seen
        ),
        _at_most("sleeping_nodes_short", seen.short_pct, rules.nodes_short_limit_pct, "Nodes lacked", seen),
        _at_most(
            "sleeping_nodes_added_queuing",
            seen.added_queuing_s,
            rules.added_queuing_limit_s,
            "Sleeping nodes add to the mean queuing delay",
            seen,
        ),
    ]
    if seen.coverage:
        limit_points = rules.coverage_margin_points
        constraints.append(
            forecast_coverage("sleeping_nodes_coverage", seen.coverage, limit_points, "the highest bin")
        )
    return constraints


def _at_most(name: str, value: float | None, limit: float, what: str, seen: SleepEvidence) -> Constraint:
    unit = _NAMES[name]
    if value is None:
        return Constraint(name, unit, None, None, limit, None, f"Not measured: {seen.unmeasured}")
    passed = value <= limit
    word = "within" if passed else "above"
    sentence = f"{what}: {quantity(value, unit)}, {word} the limit of {quantity(limit, unit)}."
    return Constraint(name, unit, value, None, limit, passed, sentence)
