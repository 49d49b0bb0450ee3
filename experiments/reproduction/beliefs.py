"""What policies believe about run times, made from what was known when each job was submitted.

A log's own estimates come first. Where it has none but says who submitted what, the Workload Estimate Model
is trained on the time before the window (Lucid, section 3.5.3), QSSF gets Helios' rolling estimate, and
policies named after Tsafrir get the user's history. Where the log does not say even that, all get the last.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from time import process_time

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from experiments.reproduction.trace import ReproductionTrace
from foundation.progress import Progress, silent
from lucid_models.duration.model import MIN_JOBS, WorkloadEstimateModel
from lucid_models.evaluation.rival_estimates import known_from_s
from lucid_models.qssf.rolling import rolling_estimates_s
from simulator.workload.user_history_estimates import user_history_estimates
from simulator.workload.workload import Workload

Floats = NDArray[np.float64]

STATED, MODEL, USER_HISTORY, ROLLING = "stated", "model", "user_history", "rolling"
WORDS: Mapping[str, str] = {
    STATED: "the log's own estimates",
    MODEL: "our Workload Estimate Model, trained on the time before the window",
    USER_HISTORY: "Tsafrir's estimate: the mean of the user's last two run times",
    ROLLING: "Helios' rolling estimate over the user's similarly named jobs",
}


@dataclass(frozen=True)
class Beliefs:
    """Estimated run times (s) by kind, one a row of `ReproductionTrace.jobs`; `default` is what policies get.

    `model` is the trained model, None where the log does not allow one; `why_no_model` says why. `fit_s` are
    the CPU seconds that training took.
    """

    estimates: Mapping[str, Floats]
    default: str
    by_policy: Mapping[str, str]
    model: WorkloadEstimateModel | None
    why_no_model: str
    fit_s: float

    def of(self, policy: str) -> str:
        """Name the kind of estimates that a policy gets."""
        return self.by_policy.get(policy, self.default)


def form_beliefs(trace: ReproductionTrace, *, progress: Progress = silent) -> Beliefs:
    """Make every kind of estimate that this trace allows."""
    estimates = {USER_HISTORY: tsafrir_s(trace)}
    why, model, fit_s = why_no_model(trace), None, 0.0
    if not why:
        began = process_time()
        model = WorkloadEstimateModel().fit(
            trace.earlier, known_until=trace.jobs["submit_time"].min(), progress=progress
        )
        fit_s = process_time() - began
        estimates[MODEL] = model.predict_causal(trace.jobs, earlier=trace.earlier, progress=progress)
        history = pd.concat([trace.earlier, trace.jobs], ignore_index=True)
        estimates[ROLLING] = rolling_estimates_s(history)[len(trace.earlier) :]
    if trace.has_stated_estimates:
        estimates[STATED] = trace.jobs["estimated_duration_s"].to_numpy(np.float64)
        return Beliefs(estimates, STATED, {}, model, why, fit_s)
    if model is None:
        return Beliefs(estimates, USER_HISTORY, {}, model, why, fit_s)
    by_policy = {"qssf": ROLLING, "tsafrir_easy": USER_HISTORY}
    return Beliefs(estimates, MODEL, by_policy, model, why, fit_s)


def why_no_model(trace: ReproductionTrace) -> str:
    """Say why no duration model can be trained on this trace; "" where it can."""
    if not trace.has_users_and_names:
        return "the log does not say who submitted its jobs and what they are called"
    ended = int((known_from_s(trace.earlier) <= _seconds(trace.jobs["submit_time"].min())).sum())
    if ended < MIN_JOBS:
        return f"only {ended} jobs of the log had ended before the window begins"
    return ""


def tsafrir_s(trace: ReproductionTrace) -> Floats:
    """Tsafrir's user-history estimate of each row of `trace.jobs`, from what had ended in the log."""
    workload = Workload.from_jobs(trace.jobs)
    rows = np.arange(len(workload)) if workload.rows is None else workload.rows
    origin_s = _seconds(trace.jobs["submit_time"].min())
    ended = pd.to_datetime(known_from_s(trace.earlier), unit="s", utc=True)
    estimates = np.empty(len(trace.jobs))
    estimates[rows] = user_history_estimates(
        workload,
        history=trace.earlier.assign(end_time=ended),
        ends_s=known_from_s(trace.jobs)[rows] - origin_s,
    )
    return estimates


def _seconds(instant: pd.Timestamp) -> float:
    return float(pd.Timestamp(instant).timestamp())
