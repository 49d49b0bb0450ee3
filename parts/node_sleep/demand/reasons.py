"""Says in words why so many nodes are expected to be busy, with the standard library alone.

A forecast is the newest bin plus a sum of effects, so it splits exactly into what is busy now and what the
last hours, the pattern of the days before, and the calendar add to that.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from foundation.human_times import human_duration
from lucid_models.amounts import listed_moves

_HOURS, _DAYS, _CALENDAR, _ALWAYS = (
    "the last hours",
    "the pattern of the last days",
    "the hour and the day",
    "the usual trend",
)


@dataclass(frozen=True)
class DemandAccount:
    """A forecast as an account, in nodes: `newest` plus all `parts` is `forecast`, unless that is beyond what
    can be (`bounded`). `ahead_s`: over how many seconds from now it is the mean.
    """

    forecast: float
    newest: float
    parts: Mapping[str, float]
    ahead_s: float
    bounded: bool

    def sentence(self) -> str:
        """The forecast, what it starts from, and what each part adds; the printed numbers add up."""
        total = round(self.forecast)
        text = f"{total} {_nodes(total)} busy on average over the next {human_duration(self.ahead_s)}"
        if self.bounded:
            return f"{text}: bounded by what the cluster can have."
        added = {name: round(value) for name, value in self.parts.items() if round(value)}
        # What rounding leaves over is the usual trend's.
        rest = total - round(self.newest) - sum(added.values())
        if rest:
            added[_ALWAYS] = added.get(_ALWAYS, 0) + rest
        moves = listed_moves(added, singular=(_DAYS, _ALWAYS))
        return f"{text}: {round(self.newest)} are busy now" + (f"; {moves}." if moves else ".")


def account_for_demand(
    newest: float, ceiling: float, intercept: float, contributions: Mapping[str, float], ahead_s: float
) -> DemandAccount:
    """`contributions`: nodes that each term adds, by its name; `ceiling`: nodes that there can be at most."""
    parts = dict.fromkeys((_HOURS, _DAYS, _CALENDAR), 0.0) | {_ALWAYS: intercept}
    for name, value in contributions.items():
        parts[_part(name)] += value
    wanted = newest + sum(parts.values())
    forecast = min(max(wanted, 0.0), ceiling)
    bounded = not math.isclose(forecast, wanted, rel_tol=1e-9, abs_tol=1e-9)
    return DemandAccount(forecast, newest, parts, ahead_s, bounded)


def _part(term: str) -> str:
    if not term.startswith("busy_"):
        return _CALENDAR
    return _DAYS if term.startswith("busy_after_") else _HOURS


def _nodes(number: int) -> str:
    return "node" if number == 1 else "nodes"
