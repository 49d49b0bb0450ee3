"""Says in words which way a job takes through the packing tree, with the standard library alone."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

# Feature: its words, its unit, the unit's size, the decimals to start with.
_WORDS = {
    "gpu_util_pct": ("GPU utilisation", "%", 1.0, 0),
    "gpu_mem_util_pct": ("GPU memory utilisation", "%", 1.0, 0),
    "gpu_mem_mib": ("GPU memory", "GiB", 1_024.0, 1),
}
_MOST_DECIMALS = 6


def packing_reason(score: str, decisions: Sequence[Mapping[str, Any]], share: float, samples: float) -> str:
    """One sentence: the score, what the tree asked, and how many of the `samples` measured configurations in
    the leaf have this score (`share`).

    `decisions` lead from the root to the leaf: {"feature", "value" (None: unknown), "threshold", "at_most"}.
    Several on one feature become one range.
    """
    score = score.capitalize()
    alike = f"{round(share * samples):,} of {samples:,.0f} measured configurations like it are {score}"
    if not decisions:
        return f"{score}: the tree asks nothing ({alike})."
    ranges: dict[str, list[float]] = {}
    values = {step["feature"]: step["value"] for step in decisions}
    for step in decisions:
        bounds = ranges.setdefault(step["feature"], [-math.inf, math.inf])
        if step["at_most"]:
            bounds[1] = min(bounds[1], step["threshold"])
        else:
            bounds[0] = max(bounds[0], step["threshold"])
    because = " and ".join(_range_words(name, values[name], *bounds) for name, bounds in ranges.items())
    return f"{score} because {because} ({alike})."


def _range_words(feature: str, value: float | None, low: float, high: float) -> str:
    if feature == "amp":
        if value is None:
            return "it is unknown whether it computes in mixed precision"
        return f"it {'computes' if math.isfinite(low) else 'does not compute'} in mixed precision"
    name, unit, unit_size, decimals = _WORDS.get(feature, (feature.replace("_", " "), "", 1.0, 2))
    limits = [limit / unit_size for limit in (low, high) if math.isfinite(limit)]
    if value is not None:
        # As many decimals as keep the value apart from the limits that it did not reach.
        own = value / unit_size
        while decimals < _MOST_DECIMALS and any(
            limit != own and f"{limit:.{decimals}f}" == f"{own:.{decimals}f}" for limit in limits
        ):
            decimals += 1
    shown = [f"{limit:.{decimals}f} {unit}".rstrip() for limit in limits]
    if len(shown) == 2:
        where = f"between {shown[0]} and {shown[1]}"
    else:
        where = f"above {shown[0]}" if low > -math.inf else f"at most {shown[0]}"
    if value is None:
        return f"{name} is unknown and taken as {where}"
    return f"{name} {own:.{decimals}f} {unit}".rstrip() + f" is {where}"
