"""Asks for the next parameters: the optimiser, and what lies in the gaps of the front.

The optimiser goes where there is most volume to gain and leaves gaps where the front is flat; so half of a
round is made of neighbours on the front, the more the higher the step between them. A round depends on the
seed, its number and what earlier rounds came to, and on nothing else. Why this one: docs/decisions/0031.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, pairwise
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray

from parts.elastic.pareto.objectives import Objective, front_positions
from parts.elastic.pareto.size_classes import (
    InfeasibleError,
    SearchBounds,
    WfqParameters,
    class_weights,
    size_thresholds,
)
from pipeline.studies.optimiser import TRIES, Parameters, ask, optimiser

# What is less counts as this much: ratios of next to nothing mean nothing.
FLOORS = {"JCT": 1.0, "unfairness": 1e-3, "Pred_err": 1e-2}
_NOISE = (0.01, 0.25)  # of a parameter's range: fine steps polish the front, wide ones leave a valley
_RATIOS = ("variation_max", "efficiency_step")  # parameters of which ratios count alike
_GRID = 200  # values of T that are looked at for sensible ones
_MOST_CLASSES = 6  # of sensible configurations
_MANY_BOUNDS_UP_TO = 3  # classes: where there are few it matters most where they are cut
_DECAYS, _EFFICIENCIES = (2.5, 1.0), (0.65, 0.35)
_STEPS = (0.5, 0.02)  # of efficiency: which of them is predicted better depends on the workload
_FIFO_EFFICIENCIES = (0.0, 0.2, 0.35, 0.5)

Floats = NDArray[np.float64]
Evaluated = Sequence[tuple[WfqParameters, Sequence[float]]]
# The configuration's identity, or None when there is none; a known identity is refused.
Accept = Callable[[WfqParameters], bool]


def on_scale(objectives: Sequence[Objective], values: Sequence[float]) -> tuple[float, ...]:
    """Return objectives on the scale that the search works on: logarithms, so that ratios count alike."""
    return tuple(
        log(max(value, FLOORS[objective.metric])) for objective, value in zip(objectives, values, strict=True)
    )


def first_parameters(
    bounds: SearchBounds, sizes_s: Sequence[float], accept: Accept, *, seed: int, size: int
) -> list[WfqParameters]:
    """Return the first round: strict FIFO, sensible classes and weights, and the rest at random."""
    accepted: list[WfqParameters] = []
    rng = np.random.default_rng([seed, 0])

    def at_random() -> Iterator[WfqParameters]:
        for _ in range(TRIES * size):
            yield WfqParameters(*(float(rng.uniform(low, high)) for low, high in vars(bounds).values()))

    for source in (sensible_parameters(bounds, sizes_s), at_random()):
        for parameters in source:
            inside = bounds.nearest(parameters)
            if len(accepted) < size and accept(inside):
                accepted.append(inside)
    return accepted


def sensible_parameters(bounds: SearchBounds, sizes_s: Sequence[float]) -> Iterator[WfqParameters]:
    """Yield FIFO, with lower and higher caps, then few classes, with weights that favour small jobs."""
    low, high = bounds.variation_max
    for efficiency, step in zip(_FIFO_EFFICIENCIES, cycle(_STEPS), strict=False):
        yield WfqParameters(high, 0.0, efficiency, step)
    by_classes: dict[int, list[float]] = {}
    for variation in np.geomspace(max(low, high / 1e3), high, _GRID).tolist():
        by_classes.setdefault(len(size_thresholds(sizes_s, variation)), []).append(variation)
    for classes, variations in sorted(by_classes.items()):
        if not 2 <= classes <= _MOST_CLASSES:
            continue
        tried = [variations[len(variations) // 2]]
        if classes <= _MANY_BOUNDS_UP_TO:
            tried = [variations[0], *tried, variations[-1]]
        for variation in dict.fromkeys(tried):
            for decay, steps in zip(_DECAYS, (_STEPS, _STEPS[::-1]), strict=True):
                try:
                    class_weights(classes, decay)
                except InfeasibleError:
                    continue
                for efficiency, step in zip(_EFFICIENCIES, steps, strict=True):
                    yield WfqParameters(variation, decay, efficiency, step)


def parameters_between(
    bounds: SearchBounds,
    evaluated: Evaluated,
    accept: Accept,
    *,
    tried: Sequence[float],
    seed: int,
    round_number: int,
    size: int,
) -> list[WfqParameters]:
    """Return up to `size` new parameters in the gaps of the known front.

    `tried` are the first objectives of all candidates, those that are hardly known among them. Two neighbours
    on the front by the first objective are drawn by `_chances`. By turns a candidate lies between them, is
    one of them with a single parameter changed, or is one of them that takes each parameter, at even odds,
    from any candidate on the front: with some noise, its width different from candidate to candidate.
    """
    front = [evaluated[i] for i in front_positions([values for _, values in evaluated])]
    if len(front) < 2:
        return []
    rng = np.random.default_rng([seed, 1, round_number])
    chances = _chances([values for _, values in front], sorted(tried))
    scale = _Scale(bounds)
    places = [scale.place(parameters) for parameters, _ in front]
    accepted: list[WfqParameters] = []
    for attempt in range(TRIES * size):
        if len(accepted) == size:
            break
        at = int(rng.choice(len(chances), p=chances))
        first, second = (places[i] for i in rng.permutation([at, at + 1]))
        noise = np.exp(rng.uniform(*np.log(_NOISE))) * rng.normal(size=len(first))
        if attempt % 3 == 0:
            made = first + rng.random() * (second - first)
        elif attempt % 3 == 1:
            made = first
            noise[np.arange(len(first)) != rng.integers(len(first))] = 0.0
        else:
            made = np.where(rng.random(len(first)) < 0.5, first, places[rng.integers(len(places))])
        parameters = scale.parameters(made + noise)
        if accept(parameters):
            accepted.append(parameters)
    return accepted


def _chances(front: Sequence[Sequence[float]], tried: Sequence[float]) -> Floats:
    """Return how probably each gap of a front is drawn; `tried` is ascending.

    What a gap hides is better than both of its sides by no more than the objective in which they are closest.
    The more candidates lie in it in vain, the less is left to be found. Half of the draws go by that, half to
    all gaps alike.
    """
    weights = []
    for a, b in pairwise(front):
        step = min(b[0] - a[0], max(abs(y - x) for x, y in zip(a[1:], b[1:], strict=True)))
        in_vain = bisect_left(tried, b[0]) - bisect_right(tried, a[0])
        weights.append(step / sqrt(1 + max(in_vain, 0)))
    alike = np.full(len(weights), 1 / len(weights))
    total = sum(weights)
    return (np.array(weights) / total + alike) / 2 if total else alike


class _Scale:
    """Parameters as places in a cube of side 1, those in `_RATIOS` by their logarithms."""

    def __init__(self, bounds: SearchBounds) -> None:
        self._ratios = np.array([name in _RATIOS for name in vars(bounds)])
        edges = np.array(list(vars(bounds).values()))
        self._edges = edges
        self._low, high = self._logged(edges[:, 0]), self._logged(edges[:, 1])
        self._range = high - self._low

    def _logged(self, values: Floats) -> Floats:
        return np.where(self._ratios, np.log(np.where(self._ratios, values, 1.0)), values)

    def place(self, parameters: WfqParameters) -> Floats:
        """Return where parameters lie, shape (parameters,)."""
        offset = self._logged(np.array(list(vars(parameters).values()))) - self._low
        return np.divide(offset, self._range, out=np.zeros_like(offset), where=self._range > 0)

    def parameters(self, place: Floats) -> WfqParameters:
        """Return the parameters at a place, or at the nearest inside the cube."""
        values = self._low + np.clip(place, 0.0, 1.0) * self._range
        values = np.where(self._ratios, np.exp(np.where(self._ratios, values, 0.0)), values)
        return WfqParameters(*np.clip(values, self._edges[:, 0], self._edges[:, 1]).tolist())


def next_parameters(
    bounds: SearchBounds, evaluated: Evaluated, accept: Accept, *, seed: int, round_number: int, size: int
) -> list[WfqParameters]:
    """Return up to `size` new parameters, from known ones with their objectives `on_scale`.

    `accept` says whether a candidate is feasible and new, and remembers it. Fewer, or none, when the
    optimiser finds nothing new.
    """
    import optuna

    distributions = {
        name: optuna.distributions.FloatDistribution(low, high, log=name == "efficiency_step")
        for name, (low, high) in vars(bounds).items()
    }
    study = optimiser(
        [(parameters.to_data(), values) for parameters, values in evaluated],
        distributions,
        objectives=len(evaluated[0][1]),
        seed=seed,
        round_number=round_number,
    )

    def accepted(values: Parameters) -> WfqParameters | None:
        parameters = WfqParameters.from_data(values)
        return parameters if accept(parameters) else None

    return ask(study, distributions, accepted, size=size)
