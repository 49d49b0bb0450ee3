"""Asks the optimiser for the next trials: Optuna's TPE over positions in the lists of values.

Bergstra et al., "Algorithms for hyper-parameter optimization" (NIPS 2011); the multivariate variant, and with
a constant liar for trials of one round, which nobody has evaluated yet. A round depends on the seed, its
number and what earlier rounds found, and on nothing else: neither on how many workers evaluate it nor on
whether the process is still the one that asked for the round before.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.search.tuning.space import SearchSpace, Value, Values, thresholds_rise

_TRIES = 50  # trials that are asked for until the round is full; a trial that is known is not run again
_TREES_SEED = 0


def next_trials(
    space: SearchSpace,
    known: Sequence[tuple[Values, float | None]],
    *,
    seed: int,
    round_number: int,
    size: int,
) -> list[dict[str, Value]]:
    """Return up to `size` new trials, from `known` ones with their scores (lower is better; None: failed).

    Fewer, or none, when the space has nothing new that the optimiser would try.
    """
    import optuna

    study = _study(space, known, seed=_seed(seed, round_number))
    seen = {_key(space, values) for values, _ in known}
    asked: list[dict[str, Value]] = []
    for _ in range(_TRIES * size):
        if len(asked) == size:
            break
        trial = study.ask(_distributions(space))
        values = {
            **space.current,
            **{p.name: p.values[int(trial.params[p.name])] for p in space.free},
        }
        key = _key(space, values)
        if key in seen or not thresholds_rise(values):
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
            continue
        seen.add(key)
        asked.append(values)
    return asked


def importances(space: SearchSpace, known: Sequence[tuple[Values, float | None]]) -> dict[str, float]:
    """Return the share of the scores' variance that each parameter explains (fANOVA, Hutter et al. 2014).

    Empty when too few trials differ to say.
    """
    import optuna

    scores = {score for _, score in known if score is not None}
    if len(scores) < 2 or len(space.free) < 1:
        return {}
    study = _study(space, known, seed=0)
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=_TREES_SEED)
    found: Mapping[str, float] = optuna.importance.get_param_importances(study, evaluator=evaluator)
    return {parameter.name: float(found.get(parameter.name, 0.0)) for parameter in space.free}


def _study(space: SearchSpace, known: Sequence[tuple[Values, float | None]], *, seed: int) -> Any:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(
            seed=seed, n_startup_trials=1, multivariate=True, constant_liar=True
        )
    study = optuna.create_study(sampler=sampler, direction="minimize")
    distributions = _distributions(space)
    study.add_trials(
        [
            optuna.trial.create_trial(
                params={p.name: p.position(values[p.name]) for p in space.free},
                distributions=distributions,
                value=score,
            )
            for values, score in known
            if score is not None
        ]
    )
    return study


def _distributions(space: SearchSpace) -> dict[str, Any]:
    import optuna

    return {p.name: optuna.distributions.IntDistribution(0, len(p.values) - 1) for p in space.free}


def _seed(seed: int, round_number: int) -> int:
    return (seed * 1_000_003 + round_number) % 2**32


def _key(space: SearchSpace, values: Values) -> tuple[int, ...]:
    return tuple(p.position(values[p.name]) for p in space.free)
