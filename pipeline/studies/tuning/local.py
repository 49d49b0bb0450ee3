"""Runs a study on this machine: round after round, the trials of a round over processes."""

from functools import partial

from foundation.progress import Progress, silent
from pipeline.studies.local_run import run_stages
from pipeline.studies.tuning.rounds import ask_round, evaluate_trials
from pipeline.studies.tuning.study import TuningStudy


def run_study(study: TuningStudy, *, trials: int, workers: int = 1, progress: Progress = silent) -> int:
    """Run the current settings, each other value alone, and about `trials` more by the optimiser.

    Whole rounds are run. Trials with a result are not run again; returns how many were run now.
    """
    rounds = -(-trials // study.round_size)
    names = ["one change at a time", *(f"round {number} of {rounds}" for number in range(1, 1 + rounds))]
    stages = [(name, partial(ask_round, study, number)) for number, name in enumerate(names)]
    evaluate = partial(_evaluate, study.uri)
    return run_stages(stages, evaluate, unit="trials", workers=workers, progress=progress)


def _evaluate(study_uri: str, identity: str) -> int:
    return evaluate_trials(study_uri, [identity])["trials"]
