"""Asks the optimiser for the next trials, by positions in the lists of values, and which settings matter."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.search.experiment_store.optimiser import Parameters, ask, optimiser
from pipeline.search.tuning.space import SearchSpace, thresholds_rise
from pipeline.search.tuning.tuned_part import Value, Values

_TREES_SEED = 0

Scored = Sequence[tuple[Values, float | None]]


def next_trials(
    space: SearchSpace, scored: Scored, *, seed: int, round_number: int, size: int
) -> list[dict[str, Value]]:
    """Return up to `size` new trials, from `scored` ones (a lower score is better; None: failed).

    Fewer, or none, when the space has nothing new that the optimiser would try.
    """
    tried = {_key(space, values) for values, _ in scored}

    def accept(positions: Parameters) -> dict[str, Value] | None:
        values = {**space.current, **{p.name: p.values[int(positions[p.name])] for p in space.free}}
        key = _key(space, values)
        if key in tried or not thresholds_rise(values):
            return None
        tried.add(key)
        return values

    study = _optimiser(space, scored, seed=seed, round_number=round_number)
    return ask(study, _distributions(space), accept, size=size)


def importances(space: SearchSpace, scored: Scored) -> dict[str, float]:
    """Return the share of the scores' variance that each parameter explains (fANOVA, Hutter et al. 2014).

    Empty when too few trials differ to say.
    """
    import optuna

    scores = {score for _, score in scored if score is not None}
    if len(scores) < 2 or len(space.free) < 1:
        return {}
    study = _optimiser(space, scored, seed=0, round_number=0)
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=_TREES_SEED)
    shares: Mapping[str, float] = optuna.importance.get_param_importances(study, evaluator=evaluator)
    return {parameter.name: float(shares.get(parameter.name, 0.0)) for parameter in space.free}


def _optimiser(space: SearchSpace, scored: Scored, *, seed: int, round_number: int) -> Any:
    positions = [
        ({p.name: p.position(values[p.name]) for p in space.free}, (score,))
        for values, score in scored
        if score is not None
    ]
    return optimiser(positions, _distributions(space), seed=seed, round_number=round_number)


def _distributions(space: SearchSpace) -> dict[str, Any]:
    import optuna

    return {p.name: optuna.distributions.IntDistribution(0, len(p.values) - 1) for p in space.free}


def _key(space: SearchSpace, values: Values) -> tuple[int, ...]:
    return tuple(p.position(values[p.name]) for p in space.free)
