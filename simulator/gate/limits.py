"""A figure against its limit, as a constraint with its sentence; and figures as people read them."""

from collections.abc import Mapping

from foundation.human_times import human_duration
from simulator.gate.verdict import Constraint


def allowed(reference: float, margin_pct: float, floor: float) -> float:
    """Return what a figure may be that should be low: a margin or a floor above the reference's, if more."""
    return max(reference * (1.0 + margin_pct / 100.0), reference + floor)


def at_most(name: str, unit: str, value: float, limit: float, what: str) -> Constraint:
    """A figure of the challenger alone may not exceed a limit; `what` it is begins the sentence."""
    passed = value <= limit
    word = "within" if passed else "above"
    sentence = f"{what}: {quantity(value, unit)}, {word} the limit of {quantity(limit, unit)}."
    return Constraint(name, unit, value, None, limit, passed, sentence)


def at_most_beside(
    name: str, unit: str, new: float, old: float, margin_pct: float, floor: float, comparison: str
) -> Constraint:
    """A figure may exceed another schedule's by a margin or a floor; `comparison` names both figures."""
    limit = allowed(old, margin_pct, floor)
    passed = new <= limit
    sentence = (
        f"{comparison}; {'within' if passed else 'above'} the limit of {quantity(limit, unit)} "
        f"(+{margin_pct:g} % or +{quantity(floor, unit)}, whichever is more)."
    )
    return Constraint(name, unit, new, old, limit, passed, sentence)


def unmeasured(name: str, unit: str, why: str, limit: float | None = None) -> Constraint:
    """Nothing could be measured: it neither passes nor blocks. `why` is a sentence."""
    return Constraint(name, unit, None, None, limit, None, why)


def quantity(value: object, unit: str) -> str:
    """A figure with its unit for people: times as `3.4 h`, all else as `number` says it."""
    return human_duration(float(value)) if unit == "s" else f"{number(value)} {unit}"  # type: ignore[arg-type]


def number(value: object) -> str:
    """A figure for people: thousands separated, three significant digits below a hundred."""
    figure = float(value)  # type: ignore[arg-type]
    return f"{figure:,.0f}" if abs(figure) >= 100 or figure == int(figure) else f"{figure:.3g}"


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
