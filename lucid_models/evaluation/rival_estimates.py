"""Run time estimates by others' methods, each from what had ended when a job was submitted.

The gate's rival policies and the evaluation of the duration model use them. They are made here, not from the
model's features, so that a broken model cannot spoil what it is compared with.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cluster_logs.job_facts import OWNERS
from lucid_models.duration.key_statistics import exactly
from lucid_models.duration.model import epoch_seconds
from lucid_models.duration.name_buckets import UNNAMED, log_duration, number_or_nan, size_key
from lucid_models.groups import joint_codes

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

    Logs without ends say when a job was submitted, how long it waited (0 where unknown) and how long it ran.
    """
    submit, end = epoch_seconds(jobs, "submit_time"), epoch_seconds(jobs, "end_time")
    wait = np.zeros(len(jobs))
    if "queuing_delay_s" in jobs.columns:
        wait = np.nan_to_num(jobs["queuing_delay_s"].to_numpy(dtype=np.float64, na_value=np.nan), nan=0.0)
    run = jobs["duration_s"].to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.isnan(end), submit + np.maximum(wait, 0.0) + run, end)


def moving_average_s(jobs: pd.DataFrame, levels: Sequence[Sequence[str]]) -> Floats:
    """Exponential moving average of log run time by the first level with ended jobs of the same key, shape
    (jobs,).

    A level names the parts of its key: user, name, virtual_cluster, size (GPUs, or cores without a GPU). A
    part that the log does not know for a job makes its key unknown; jobs without a name share one.
    """
    parts = {part: _part(jobs, part) for level in levels for part in level}
    known = _known(jobs)
    logarithms = [log_duration(one) for one in _run_times_s(jobs)[known.rows].tolist()]
    estimates = np.full(len(jobs), math.log(UNKNOWN_S))
    unsaid = np.ones(len(jobs), dtype=np.bool_)
    for level in levels:
        keys = _joined([parts[part] for part in level], len(jobs))
        averages: dict[int, float] = {}
        after = np.empty(len(known.rows))
        for turn, (key, logarithm) in enumerate(zip(keys[known.rows].tolist(), logarithms, strict=True)):
            before = averages.get(key, logarithm)
            after[turn] = averages[key] = before + SOFT_WEIGHT * (logarithm - before)
        last = known.last_of(keys)
        said = unsaid & (last >= 0)
        estimates[said] = after[last[said]]
        unsaid &= ~said
    seconds = exactly(math.exp, estimates)
    return np.maximum(np.where(unsaid, UNKNOWN_S, seconds), 1.0)


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
    users, known = _codes(owner_names(jobs)), _known(jobs)
    run_s = _run_times_s(jobs)[known.rows]
    last = known.last_of(users)
    seconds = size_alone_s(jobs)
    some = last >= 0
    # The user's run before each that is known.
    of_runs = users[known.rows]
    in_turn = np.argsort(of_runs, kind="stable")
    earlier = np.full(len(run_s), -1)
    same = of_runs[in_turn[1:]] == of_runs[in_turn[:-1]]
    earlier[in_turn[1:][same]] = in_turn[:-1][same]
    newest, second = last[some], earlier[last[some]]
    seconds[some] = np.where(second < 0, run_s[newest], (run_s[second] + run_s[newest]) / 2)
    return np.maximum(seconds, 1.0)


@dataclass(frozen=True)
class _Known:
    """The jobs in the order in which run times become known, and how many of them are when each job is
    submitted.
    """

    rows: NDArray[np.intp]
    before: NDArray[np.intp]

    def last_of(self, keys: NDArray[np.intp]) -> NDArray[np.intp]:
        """Of each job the turn of the last known run time with its key, shape (jobs,); -1 without one, or
        without a key (-1).
        """
        span = len(self.rows) + 1
        of_known = keys[self.rows] * span + np.arange(len(self.rows))
        in_turn = np.argsort(of_known)
        place = np.searchsorted(of_known[in_turn], keys * span + self.before) - 1
        last = in_turn[place] if len(in_turn) else np.full(len(keys), -1)
        found = (place >= 0) & (keys >= 0)
        found[found] = keys[self.rows[last[found]]] == keys[found]
        return np.where(found, last, -1)


