"""Run time estimates for the gate's rival policies, each from what had ended when a job was submitted.

They are made here, not from the challenger's features, so that a broken challenger cannot spoil what it is
compared with.
"""

import heapq
from collections.abc import Callable, Hashable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lucid_models.duration import epoch_seconds
from lucid_models.job_keys import name_family

Floats = NDArray[np.float64]
UNKNOWN_S = 3_600.0  # before any job of the log has ended: an hour, for lack of anything better
NAMED_DECAY = 0.7  # weight of what was known when a similarly named job ends (newer jobs count more)


def known_from_s(jobs: pd.DataFrame) -> Floats:
    """When each job's run time was known, in Unix seconds: its end in the log; NaN where it has none.

    Logs without ends tell when a job was submitted, how long it waited (0 where unknown) and how long it ran.
    """
    submit, end = epoch_seconds(jobs, "submit_time"), epoch_seconds(jobs, "end_time")
    wait = np.zeros(len(jobs))
    if "queuing_delay_s" in jobs.columns:
        wait = np.nan_to_num(jobs["queuing_delay_s"].to_numpy(dtype=np.float64, na_value=np.nan), nan=0.0)
    run = jobs["duration_s"].to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.isnan(end), submit + np.maximum(wait, 0.0) + run, end)


def helios_rolling_s(jobs: pd.DataFrame) -> Floats:
    """Helios' rolling estimate P_R of every job (SC '21, section 4.2.2), shape (jobs,), finite and positive.

    `jobs` are a job table's rows in order of submission, history first. A user's similarly named jobs (same
    name but for digits): their exponentially decayed mean; else the user's mean at that GPU demand; else the
    mean of all jobs with that demand. Where the log has no users, the virtual cluster stands for the user.
    """
    users, families = _texts(jobs, "user"), _texts(jobs, "name")
    clusters, gpus = _texts(jobs, "virtual_cluster"), jobs["gpus"].to_numpy(dtype=np.int64)
    owner: list[Hashable] = [
        ("user", user) if user is not None else ("virtual_cluster", cluster)
        for user, cluster in zip(users, clusters, strict=True)
    ]
    family = [None if name is None else name_family(name) for name in families]
    decayed: dict[Hashable, float] = {}
    sums: dict[Hashable, list[float]] = {}

    def learn(row: int, duration_s: float) -> None:
        if family[row] is not None:
            key = (owner[row], family[row])
            before = decayed.get(key)
            decayed[key] = (
                duration_s if before is None else NAMED_DECAY * before + (1 - NAMED_DECAY) * duration_s
            )
        for level in ((owner[row], gpus[row]), (gpus[row],), ()):
            total = sums.setdefault(level, [0.0, 0.0])
            total[0] += duration_s
            total[1] += 1.0

    def estimate(row: int) -> float:
        named = decayed.get((owner[row], family[row]))
        if named is not None:
            return named
        for level in ((owner[row], gpus[row]), (gpus[row],), ()):
            total = sums.get(level)
            if total is not None:
                return total[0] / total[1]
        return UNKNOWN_S

    return _replay(jobs, learn, estimate)


def _replay(
    jobs: pd.DataFrame, learn: Callable[[int, float], None], estimate: Callable[[int], float]
) -> Floats:
    """Submissions in order; before each, learn the run times that were known by then."""
    submit = epoch_seconds(jobs, "submit_time")
    known = known_from_s(jobs)
    duration = jobs["duration_s"].to_numpy(dtype=np.float64, na_value=np.nan)
    running: list[tuple[float, int]] = []
    out = np.empty(len(jobs))
    for row in np.argsort(submit, kind="stable").tolist():
        while running and running[0][0] <= submit[row]:
            _, ended = heapq.heappop(running)
            learn(ended, float(duration[ended]))
        out[row] = max(estimate(row), 1.0)
        if np.isfinite(known[row]) and duration[row] >= 0:
            heapq.heappush(running, (float(known[row]), row))
    return out


def _texts(jobs: pd.DataFrame, column: str) -> Sequence[str | None]:
    if column not in jobs.columns:
        return [None] * len(jobs)
    return [None if pd.isna(value) or value == "" else str(value) for value in jobs[column]]
