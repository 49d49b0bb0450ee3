"""How far beyond the forecast a wait ends with a given probability, by partition, from what forecasts missed.

Forecasts of earlier moments, each made before its outcome, are set against what is known of their waits now.
The errors are those of the partition (Mondrian conformal prediction; Vovk et al. 2005, section 4.5), steadied
by those of all others; newer moments count more. Waits that are not over take part as lower bounds
(`survival`), which is how feedback that comes late is told from none.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lucid_models.waits.groups import Codes, Floats
from lucid_models.waits.survival import ErrorDistribution

LEVELS = (0.5, 0.9)
# The median is moved for all partitions alike: one has too few crowds of jobs to tell its own by.
_SHARED = (0.5,)
# After so many moments an error counts half.
HALF_LIFE_MOMENTS = 20.0
# All other partitions together count as so many rows of the partition's own.
STEADYING_ROWS = 30.0


@dataclass(frozen=True)
class WaitOffsets:
    """What is added to a forecast (logarithm to base 10) for each level, by partition (code) and of all."""

    by_partition: Mapping[int, tuple[float, ...]]
    of_all: tuple[float, ...]

    def of(self, partition: Codes) -> Floats:
        """Offsets of rows, shape (rows, levels); of a partition that is new those of all."""
        distinct, place = np.unique(partition, return_inverse=True)
        offsets = [self.by_partition.get(int(code), self.of_all) for code in distinct]
        return np.array(offsets, dtype=np.float64).reshape(distinct.size, len(self.of_all))[place]


def offsets_of_errors(
    errors: Floats,
    is_over: NDArray[np.bool_],
    partition: Codes,
    age: Floats,
    levels: tuple[float, ...] = LEVELS,
) -> WaitOffsets:
    """From errors of forecasts (wait less forecast), lower bounds where not `is_over`, all of shape (rows,).

    `age`: how many moments ago each was made. Without a row nothing is added.
    """
    recent = 0.5 ** (age / HALF_LIFE_MOMENTS)

    def offsets(weights: Floats) -> tuple[float, ...]:
        spread = ErrorDistribution.of(errors, is_over, weights)
        return tuple(float(np.nan_to_num(spread.quantile(level))) for level in levels)

    of_all = offsets(recent)
    by_partition = {}
    for code in np.unique(partition).tolist():
        own = partition == code
        others = max(float(recent[~own].sum()), 1e-9)
        its_own = offsets(recent * np.where(own, 1.0, STEADYING_ROWS / others))
        by_partition[int(code)] = tuple(
            everyone if level in _SHARED else one
            for level, everyone, one in zip(levels, of_all, its_own, strict=True)
        )
    return WaitOffsets(by_partition, of_all)
