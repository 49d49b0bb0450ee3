"""Runs a study on this machine: round after round, the trials of a round over processes."""

from concurrent.futures.process import BrokenProcessPool

from cluster_logs.errors import LucidError
from cluster_logs.progress import Progress, silent
from pipeline.reproduction.processes import over_processes
from pipeline.tuning.rounds import ask_round, evaluate_trials
from pipeline.tuning.study import Study


class TuningInterruptedError(LucidError):
    """A worker process died under a trial."""


def run_study(study: Study, *, trials: int, workers: int = 1, progress: Progress = silent) -> int:
    """Run the current settings, each other value alone, and about `trials` more by the optimiser.

    Whole rounds are run. Trials with a result are not run again; returns how many were run now.
    """
    done = 0
    rounds = -(-trials // study.round_size)
    for number in range(1 + rounds):
        left = ask_round(study, number)
        what = f"round {number} of {rounds}" if number else "current settings, and one change at a time"
        if left:
            try:
                over_processes(_evaluate, study.uri, left, workers=workers, what=what, progress=progress)
            except BrokenProcessPool as error:
                raise TuningInterruptedError(
                    "A worker process died under a trial, often because memory ran out.",
                    remedy="Run it again, with fewer --workers: finished trials are kept.",
                ) from error
        done += len(left)
    return done


def _evaluate(study_uri: str, identity: str) -> dict[str, int]:
    return evaluate_trials(study_uri, [identity])