def _known(jobs: pd.DataFrame) -> _Known:
    submit, known_s, run_s = epoch_seconds(jobs, "submit_time"), known_from_s(jobs), _run_times_s(jobs)
    order = np.argsort(submit, kind="stable")
    position = np.empty_like(order)
    position[order] = np.arange(len(order))
    rows = np.flatnonzero(np.isfinite(known_s) & (run_s >= 0))
    # The submission before which it is learned: never the job's own.
    first = np.maximum(np.searchsorted(submit[order], known_s[rows]), position[rows] + 1)
    in_turn = np.lexsort((rows, known_s[rows], first))
    return _Known(rows[in_turn], np.searchsorted(first[in_turn], position, side="right"))


def _run_times_s(jobs: pd.DataFrame) -> Floats:
    run_s: Floats = jobs["duration_s"].to_numpy(dtype=np.float64, na_value=np.nan)
    return run_s


def _part(jobs: pd.DataFrame, part: str) -> NDArray[np.intp]:
    """A number for each job's part of a key; -1 where it is unknown."""
    if part == "user":
        return _codes(owner_names(jobs))
    if part == "name":
        return _codes([UNNAMED if name is None else name for name in texts_or_none(jobs, "name")])
    if part == "virtual_cluster":
        return _codes(texts_or_none(jobs, "virtual_cluster"))
    numbers = (
        jobs[name].map(number_or_nan, na_action="ignore").to_numpy(dtype=np.float64, na_value=np.nan)
        if name in jobs.columns
        else np.full(len(jobs), np.nan)
        for name in ("gpus", "cpus")
    )
    gpus, cpus = (np.nan_to_num(one, nan=-1.0) for one in numbers)
    distinct, of = np.unique(np.stack([np.maximum(gpus, 0.0), cpus]), axis=1, return_inverse=True)
    sizes = [size_key(gpu, None if cpu < 0 else cpu) for gpu, cpu in distinct.T.tolist()]
    return _codes(sizes)[of.ravel()]


def _codes(texts: Sequence[str | None]) -> NDArray[np.intp]:
    return pd.factorize(np.array(texts, dtype=object))[0].astype(np.intp)


def _joined(parts: Sequence[NDArray[np.intp]], jobs: int) -> NDArray[np.intp]:
    """A number for each key that these parts make; -1 where one of them is unknown."""
    unknown = np.zeros(jobs, dtype=np.bool_)
    for part in parts:
        unknown |= part < 0
    codes = joint_codes(list(parts), jobs)
    codes[unknown] = -1
    return codes


def owners(jobs: pd.DataFrame) -> list[Hashable]:
    """Each job's owner, or its virtual cluster where the log does not name one."""
    pairs = zip(owner_names(jobs), texts_or_none(jobs, "virtual_cluster"), strict=True)
    return [("user", owner) if owner is not None else ("virtual_cluster", home) for owner, home in pairs]


def owner_names(jobs: pd.DataFrame) -> list[str | None]:
    """Each job's user, else the account or group that it belongs to; None where the log has none."""
    columns = [texts_or_none(jobs, name) for name in OWNERS]
    return [next((name for name in names if name is not None), None) for names in zip(*columns, strict=True)]


def estimate_causally(
    jobs: pd.DataFrame, learn: Callable[[int, float], None], estimate: Callable[[int], float]
) -> Floats:
    """Return each job's estimate (s, at least 1), made when it is submitted, after learning what is known.

    `learn` gets the row and run time of each job with a run time known by then, in the order of ends.
    """
    known, run_s = _known(jobs), _run_times_s(jobs)
    in_turn = list(zip(known.rows.tolist(), run_s[known.rows].tolist(), strict=True))
    out = np.empty(len(jobs))
    learned = 0
    for row in np.argsort(epoch_seconds(jobs, "submit_time"), kind="stable").tolist():
        for ended, duration_s in in_turn[learned : known.before[row]]:
            learn(ended, duration_s)
        learned = max(learned, int(known.before[row]))
        out[row] = max(estimate(row), 1.0)
    return out


def texts_or_none(jobs: pd.DataFrame, column: str) -> Sequence[str | None]:
    """Return a column of texts; None where one is missing or empty, or the table lacks the column."""
    if column not in jobs.columns:
        return [None] * len(jobs)
    codes, values = pd.factorize(jobs[column])
    texts = [*(None if value == "" else str(value) for value in values), None]  # -1: missing
    return [texts[code] for code in codes.tolist()]
