"""Rivals of the wait model: LightGBM and a small neural network on our features, and Slurm's own estimates.

They learn from the same rows with the same targets as ours, so that what differs is the model alone.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from cluster_logs.queue_log import QueueLog
from experiments.model_quality.black_boxes import available, fit_regressor
from foundation.errors import BadInputError
from lucid_models.evaluation.measures import Floats, Row
from lucid_models.groups import Codes
from parts.waits.model.fitting import Learner, Predict
from parts.waits.model.job_queue import queue_seen_at

_ORDER = ("lightgbm", "neural")
_NEEDED = ("true_start_time", "estimate_start_time", "diff_in_s")


def wait_rivals(*, trained: bool = True) -> Mapping[str, Learner]:
    """The rivals that can be trained here; without `trained` none."""
    return {name: _learner(name) for name in _ORDER if trained and name in available()}


def _learner(name: str) -> Learner:
    def learn(matrix: Floats, target: Floats, moment: Codes, weights: Floats) -> Predict:
        # Rows are repeated by no weight here: a network of scikit-learn knows none.
        return fit_regressor(name, matrix, target, loss="l1").predict

    return learn


def slurm_row(path: Path) -> Row:
    """How Slurm's own estimates of starts did (`--test-only`), from pairs with the truth.

    The file says when jobs started, when Slurm had expected that, and the seconds between; the moment that
    they were asked at is not in it, so that only the error in time can be told: `mae_s`. Raises BadInputError
    for a file without these columns.
    """
    table = pd.read_csv(path)
    missing = [name for name in _NEEDED if name not in table]
    if missing:
        raise BadInputError(
            f"{path} lacks the columns {', '.join(missing)}.",
            remedy="Give true and estimated starts, as Mila's slurm-queue-time-pred publishes them.",
        )
    error_s = np.abs(table["diff_in_s"].to_numpy(dtype=np.float64))
    return {"model": "slurm", "rows": len(table), "mae_s": float(error_s.mean())}


def as_a_job_table(log: QueueLog) -> QueueLog:
    """A queue's log without what a job table lacks: priorities, memory, a site's own figures, and which jobs
    were seen.
    """
    jobs = log.jobs
    plain = {**jobs, "eligible_s": jobs["submit_s"], "mem_mib": np.full(jobs["submit_s"].size, np.nan)}
    return queue_seen_at(log.moments_s, plain, log.names, log.reasons)
