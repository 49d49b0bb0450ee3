"""Runs a search on this machine: round after round, the simulations of a round over processes."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context

from foundation.errors import LucidError
from foundation.progress import Progress, Work, silent
from pipeline.search.pareto.rounds import (
    Evaluation,
    ask_confirmations,
    ask_held_out,
    ask_round,
    evaluate_batch,
)
from pipeline.search.pareto.study import ParetoSearch

Evaluate = Callable[[Sequence[Evaluation]], Iterator[int]]


class SearchInterruptedError(LucidError):
    """A worker process died under a simulation."""


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
    executed = 0
    with _evaluating(study.uri, workers) as evaluate:
        for number in range(study.rounds + 2):
            if number < study.rounds:
                left, what = ask_round(study, number), f"round {number + 1} of {study.rounds}"
            elif number == study.rounds:
                left, what = ask_confirmations(study), "the front on all samples"
            else:
                left, what = ask_held_out(study), "the front on fresh samples"
            for done, run in enumerate(evaluate(left)):
                progress(done + 1, len(left), Work(what, "simulations"))
                executed += run
            if after_round is not None:
                after_round(study)
    return executed


@contextmanager
def _evaluating(study_uri: str, workers: int) -> Iterator[Evaluate]:
    """Yield what simulates: here, or in processes that keep the samples from round to round."""
    if workers <= 1:
        yield lambda evaluations: (evaluate_batch(study_uri, [found]) for found in evaluations)
        return
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:

        def evaluate(evaluations: Sequence[Evaluation]) -> Iterator[int]:
            futures = [pool.submit(evaluate_batch, study_uri, [found]) for found in evaluations]
            return (future.result() for future in as_completed(futures))

        try:
            yield evaluate
        except BrokenProcessPool as error:
            raise SearchInterruptedError(
                "A worker process died under a simulation, often because memory ran out.",
                remedy="Run it again, with fewer --workers: finished simulations are kept.",
            ) from error
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
