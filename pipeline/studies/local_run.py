"""Runs an experiment on this machine: stage after stage, the evaluations of a stage over processes."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

from foundation.progress import Progress, Work, silent
from foundation.worker_processes import WorkerLostError, WorkerPool

Item = TypeVar("Item")
Stage = tuple[str, Callable[[], Sequence[Item]]]  # what it is, and what asks for its evaluations


def run_stages(
    stages: Iterable[Stage[Item]],
    evaluate: Callable[[Item], int],
    *,
    unit: str,
    workers: int = 1,
    progress: Progress = silent,
    after_stage: Callable[[], object] | None = None,
) -> int:
    """Ask for each stage's evaluations once the stage before is done, and evaluate them.

    `evaluate` is a function of a module, or a `partial` of one, that stores a record and returns how many
    evaluations it ran: what is known is not run again. Returns how many were run in all.
    """
    executed = 0
    with WorkerPool(partial(_evaluate, evaluate), workers) as pool:
        for name, ask in stages:
            items, work = ask(), Work(name, unit)
            try:
                for done, (_, ran) in enumerate(pool.results(items), start=1):
                    progress(done, len(items), work)
                    executed += ran
            except WorkerLostError as error:
                error.advise("Run it again: what is finished is kept.")
                raise
            if after_stage is not None:
                after_stage()
    return executed


def _evaluate(evaluate: Callable[[Item], int], item: Item, progress: Progress) -> int:
    return evaluate(item)
