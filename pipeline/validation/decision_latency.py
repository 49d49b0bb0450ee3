"""How long a scheduler waits for a release to rank its queue."""

from collections.abc import Mapping
from copy import deepcopy
from statistics import median
from time import process_time
from typing import Any

import numpy as np
import pandas as pd

from lucid_models.duration.model import epoch_seconds, job_mappings
from lucid_models.duration.queue_scorer import QueueScorer
from lucid_models.releases.lifecycle import ReleaseModels
from lucid_models.scoring import DurationScorer
from pipeline.validation.replay_inputs import ReplayInputs

_BETWEEN_S = 2.0  # from one decision to the next
_REPEATS = 7


def decision_latency_ms(release: ReleaseModels, inputs: ReplayInputs, *, queued_jobs: int) -> float:
    """Median milliseconds of processor time to rank `queued_jobs` jobs: all features, both models, the order.

    A scheduler on a machine of its own waits for as long; what else runs where the gate judges is not in it.
    The same NumPy scorers serve a live queue; a job is entered into it once, at its submission, and that is
    not part of a decision. Between two decisions time passes and a job of the queue's kind runs and ends, as
    it does in a cluster: what is asked again unchanged would only be looked up. Jobs repeat, under new ids,
    when the window holds fewer.
    """
    rows = np.flatnonzero(inputs.judged)
    queued_rows = rows[np.arange(queued_jobs) % rows.size]
    queue = inputs.replayed.iloc[queued_rows].assign(job_id=[f"queued-{i}" for i in range(queued_jobs)])
    jobs = job_mappings(pd.DataFrame(queue))
    at_s = float(epoch_seconds(queue, "submit_time").max())
    gpus = queue["gpus"].to_numpy(dtype=np.float64)
    profiles = [inputs.profiles[row] for row in queued_rows]
    metrics = np.array(
        [
            (0.0, 0.0, 0.0, 0.0)
            if profile is None
            else (
                profile.gpu_util_pct,
                profile.gpu_mem_util_pct,
                profile.gpu_mem_mib,
                float(profile.amp),
            )
            for profile in profiles
        ]
    )
    scorer = deepcopy(release.duration.scorer)  # the release's own learns nothing from this
    waiting = QueueScorer(scorer)
    waiting.add(jobs)
    latencies_ms = []
    for number in range(_REPEATS + 1):
        at_s += _BETWEEN_S
        _pass_by(scorer, jobs[7 * number % len(jobs)], f"passing-{number}", at_s)
        began = process_time()
        estimated_s = waiting.estimate(at_s)
        release.packing.predict(*metrics.T)
        np.argsort(estimated_s * gpus, kind="stable")
        latencies_ms.append(1_000.0 * (process_time() - began))
    return float(median(latencies_ms[1:]))  # the first round warms the caches


def _pass_by(scorer: DurationScorer, like: Mapping[str, Any], job_id: str, end_s: float) -> None:
    """Let a job with the keys of another come, run and end, all since the last decision."""
    job = {**like, "job_id": job_id, "submit_time_s": end_s - _BETWEEN_S}
    scorer.state.observe_submit(job)
    scorer.state.observe_start(job_id, end_s - _BETWEEN_S)
    scorer.state.observe_end({**job, "end_time_s": end_s, "duration_s": _BETWEEN_S})
