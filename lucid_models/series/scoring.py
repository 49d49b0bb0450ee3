"""What scorers of a series share, with NumPy alone: histories that are checked, and forecasts in words.

A forecast of a change is the newest bin plus a sum of effects, so it splits exactly into what is there now
and what each group of features adds to that.
"""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from foundation.errors import BadInputError
from foundation.human_times import human_duration
from lucid_models.amounts import listed_moves
from lucid_models.model_format import Fields
from lucid_models.series.windows import Floats

ALWAYS = "the usual trend"


def checked_history(
    history: ArrayLike, what: str, value: str, *, most: float = math.inf, gaps_in: str = ""
) -> Floats:
    """A history of `what` as an array of shape (bins,), each a `value` from 0 to `most`.

    `gaps_in`: the module that fills gaps; without it a gap (NaN) may stand. Raises BadInputError for another
    shape, other values, and no bin where gaps may not stand.
    """
    values = np.array(history, dtype=np.float64)
    if values.ndim != 1 or (gaps_in and not values.size):
        raise BadInputError(
            f"A history of {what} has the shape {values.shape}.", remedy=f"Give one {value} a bin."
        )
    wrong = np.isinf(values) | (values < 0) | (values > most)
    if gaps_in:
        wrong |= np.isnan(values)
    if wrong.any():
        bounds = "is negative or infinite" if math.isinf(most) else f"lies outside 0 and {most:g}"
        raise BadInputError(
            f"The history of {what} holds a {value} that {bounds}{', or none' if gaps_in else ''}.",
            remedy=f"Hold the last {value} in gaps ({gaps_in})."
            if gaps_in
            else "Mark unknown bins as NaN and check the others.",
        )
    return values


def read_by_level(fields: Fields, name: str, most: float) -> dict[float, float]:
    """Read the field `name` (numbers from -most to most) by the field `quantiles`; both rise.

    Raises CorruptModelError.
    """
    levels = fields.numbers("quantiles", 0.0, 1.0, most=100)
    values = fields.numbers(name, -most, most, most=100)
    if levels.size != values.size or (np.diff(levels) <= 0).any() or (np.diff(values) < 0).any():
        raise fields.fail(name, "do not rise with the quantiles, one each")
    return dict(zip(levels.tolist(), values.tolist(), strict=True))


@dataclass(frozen=True)
class ChangeWords:
    """How an account is printed: whole multiples of 1 / `scale` of the unit.

    `forecast(amount, duration)` and `newest(amount)` say what is expected and what is there; `bounds` what
    forecasts are bounded by, `moves` what stands before the effects; effects of `singular` are one thing.
    """

    forecast: Callable[[int, str], str]
    newest: Callable[[int], str]
    bounds: str
    singular: Collection[str]
    scale: int = 1
    moves: str = ""


@dataclass(frozen=True)
class ChangeAccount:
    """A forecast as an account: `newest` plus all `parts` is `forecast`, unless that is beyond what can be
    (`bounded`). `ahead_s`: over how many seconds from now it is.
    """

    forecast: float
    newest: float
    parts: Mapping[str, float]
    ahead_s: float
    bounded: bool
    words: ChangeWords

    @classmethod
    def of(
        cls, words: ChangeWords, newest: float, most: float, parts: Mapping[str, float], ahead_s: float
    ) -> "ChangeAccount":
        """The account of a forecast that is at least 0 and at most `most`."""
        wanted = newest + sum(parts.values())
        forecast = min(max(wanted, 0.0), most)
        bounded = not math.isclose(forecast, wanted, rel_tol=1e-9, abs_tol=1e-9)
        return cls(forecast, newest, parts, ahead_s, bounded, words)

    def sentence(self) -> str:
        """The forecast, what it starts from, and what each part adds; the printed numbers add up."""
        words = self.words
        total, newest = round(self.forecast * words.scale), round(self.newest * words.scale)
        text = words.forecast(total, human_duration(self.ahead_s))
        if self.bounded:
            return f"{text}: bounded by {words.bounds}."
        added = {name: round(value * words.scale) for name, value in self.parts.items()}
        # Each part is rounded alone, so their sum may miss the total: the usual trend takes what is left.
        added[ALWAYS] = added.get(ALWAYS, 0) + total - newest - sum(added.values())
        moves = listed_moves(added, words.singular)
        return f"{text}: {words.newest(newest)}" + (f"; {words.moves}{moves}." if moves else ".")
