"""Run time estimates by others' methods, each from what had ended when a job was submitted.

The gate's rival policies and the evaluation of the duration model use them. They are made here, not from the
model's features, so that a broken model cannot spoil what it is compared with.
"""

import heapq
import math
from collections.abc import Callable, Hashable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cluster_logs.job_facts import OWNERS
from lucid_models.duration.job_keys import UNNAMED, log_duration, number_or_nan, size_key
from lucid_models.duration.model import epoch_seconds

Floats = NDArray[np.float64]
UNKNOWN_S = 3_600.0  # before any job of the log has ended: an hour, for lack of anything better
SOFT_WEIGHT = 0.3  # of the newest job in a moving average of log run time

SIZE_LEVELS = (("size",), ())
NAME_LEVELS = (
    ("user", "name"),
    ("user", "size"),
    ("name",),
    ("virtual_cluster", "size"),
    ("user",),
    *SIZE_LEVELS,
)


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


def moving_average_s(jobs: pd.DataFrame, levels: Sequence[Sequence[str]]) -> Floats:
    """Exponential moving average of log run time by the first level whose key has ended jobs, shape (jobs,).

    A level names the parts of its key: user, name, virtual_cluster, size (GPUs, or cores without a GPU). A
    part that the log does not know for a job makes its key unknown; jobs without a name share one.
    """
    parts = _parts(jobs)
    keys = [
        [
            None
            if any(parts[part][row] is None for part in level)
            else tuple(parts[part][row] for part in level)
            for row in range(len(jobs))
        ]
        for level in levels
    ]
    averages: list[dict[Hashable, float]] = [{} for _ in levels]

    def learn(row: int, duration_s: float) -> None:
        logarithm = log_duration(duration_s)
        for average, of_level in zip(averages, keys, strict=True):
            key = of_level[row]
            if key is not None:
                before = average.get(key, logarithm)
                average[key] = before + SOFT_WEIGHT * (logarithm - before)

    def estimate(row: int) -> float:
        for average, of_level in zip(averages, keys, strict=True):
            average_s = average.get(of_level[row]) if of_level[row] is not None else None
            if average_s is not None:
                return math.exp(average_s)
        return UNKNOWN_S

    return estimate_causally(jobs, learn, estimate)


def size_alone_s(jobs: pd.DataFrame) -> Floats:
    """The moving average of jobs of the same size: what can be said without users and names."""
    return moving_average_s(jobs, SIZE_LEVELS)


def user_name_s(jobs: pd.DataFrame) -> Floats:
    """The moving average of the user's jobs of the same name, falling back on ever coarser keys."""
    return moving_average_s(jobs, NAME_LEVELS)


def user_history_s(jobs: pd.DataFrame) -> Floats:
    """Mean of the last two run times of the user's jobs (Tsafrir et al., 2007, section 3), shape (jobs,).

    They fall back on the user's own estimate; few logs hold one, so a user with fewer than two ended jobs
    gets the mean of what there is, and a new one the moving average of jobs of that size.
    """
    users = owner_names(jobs)
    unknown = size_alone_s(jobs).tolist()
    last: dict[str, tuple[float, ...]] = {}

    def learn(row: int, duration_s: float) -> None:
        user = users[row]
        if user is not None:
            last[user] = (*last.get(user, ())[-1:], duration_s)

    def estimate(row: int) -> float:
        last_runs_s = last.get(users[row] or "", ())
        return sum(last_runs_s) / len(last_runs_s) if last_runs_s else float(unknown[row])

    return estimate_causally(jobs, learn, estimate)


def _parts(jobs: pd.DataFrame) -> dict[str, list[str | None]]:
    """What the keys of levels are made of, one value a job."""
    cpus = jobs["cpus"].tolist() if "cpus" in jobs.columns else [None] * len(jobs)
    sizes: list[str | None] = []
    for gpus, cores in zip(jobs["gpus"].tolist(), cpus, strict=True):
        cores_or_nan = number_or_nan(None if cores is pd.NA else cores)
        known_gpus = number_or_nan(None if gpus is pd.NA else gpus)
        sizes.append(
            size_key(
                0.0 if math.isnan(known_gpus) else known_gpus,
                None if math.isnan(cores_or_nan) else cores_or_nan,
            )
        )
    return {
        "user": owner_names(jobs),
        "name": [UNNAMED if name is None else name for name in texts_or_none(jobs, "name")],
        "virtual_cluster": list(texts_or_none(jobs, "virtual_cluster")),
        "size": sizes,
    }


def owners(jobs: pd.DataFrame) -> list[Hashable]:
    """Each job's owner, or its virtual cluster where the log does not name one."""
    pairs = zip(owner_names(jobs), texts_or_none(jobs, "virtual_cluster"), strict=True)
    return [("user", owner) if owner is not None else ("virtual_cluster", home) for owner, home in pairs]


def owner_names(jobs: pd.DataFrame) -> list[str | None]:
    """Each job's user, else the account or group that it belongs to; None where the log tells none."""
    columns = [texts_or_none(jobs, name) for name in OWNERS]
    return [next((name for name in names if name is not None), None) for names in zip(*columns, strict=True)]


def estimate_causally(
    jobs: pd.DataFrame, learn: Callable[[int, float], None], estimate: Callable[[int], float]
) -> Floats:
    """Return each job's estimate (s, at least 1), made when it is submitted, after learning what is known.

    `learn` gets the row and run time of each job whose run time is known by then, in the order of ends.
    """
    submit = epoch_seconds(jobs, "submit_time")
    known_from = known_from_s(jobs)
    duration = jobs["duration_s"].to_numpy(dtype=np.float64, na_value=np.nan)
    running: list[tuple[float, int]] = []
    out = np.empty(len(jobs))
    for row in np.argsort(submit, kind="stable").tolist():
        while running and running[0][0] <= submit[row]:
            _, ended = heapq.heappop(running)
            learn(ended, float(duration[ended]))
        out[row] = max(estimate(row), 1.0)
        if np.isfinite(known_from[row]) and duration[row] >= 0:
            heapq.heappush(running, (float(known_from[row]), row))
    return out


def texts_or_none(jobs: pd.DataFrame, column: str) -> Sequence[str | None]:
    """Return a column of texts; None where one is missing or empty, or the table lacks the column."""
    if column not in jobs.columns:
        return [None] * len(jobs)
    return [None if pd.isna(value) or value == "" else str(value) for value in jobs[column]]
