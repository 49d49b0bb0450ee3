"""Runs a study on this machine: round after round, the trials of a round over processes."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context

from foundation.errors import LucidError
from foundation.progress import Progress, Work, silent
from pipeline.search.tuning.rounds import ask_round, evaluate_trials
from pipeline.search.tuning.study import TuningStudy

Evaluate = Callable[[Sequence[str]], Iterator[dict[str, int]]]


class TuningInterruptedError(LucidError):
    """A worker process died under a trial."""


def run_study(study: TuningStudy, *, trials: int, workers: int = 1, progress: Progress = silent) -> int:
    """Run the current settings, each other value alone, and about `trials` more by the optimiser.

    Whole rounds are run. Trials with a result are not run again; returns how many were run now.
    """
    executed = 0
    rounds = -(-trials // study.round_size)
    with _evaluating(study.uri, workers) as evaluate:
        for number in range(1 + rounds):
            left = ask_round(study, number)
            what = Work(f"round {number} of {rounds}" if number else "one change at a time", "trials")
            for done, counts in enumerate(evaluate(left)):
                progress(done + 1, len(left), what)
                executed += counts["trials"]
    return executed


@contextmanager
def _evaluating(study_uri: str, workers: int) -> Iterator[Evaluate]:
    """Yield what evaluates trials: here, or in processes that keep what trials share from round to round."""
    if workers <= 1:
        yield lambda identities: (evaluate_trials(study_uri, [identity]) for identity in identities)
        return
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:

        def evaluate(identities: Sequence[str]) -> Iterator[dict[str, int]]:
            futures = [pool.submit(evaluate_trials, study_uri, [identity]) for identity in identities]
            return (future.result() for future in as_completed(futures))

        try:
            yield evaluate
        except BrokenProcessPool as error:
            raise TuningInterruptedError(
                "A worker process died under a trial, often because memory ran out.",
                remedy="Run it again, with fewer --workers: finished trials are kept.",
            ) from error
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
