"""How far a throughput model leans on the rolling median: as far as that was the better forecast lately.

A few days, or a cluster whose habits change by the week, teach shape functions little that holds tomorrow.
The weight of what was learned is chosen by the newest part of the history, forecast by a model that was
fitted on what lies before it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Weights of the shape functions that are tried; the rest is the rolling median's.
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
HELD_OUT = 0.25
HELD_OUT_DAYS = 28  # at most: what is older says less of tomorrow


@dataclass(frozen=True)
class Blend:
    """`learned_share`: weight of the shape functions; `errors`: mean absolute error by share on `bins` bins
    that were held out (none: the history is too short to hold any out).
    """

    learned_share: float
    errors: tuple[float, ...] = ()
    bins: int = 0

    def to_data(self) -> dict[str, Any]:
        """Plain data for JSON."""
        errors = {f"{share:g}": error for share, error in zip(SHARES, self.errors, strict=False)}
        return {"learned_share": self.learned_share, "bins": self.bins, "mae_by_share": errors}


def held_out_bins(bins: int, day_bins: int) -> int:
    """How many of the newest bins of a history are held out to choose the blend."""
    return min(int(bins * HELD_OUT), HELD_OUT_DAYS * day_bins)


def best_blend(
    truth: NDArray[np.float64], learned: NDArray[np.float64], medians: NDArray[np.float64]
) -> Blend:
    """The share with the least mean absolute error, the smaller one of equals; all of shape (bins,), NaN:
    unknown.
    """
    known = ~np.isnan(truth) & ~np.isnan(learned) & ~np.isnan(medians)
    if not known.any():
        return Blend(0.0)
    errors = tuple(
        float(np.abs(share * learned + (1.0 - share) * medians - truth)[known].mean()) for share in SHARES
    )
    return Blend(SHARES[int(np.argmin(errors))], errors, int(known.sum()))
