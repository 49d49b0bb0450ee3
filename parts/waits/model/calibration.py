"""How far beyond the forecast a wait ends with a given probability, by partition, from what forecasts missed.

Forecasts of earlier moments, each made before its outcome, are set against what is known of their waits now.
The errors are those of the partition (Mondrian conformal prediction; Vovk et al. 2005, section 4.5), steadied
by those of all others; newer moments count more. Waits that are not over take part as lower bounds
(`survival`), which is how feedback that comes late differs from none.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from lucid_models.groups import Codes, Floats
from parts.waits.model.survival import ErrorDistribution

Partition = TypeVar("Partition", int, str)

LEVELS = (0.5, 0.9)
# The median is moved for all partitions alike: one has too few crowds of jobs to find its own by.
_SHARED = (0.5,)
# After so many moments an error counts half.
HALF_LIFE_MOMENTS = 20.0
# All other partitions together count as so many rows of the partition's own.
STEADYING_ROWS = 30.0


@dataclass(frozen=True)
class WaitOffsets(Generic[Partition]):
    """What is added to a forecast (logarithm to base 10) for each level, by partition (the code of a table,
    or a name) and of all.
    """

    by_partition: Mapping[Partition, tuple[float, ...]]
    of_all: tuple[float, ...]

    def of(self, partitions: Sequence[Partition]) -> Floats:
        """Offsets of rows, shape (rows, levels); of a partition that is new those of all."""
        offsets = [self.by_partition.get(partition, self.of_all) for partition in partitions]
        return np.array(offsets, dtype=np.float64).reshape(len(partitions), len(self.of_all))

    def named(self, name: Callable[[Partition], str]) -> "WaitOffsets[str]":
        """The same by names: numbers that a table gave its partitions mean nothing elsewhere."""
        return WaitOffsets({name(one): offsets for one, offsets in self.by_partition.items()}, self.of_all)


def offsets_of_errors(
    errors: Floats,
    is_over: NDArray[np.bool_],
    partition: Codes,
    age: Floats,
    levels: tuple[float, ...] = LEVELS,
) -> WaitOffsets[int]:
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
