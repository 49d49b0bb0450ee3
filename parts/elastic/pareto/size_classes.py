"""Four numbers that stand for a configuration of PCS (PCS, section 3.3, "Intelligent Parameterization").

Size classes are cut so that the sizes within each vary little, weights fall off exponentially from class to
class, and two numbers limit how inefficiently a job may use GPUs. The exact rules (where a class is cut, how
weights are rounded, the step by which the cap is relaxed) are those of the authors' artifact.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, inf, isfinite

from foundation.errors import BadInputError
from parts.elastic.rules.wfq import WfqConfig

PER_MILLE = 1000  # weights are rounded to thousandths


class InfeasibleError(BadInputError):
    """The parameters describe no configuration: a class would own nothing."""


@dataclass(frozen=True)
class WfqParameters:
    """T, W, zeta and delta of the paper: what the search varies.

    - `variation_max` (T): the most that sizes of a class vary, as a squared coefficient of variation.
    - `weight_decay` (W): class i weighs exp(-W i); above 0 favours small jobs, below 0 large ones.
    - `efficiency_min` (zeta), `efficiency_step` (delta): see `WfqConfig`.
    """

    variation_max: float
    weight_decay: float
    efficiency_min: float
    efficiency_step: float

    def to_data(self) -> dict[str, float]:
        """Return the parameters as JSON."""
        return dict(vars(self))

    @classmethod
    def from_data(cls, data: Mapping[str, float]) -> "WfqParameters":
        """Read what `to_data` returned."""
        return cls(**data)

    def config(self, sizes_s: Sequence[float]) -> WfqConfig:
        """Return the configuration for jobs of these sizes (s on one GPU, ascending).

        Raises InfeasibleError when a class would weigh nothing.
        """
        thresholds = size_thresholds(sizes_s, self.variation_max)
        weights = class_weights(len(thresholds), self.weight_decay)
        return WfqConfig(thresholds, weights, self.efficiency_min, self.efficiency_step)


@dataclass(frozen=True)
class SearchBounds:
    """The least and the most of each parameter; the names are those of `WfqParameters`."""

    variation_max: tuple[float, float]
    weight_decay: tuple[float, float] = (-3.0, 4.0)  # from 3.8 on the last of three classes weighs nothing
    efficiency_min: tuple[float, float] = (0.0, 1.0)
    efficiency_step: tuple[float, float] = (0.01, 0.9)

    @classmethod
    def of(cls, sizes_s: Sequence[float], *, rigid: bool = False) -> "SearchBounds":
        """Return the artifact's bounds for jobs of these sizes (s, ascending); W may be 4 instead of 3.

        Where all jobs are `rigid` no cap ever holds, and T and W are all that there is to vary.
        """
        variation = (0.001, variation_limit(sizes_s) + 1.0)
        return (
            cls(variation, efficiency_min=(0.0, 0.0), efficiency_step=(0.5, 0.5)) if rigid else cls(variation)
        )

    def nearest(self, parameters: WfqParameters) -> WfqParameters:
        """Return the parameters moved inside the bounds."""
        edges = vars(self)
        return WfqParameters(
            **{
                name: min(max(value, edges[name][0]), edges[name][1])
                for name, value in vars(parameters).items()
            }
        )

    def to_data(self) -> dict[str, list[float]]:
        """Return the bounds as JSON."""
        return {name: list(bounds) for name, bounds in vars(self).items()}

    @classmethod
    def from_data(cls, data: Mapping[str, Sequence[float]]) -> "SearchBounds":
        """Read what `to_data` returned."""
        return cls(**{name: (float(low), float(high)) for name, (low, high) in data.items()})


def size_thresholds(sizes_s: Sequence[float], variation_max: float) -> tuple[float, ...]:
    """Cut sizes (s, ascending) into classes; return the upper bounds, the last infinite.

    A class takes sizes until their squared coefficient of variation exceeds `variation_max`. The size that
    went too far counts in no class' variation, and bounds are whole seconds, as in the artifact. Two bounds
    in the same second are one.
    """
    bounds: list[float] = []
    for i in _cuts(sizes_s, variation_max):
        bound = float(int(sizes_s[i - 1]))
        if not bounds or bound > bounds[-1]:
            bounds.append(bound)
    return (*bounds, inf)


def _cuts(sizes_s: Sequence[float], variation_max: float) -> list[int]:
    """Return where the variation exceeds its limit: positions of the sizes that went too far."""
    if not isfinite(variation_max) or variation_max <= 0:
        raise BadInputError(f"variation_max is {variation_max!r}.", remedy="Use a number above 0.")
    cuts = []
    count, total, squares = 0, 0.0, 0.0
    for i, size in enumerate(sizes_s):
        count, total, squares = count + 1, total + size, squares + size * size
        if _variation(count, total, squares) > variation_max:
            cuts.append(i)
            count, total, squares = 0, 0.0, 0.0
    return cuts


def variation_limit(sizes_s: Sequence[float]) -> float:
    """Return the largest running variation of sizes (s, ascending): from there on all are one class."""
    largest, count, total, squares = 0.0, 0, 0.0, 0.0
    for size in sizes_s:
        count, total, squares = count + 1, total + size, squares + size * size
        largest = max(largest, _variation(count, total, squares))
    return largest


def _variation(count: int, total: float, squares: float) -> float:
    mean = total / count
    return (squares / count - mean * mean) / (mean * mean) if mean else 0.0


def class_weights(classes: int, weight_decay: float) -> tuple[float, ...]:
    """Return each class' share of the pool: exp(-W i), in thousandths that are made to sum to 1.

    Raises InfeasibleError when a share rounds to nothing.
    """
    raw = [exp(-weight_decay * i) for i in range(classes)]
    total = sum(raw)
    thousandths = [round(PER_MILLE * value / total) for value in raw]
    if not all(thousandths):
        raise InfeasibleError(
            f"With weight_decay {weight_decay:g}, {thousandths.count(0)} of {classes} size classes weigh "
            "less than a thousandth.",
            remedy="Use a weight_decay nearer to 0, or fewer classes (a larger variation_max).",
        )
    return tuple(value / sum(thousandths) for value in thousandths)
