"""How long a scheduler waits for a release to rank its queue."""

from statistics import median
from time import perf_counter

import numpy as np
import pandas as pd

from lucid_models.duration.model import epoch_seconds, job_mappings
from lucid_models.duration.queue_scorer import QueueScorer
from pipeline.validation.contenders import LoadedRelease
from pipeline.validation.replay_inputs import ReplayInputs


def decision_latency_ms(
    release: LoadedRelease, inputs: ReplayInputs, *, queued_jobs: int, repeats: int = 7
) -> float:
    """Median milliseconds to rank `queued_jobs` waiting jobs: all features, both models, and the order.

    The same NumPy scorers serve a live queue; a job is entered into it once, at its submission, and that is
    not part of a decision. Jobs repeat, under new ids, when the window holds fewer.
    """
    rows = np.flatnonzero(inputs.judged)
    chosen = rows[np.arange(queued_jobs) % rows.size]
    queue = inputs.replayed.iloc[chosen].assign(job_id=[f"queued-{i}" for i in range(queued_jobs)])
    jobs = job_mappings(pd.DataFrame(queue))
    at_s = float(epoch_seconds(queue, "submit_time").max())
    gpus = queue["gpus"].to_numpy(dtype=np.float64)
    profiles = [inputs.profiles[row] for row in chosen]
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
    waiting = QueueScorer(release.duration.scorer)
    waiting.add(jobs)
    taken = []
    for _ in range(repeats + 1):
        began = perf_counter()
        estimated_s = waiting.estimate(at_s)
        release.packing.predict(*metrics.T)
        np.argsort(estimated_s * gpus, kind="stable")
        taken.append(1_000.0 * (perf_counter() - began))
    return float(median(taken[1:]))  # the first round warms the caches
