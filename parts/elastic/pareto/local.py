"""Runs a search on this machine: round after round, the simulations of a round over processes."""

from collections.abc import Callable
from functools import partial

from foundation.progress import Progress, silent
from parts.elastic.pareto.rounds import (
    Evaluation,
    ask_confirmations,
    ask_held_out,
    ask_round,
    evaluate_batch,
)
from parts.elastic.pareto.study import ParetoSearch
from pipeline.studies.local_run import Stage, run_stages


def run_search(
    study: ParetoSearch,
    *,
    workers: int = 1,
    progress: Progress = silent,
    after_round: Callable[[ParetoSearch], object] | None = None,
) -> int:
    """Run all rounds, what is left to know near the front, and the front on fresh samples.

    Simulations with a result are not run again; returns how many were run now. `after_round` is called
    between rounds, to draw the front as it stands.
    """
    stages: list[Stage[Evaluation]] = [
        (f"round {number + 1} of {study.rounds}", partial(ask_round, study, number))
        for number in range(study.rounds)
    ]
    stages.append(("the front on all samples", partial(ask_confirmations, study)))
    stages.append(("the front on fresh samples", partial(ask_held_out, study)))
    return run_stages(
        stages,
        partial(_evaluate, study.uri),
        unit="simulations",
        workers=workers,
        progress=progress,
        after_stage=None if after_round is None else partial(after_round, study),
    )


def _evaluate(study_uri: str, evaluation: Evaluation) -> int:
    return evaluate_batch(study_uri, [evaluation])
