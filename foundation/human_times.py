"""Times in words, in the unit in which people would say them; standard library only."""

import math
from datetime import datetime

_UNITS = ((90.0, 1.0, "s"), (5_400.0, 60.0, "min"), (172_800.0, 3_600.0, "h"), (math.inf, 86_400.0, "days"))


def human_duration(seconds: float) -> str:
    """A time for people: `45 s`, `12 min`, `3.4 h`, `2.1 days`."""
    unit_s, unit = time_unit(seconds)
    amount = seconds / unit_s
    return f"{amount:,.0f} {unit}" if abs(amount) >= 1_000 else f"{amount:.3g} {unit}"


def time_unit(seconds: float) -> tuple[float, str]:
    """The unit in which people would say this time: its length in seconds and its name."""
    for limit_s, unit_s, unit in _UNITS:
        if abs(seconds) < limit_s:
            return unit_s, unit
    return unit_s, unit


def time_ago(seconds: float) -> str:
    """`3 h ago`, `just now`."""
    if seconds < 1.0:
        return "just now"
    unit_s, unit = time_unit(seconds)
    return f"{seconds / unit_s:.0f} {unit} ago"


def moment_here(at_s: float | None) -> str:
    """Return a time of day as it is called here, a dash for none."""
    return "–" if at_s is None else f"{datetime.fromtimestamp(at_s).astimezone():%Y-%m-%d %H:%M:%S %Z}"
