"""How a job's speed depends on its GPUs: the demand function of an elastic job.

A speed-up curve says how many times faster than on one GPU a job runs on n of them. It need be neither convex
nor concave: real curves have steps where a job leaves a node.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite

from foundation.errors import BadInputError


class SpeedUp:
    """S(n), with S(0) = 0 and S(1) = 1, linear between whole GPUs, and flat beyond the last that is known."""

    __slots__ = ("rising", "steep", "values")

    def __init__(self, values: tuple[float, ...]) -> None:
        """`values[n]` is S(n), for n = 0, 1, ... whole GPUs."""
        if (
            len(values) < 2
            or values[0] != 0
            or not all(isfinite(value) and value > 0 for value in values[1:])
        ):
            raise BadInputError(
                f"A speed-up curve is {values!r}.",
                remedy="Give 0 for no GPU, then a number above 0 for each number of GPUs.",
            )
        self.values = values
        # Whether more GPUs never make a job slower.
        self.rising = all(after >= before for before, after in pairwise(values))
        # Whether one GPU more ever more than doubles the speed of a job that runs.
        self.steep = any(after > 2 * before for before, after in pairwise(values[1:]))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SpeedUp) and other.values == self.values

    def __hash__(self) -> int:
        return hash(self.values)

    def __repr__(self) -> str:
        return f"SpeedUp({len(self.values) - 1} GPUs: {self.values[-1]:.3g})"

    @classmethod
    def linear(cls, max_gpus: int) -> "SpeedUp":
        """Perfect scaling up to so many GPUs."""
        return cls(tuple(float(gpus) for gpus in range(max_gpus + 1)))

    @classmethod
    def tabulated(cls, time_by_gpus: Mapping[int, float]) -> "SpeedUp":
        """Make a curve from the times of the same work on 1 and on more GPUs; gaps are filled linearly."""
        points = sorted(time_by_gpus.items())
        if not points or points[0][0] != 1 or any(time <= 0 for _, time in points):
            raise BadInputError(
                f"A speed-up table holds {dict(time_by_gpus)!r}.",
                remedy="Give times above 0, that of one GPU among them.",
            )
        values = [0.0, 1.0]
        alone = points[0][1]
        for gpus, time in points[1:]:
            before, reached = len(values) - 1, values[-1]
            slope = (alone / time - reached) / (gpus - before)
            values += [reached + slope * (n - before) for n in range(before + 1, gpus)]
            values.append(alone / time)
        return cls(tuple(values))

    def at(self, gpus: float) -> float:
        """Return S(gpus)."""
        values = self.values
        below = int(gpus)
        if below >= len(values) - 1:
            return values[-1]
        low = values[below]
        return low if below == gpus else low + (values[below + 1] - low) * (gpus - below)

    def efficient_gpus(self, max_gpus: int, efficiency: float) -> int:
        """Return the GPUs before the first number, up to `max_gpus`, whose efficiency S(n) / n is less.

        The cap of PCS, section 3.2: a job is given no more than it uses efficiently.
        """
        for gpus in range(1, max_gpus + 1):
            if self.at(gpus) / gpus < efficiency:
                return gpus - 1
        return max_gpus


@dataclass(frozen=True, slots=True)
class Elasticity:
    """What an elastic job is: work, and how its speed depends on its GPUs, up to `Job.gpus`.

    `service_s` is its run time on one GPU (s), and its run time on n GPUs is `service_s / speed_up.at(n)`.
    It needs at least `min_gpus` to run at all; 0: any share of a GPU, however small, is of use to it.
    """

    service_s: float
    speed_up: SpeedUp
    min_gpus: int = 0

    def __post_init__(self) -> None:
        if not (isfinite(self.service_s) and self.service_s >= 0):
            raise BadInputError(f"service_s is {self.service_s!r}.", remedy="Use 0 s or more.")
        if self.min_gpus < 0:
            raise BadInputError(f"min_gpus is {self.min_gpus}.", remedy="Use 0 or more.")
