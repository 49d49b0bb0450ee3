"""Whether the quantiles of a forecast hold as often as they say."""

from collections.abc import Mapping

from simulator.gate.limits import number
from simulator.gate.verdict import Constraint


def forecast_coverage(
    name: str, coverage: Mapping[float, float], limit_points: float, what: str, *, of: str = "bins"
) -> Constraint:
    """Return how many percentage points fewer bins (or what it is counted `of`) than it says the worst
    quantile held in.

    `coverage`: by quantile, the share of bins in which it was not exceeded; not empty. `what` it is of.
    """
    quantile = min(coverage, key=lambda each: (coverage[each] - each, each))
    held = coverage[quantile]
    missed = 100.0 * (quantile - held)
    passed = missed <= limit_points
    sentence = (
        f"Quantile {quantile:g} of {what} held in {100 * held:.1f} % of {of}, short by: {number(missed)} "
        f"points, {'within' if passed else 'above'} the limit of {number(limit_points)} points."
    )
    return Constraint(name, "points", missed, None, limit_points, passed, sentence)
