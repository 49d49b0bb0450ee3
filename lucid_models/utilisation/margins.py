"""How far predictions of unseen models missed, and what is added to them on that account; NumPy only.

A residual is how far a measurement lies above its prediction, on the scale of the quantity
(`step_model.logit`, the logarithm of memory). Residuals are of whole models that were left out. Every model
counts once, however many configurations it has: the next job is a new model, not one more batch size.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lucid_models.model_format import Fields

Floats = NDArray[np.float64]
# In words on either scale: further off than this, nothing was predicted.
FURTHEST = 20.0


def level_of_cost(under_cost: float) -> float:
    """Return the share of cases to over-estimate when an under-estimate costs so many times as much.

    The cheapest quantile of a forecast whose errors cost differently (the newsvendor's rule).
    """
    return under_cost / (1.0 + under_cost)


def model_quantile(residuals: Floats, models: Sequence[str], level: float) -> float:
    """Return the residual below which `level` of the models lie, each of which weighs the same.

    One more model than was seen is counted on, beyond the largest residual seen (as in conformal prediction),
    so that the level holds for the next one.
    """
    names, of = np.unique(np.asarray(models), return_inverse=True)
    weights = 1.0 / np.bincount(of)[of]
    order = np.argsort(residuals, kind="stable")
    reached = np.cumsum(weights[order])
    if level >= 0.5:
        wanted = level * (len(names) + 1)
        position = int(np.searchsorted(reached, wanted - 1e-9))
    else:
        wanted = level * (len(names) + 1) - 1.0
        position = int(np.searchsorted(reached, wanted + 1e-9))
    return float(residuals[order][min(position, len(order) - 1)])


@dataclass(frozen=True)
class Margins:
    """What is added to an expectation: to be careful, and for the ends of the range."""

    careful: float
    low: float
    high: float

    @classmethod
    def of(cls, residuals: Floats, models: Sequence[str], *, level: float, range_share: float) -> "Margins":
        """Choose them from the residuals of left-out models."""
        tail = (1.0 - range_share) / 2.0
        careful, low, high = (model_quantile(residuals, models, share) for share in (level, tail, 1.0 - tail))
        return cls(careful, min(low, careful), max(high, careful))

    def to_data(self) -> dict[str, float]:
        """Return plain data for JSON."""
        return {"careful": self.careful, "low": self.low, "high": self.high}

    @classmethod
    def from_data(cls, place: Fields) -> "Margins":
        """Read what `to_data` wrote; raises CorruptModelError."""
        margins = cls(*(place.number(name, -FURTHEST, FURTHEST) for name in ("careful", "low", "high")))
        if not margins.low <= margins.careful <= margins.high:
            raise place.fail("careful", "does not lie between low and high")
        return margins
