"""Asks Optuna's tree-structured Parzen estimator for what to evaluate next.

Bergstra et al., "Algorithms for hyper-parameter optimization" (NIPS 2011); with several objectives Ozaki et
al., "Multiobjective tree-structured Parzen estimator" (JAIR 2022). The multivariate variant, and with a
constant liar for what one round asks for, which is not evaluated yet. A round depends on the seed, its number
and what earlier rounds came to, and on nothing else: not on how many workers evaluate it, nor on whether
the process is still the one that asked for the round before.
"""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

TRIES = 50  # times a round's size that is asked for until it is full: nothing is tried twice

Asked = TypeVar("Asked")
Parameters = Mapping[str, Any]


def optimiser(
    evaluated: Iterable[tuple[Parameters, Sequence[float]]],
    distributions: Mapping[str, Any],
    *,
    objectives: int = 1,
    seed: int,
    round_number: int = 0,
) -> Any:
    """Return an Optuna study that knows these parameters with their objectives, all to be small."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(
            seed=(seed * 1_000_003 + round_number) % 2**32,
            n_startup_trials=1,
            multivariate=True,
            constant_liar=True,
        )
    study = optuna.create_study(sampler=sampler, directions=["minimize"] * objectives)
    study.add_trials(
        [
            optuna.trial.create_trial(
                params=dict(parameters), distributions=dict(distributions), values=list(values)
            )
            for parameters, values in evaluated
        ]
    )
    return study


def ask(
    study: Any,
    distributions: Mapping[str, Any],
    accept: Callable[[Parameters], Asked | None],
    *,
    size: int,
) -> list[Asked]:
    """Return up to `size` of what `accept` makes of new parameters; None refuses them.

    Fewer, or none, when the optimiser finds nothing new.
    """
    import optuna

    accepted_items: list[Asked] = []
    for _ in range(TRIES * size):
        if len(accepted_items) == size:
            break
        trial = study.ask(dict(distributions))
        accepted = accept(trial.params)
        if accepted is None:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
        else:
            accepted_items.append(accepted)
    return accepted_items
