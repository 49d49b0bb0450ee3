"""Says in words why so much of the inference servers is expected to be used, with the standard library alone.

A forecast is the newest bin plus a sum of effects, so it splits exactly into what is used now and what the
last bins, the way back to their weighted mean, the present level and the hour add to that.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from foundation.human_times import human_duration
from lucid_models.amounts import listed_moves

_BINS, _MEAN, _LEVEL, _HOUR, _ALWAYS = (
    "the last bins",
    "the way to their weighted mean",
    "the present level",
    "the hour",
    "the usual trend",
)
_SINGULAR = (_MEAN, _LEVEL, _HOUR, _ALWAYS)
# What is printed: tenths of a per cent of the servers.
_STEPS = 1_000


@dataclass(frozen=True)
class LoadAccount:
    """A forecast as an account, in shares of the servers: `newest` plus all `parts` is `forecast`, unless
    that is beyond what can be (`bounded`). `ahead_s`: how long the bin is that is forecast.
    """

    forecast: float
    newest: float
    parts: Mapping[str, float]
    ahead_s: float
    bounded: bool

    def sentence(self) -> str:
        """The forecast, what it starts from, and what each part adds; the printed numbers add up."""
        total = round(self.forecast * _STEPS)
        text = f"{total / 10:g} % of the servers used over the next {human_duration(self.ahead_s)}"
        if self.bounded:
            return f"{text}: bounded by none and all of them."
        added = {name: round(value * _STEPS) for name, value in self.parts.items()}
        # What rounding leaves over is the usual trend's.
        rest = total - round(self.newest * _STEPS) - sum(added.values())
        added[_ALWAYS] = added.get(_ALWAYS, 0) + rest
        moves = listed_moves({name: value for name, value in added.items() if value}, singular=_SINGULAR)
        now = f"{text}: {round(self.newest * _STEPS) / 10:g} % are used now"
        return f"{now}; in tenths of a per cent {moves}." if moves else f"{now}."


def account_for_load(
    newest: float, intercept: float, contributions: Mapping[str, float], averaged: float, ahead_s: float
) -> LoadAccount:
    """`contributions`: what each term adds, by its name; `averaged`: what the weighted mean adds."""
    parts = {_BINS: 0.0, _MEAN: averaged, _LEVEL: 0.0, _HOUR: 0.0, _ALWAYS: intercept}
    for name, value in contributions.items():
        parts[_HOUR if name.endswith("hour") else _LEVEL if name == "usage" else _BINS] += value
    wanted = newest + sum(parts.values())
    forecast = min(max(wanted, 0.0), 1.0)
    bounded = not math.isclose(forecast, wanted, rel_tol=1e-9, abs_tol=1e-9)
    return LoadAccount(forecast, newest, parts, ahead_s, bounded)
