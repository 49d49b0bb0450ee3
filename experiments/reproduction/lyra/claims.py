"""A claim about schemes, and what replays say of it: whether it holds here, and by how much."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from experiments.reproduction.lyra.spreads import ByScheme, Measure, Spread, spread

HOLDS, WEAKER, FAILS, NOT_MEASURED = "yes", "yes, but by less than half as much", "no", "not measured"


@dataclass(frozen=True)
class LyraClaim:
    """A statement of the paper as a measure that lies above (or below) `neutral` where it holds.

    `published`: what the paper prints of the measure; None: a statement without a number. `resampled`: it is
    about the ten resampled traces.
    """

    statement: str
    where: str
    published: float | None
    unit: str
    measure: Measure
    neutral: float = 1.0
    sense: Literal["above", "below"] = "above"
    resampled: bool = False

    def holds(self, value: float) -> bool:
        """Say whether a measured value agrees in direction."""
        return value > self.neutral if self.sense == "above" else value < self.neutral

    def verdict(self, measured: Spread | None) -> str:
        """Return the answer in words, by the mean over windows."""
        if measured is None:
            return NOT_MEASURED
        if not self.holds(measured.mean):
            return FAILS
        gain = measured.mean - self.neutral
        if self.sense == "above" and self.published is not None:
            return WEAKER if gain < (self.published - self.neutral) / 2 else HOLDS
        return HOLDS


def claims_frame(
    claims: Iterable[LyraClaim], windows: Sequence[ByScheme], resamples: Sequence[ByScheme]
) -> pd.DataFrame:
    """Return a row a claim: what the paper prints, the mean and range here, and whether it holds."""
    rows = []
    for claim in claims:
        measured = spread(claim.measure, resamples if claim.resampled else windows)
        values = () if measured is None else measured.values
        rows.append(
            {
                "claim": claim.statement,
                "where": claim.where,
                "published": claim.published,
                "ours": None if measured is None else measured.mean,
                "low": measured.low if measured is not None and len(values) > 1 else None,
                "high": measured.high if measured is not None and len(values) > 1 else None,
                "unit": claim.unit,
                "holds": None if measured is None else claim.holds(measured.mean),
                "holds_on": sum(claim.holds(value) for value in values),
                "windows": len(values),
                "verdict": claim.verdict(measured),
            }
        )
    return pd.DataFrame(rows)
