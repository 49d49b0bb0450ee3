"""Numbers in words, and amounts that add up as they are printed; standard library only."""

import math
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from foundation.human_times import time_unit


class Scale(NamedTuple):
    """The unit of a sentence and its smallest step: amounts are whole steps, so they add up as printed."""

    unit: str
    step_s: float
    decimals: int
    unit_s: float

    @classmethod
    def of(cls, estimate_s: float, amounts_s: Iterable[float]) -> "Scale":
        """The estimate's unit, or a larger one when an amount would be unreadable in it; three digits of the
        largest amount and two of the estimate.
        """
        largest = max(estimate_s, *map(abs, amounts_s))
        unit_s, unit = time_unit(max(estimate_s, largest / 5.0))
        digits = min(
            math.floor(math.log10(largest / unit_s)) - 2, math.floor(math.log10(estimate_s / unit_s)) - 1
        )
        decimals = max(-digits, 0)
        return cls(unit, unit_s * 10.0**-decimals, decimals, unit_s)

    def steps(self, seconds: float) -> int:
        """An amount in steps, rounded."""
        return round(seconds / self.step_s)

    def text(self, steps: int) -> str:
        """Steps in words, without trailing zeros."""
        number = f"{steps / 10**self.decimals:,.{self.decimals}f}"
        number = number.rstrip("0").rstrip(".") if "." in number else number
        return f"{number} {'day' if (number, self.unit) == ('1', 'days') else self.unit}"


def moves(subject: str, plural: bool, steps: int, scale: Scale) -> str:
    """`8 GPUs add 0.9 h`, `submission on a Monday night takes off 5 min`; empty when nothing moves."""
    if not steps:
        return ""
    verb = ("add" if plural else "adds") if steps > 0 else ("take off" if plural else "takes off")
    return f"{subject} {verb} {scale.text(abs(steps))}"


def listed_moves(amounts: Mapping[str, int], singular: Collection[str] = ()) -> str:
    """`the last hours add 3 and the pattern of the last days takes 2`; subjects are plural unless named in
    `singular`. Empty without any amount that moves something.
    """
    moves = [
        f"{subject} {'add' if amount > 0 else 'take'}{'s' if subject in singular else ''} {abs(amount)}"
        for subject, amount in amounts.items()
        if amount
    ]
    return moves[0] if len(moves) == 1 else " and ".join(filter(None, (", ".join(moves[:-1]), *moves[-1:])))


def logarithmic_mean(first: float, second: float) -> float:
    """(one - other) / ln(one / other), which is `one` where both are equal; both > 0."""
    ratio = first / second
    if abs(ratio - 1.0) < 1e-6:
        return 0.5 * (first + second)
    return (first - second) / math.log(ratio)


def counted(number: float, noun: str) -> str:
    """`8 GPUs`, `1 GPU`, `no GPU`."""
    if number <= 0:
        return f"no {noun}"
    return f"{number:.4g} {noun}{'' if f'{number:.4g}' == '1' else 's'}"


def amount(value: float) -> str:
    """`12,345`, `0.123`: a figure by itself, in three digits below a thousand."""
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"
