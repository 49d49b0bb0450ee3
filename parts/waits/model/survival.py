"""How errors are distributed where some waits are not over yet: those are longer than so far waited.

The distribution is Kaplan and Meier's (JASA 1958). Where the largest errors are of waits that are not over,
it leaves a part of the probability beyond the largest complete one: that part is put at the largest complete
error, so that all of it is somewhere. (Efron's rule of 1967 is another: the largest error, complete or not,
counts as complete.) A quantile that falls into that part is a least bound: of a queue that stands still, P90
says that the wait is at least so long, as nothing has been seen to end later. To leave waiting jobs out would
learn from short waits alone.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lucid_models.groups import Floats


@dataclass(frozen=True)
class ErrorDistribution:
    """Errors that occurred, ascending, shape (errors,), and the probability of each; they sum to 1."""

    errors: Floats
    mass: Floats

    @classmethod
    def of(
        cls, errors: Floats, is_over: NDArray[np.bool_], weights: Floats | None = None
    ) -> "ErrorDistribution":
        """From errors, all of shape (rows,): exact where the wait `is_over`, else lower bounds.

        `weights`: how much each row counts. Without a complete one the distribution is empty.
        """
        counted = np.ones(errors.size) if weights is None else weights
        # Of equal errors the complete ones come first.
        order = np.lexsort((~is_over, errors))
        over, weight = is_over[order], counted[order]
        at_risk = np.cumsum(weight[::-1])[::-1]
        stay = np.where(over, 1.0 - weight / at_risk, 1.0)
        survival = np.cumprod(np.maximum(stay, 0.0))
        before = np.concatenate([[1.0], survival[:-1]])
        mass = (before - survival)[over]
        if mass.size:
            mass[-1] += 1.0 - mass.sum()
        return cls(errors[order][over], np.asarray(mass, dtype=np.float64))

    def quantile(self, level: float) -> float:
        """The least error that is not exceeded with probability `level`; NaN of an empty distribution.

        At the largest complete error it may be a least bound: what is left beyond it counts there.
        """
        if not self.errors.size:
            return float("nan")
        place = int(np.searchsorted(np.cumsum(self.mass), level - 1e-12))
        return float(self.errors[min(place, self.errors.size - 1)])

    def mean_beyond(self, bounds: Floats) -> Floats:
        """Mean of the errors above each bound, shape (bounds,); the bound itself where there is none."""
        tail = np.concatenate([np.cumsum(self.mass[::-1])[::-1], [0.0]])
        total = np.concatenate([np.cumsum((self.mass * self.errors)[::-1])[::-1], [0.0]])
        place = np.searchsorted(self.errors, bounds, side="right")
        has = tail[place] > 1e-12
        return np.where(has, np.maximum(total[place] / np.where(has, tail[place], 1.0), bounds), bounds)
