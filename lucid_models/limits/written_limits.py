"""Time limits as people write them: 15 min, 1 h, 12 h, 2 days.

A job that runs as long as its limit is killed, so a limit is always rounded to more than what is needed.
"""

import math
from bisect import bisect_right

HOUR_S, DAY_S = 3_600.0, 86_400.0
_HOURS = (1, 1.5, 2, 2.5, *range(3, 25), 30, 36, 42, 48, 60, 72, 84, 96, 120, 144, 168)
_WRITTEN_S: tuple[float, ...] = (
    *(60.0 * minutes for minutes in (15, 20, 30, 45)),
    *(HOUR_S * hours for hours in _HOURS),
)


def written_limit_above(needed_s: float) -> float:
    """The least written limit that is longer than `needed_s`, in s; beyond a week whole days."""
    if needed_s < _WRITTEN_S[-1]:
        return _WRITTEN_S[bisect_right(_WRITTEN_S, needed_s)]
    return math.inf if math.isinf(needed_s) else DAY_S * (math.floor(needed_s / DAY_S) + 1)


def written_limit_at_most(run_s: float) -> float:
    """The longest written limit that a run of `run_s` reaches, in s; 0 where it reaches none."""
    if run_s >= _WRITTEN_S[-1]:
        return DAY_S * math.floor(run_s / DAY_S)
    place = bisect_right(_WRITTEN_S, run_s)
    return _WRITTEN_S[place - 1] if place else 0.0
