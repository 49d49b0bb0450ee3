"""Estimates from the user's history (Tsafrir, Etsion, Feitelson, TPDS '07): no model, hard to beat.

A user's next job is taken to run as long as the mean of the user's last two jobs that had ended by its
submission. Where that is not known, the estimate falls back to

1. the mean of the ended jobs with the same GPU demand (what Lucid does for a new user, section 3.4),
2. the mean of all ended jobs,
3. one hour, while nothing has ended yet.

In a log without users, "the user" is the pair of virtual cluster and GPU demand.
"""

from collections import deque
from collections.abc import Hashable

import numpy as np
import pandas as pd

from foundation.errors import BadInputError
from simulator.workload import Workload

LAST_JOBS = 2
NOTHING_KNOWN_S = 3600.0


class UserHistory:
    """What has ended so far, and what follows from it for a user's next job."""

    def __init__(self) -> None:
        self._last: dict[Hashable, deque[float]] = {}
        self._by_gpus: dict[int, tuple[float, int]] = {}
        self._total_s, self._count = 0.0, 0

    def ended(self, user: str | None, virtual_cluster: str, gpus: int, duration_s: float) -> None:
        """Learn that a job has ended, having run for `duration_s`."""
        self._learn(_user_key(user, virtual_cluster, gpus), gpus, duration_s)

    def _learn(self, key: Hashable, gpus: int, duration_s: float) -> None:
        self._last.setdefault(key, deque(maxlen=LAST_JOBS)).append(duration_s)
        sum_s, jobs = self._by_gpus.get(gpus, (0.0, 0))
        self._by_gpus[gpus] = (sum_s + duration_s, jobs + 1)
        self._total_s, self._count = self._total_s + duration_s, self._count + 1

    def of_user(self, user: str | None, virtual_cluster: str, gpus: int) -> float | None:
        """Return the mean run time (s) of the user's last two ended jobs; None before the first has ended."""
        mine = self._last.get(_user_key(user, virtual_cluster, gpus))
        return sum(mine) / len(mine) if mine else None

    def estimate_s(self, user: str | None, virtual_cluster: str, gpus: int) -> float:
        """Return the estimated run time (s) of a job, by the rule or its fall-backs."""
        mine = self.of_user(user, virtual_cluster, gpus)
        if mine is not None:
            return mine
        if gpus in self._by_gpus:
            sum_s, jobs = self._by_gpus[gpus]
            return sum_s / jobs
        return self._total_s / self._count if self._count else NOTHING_KNOWN_S


def user_history_estimates(
    workload: Workload, *, history: pd.DataFrame | None = None, ends_s: np.ndarray | None = None
) -> np.ndarray:
    """Return one estimated duration (s) a job of the workload, from what had ended by its submission.

    `history` is a job table (JOB_SCHEMA) of earlier jobs, with their recorded end times; a row without a
    duration or an end, and a row from the workload's own time (submitted at or after its origin), are not
    used. `ends_s` holds when each job of the workload ended according to the log, in seconds from the
    workload's origin; without it a job counts as ended at submission + duration, as if it had never waited.
    Nothing that ends after a job's submission touches its estimate.
    """
    if ends_s is not None and len(ends_s) != len(workload):
        raise BadInputError(f"ends_s holds {len(ends_s)} values for {len(workload)} jobs.")
    # (end, 0 history or 1 workload, position, user key, GPUs, duration): sorted, so that the result does not
    # depend on the order of rows.
    ended: list[tuple[float, int, int, Hashable, int, float]] = []
    if history is not None and workload.origin is not None:
        ended += _ended_before(history, workload.origin)
    for i, job in enumerate(workload.jobs):
        if job.cancel_time_s is not None:
            continue  # it never ran in the log: there is no run time to learn
        end_s = job.submit_time_s + job.duration_s if ends_s is None else float(ends_s[i])
        if not np.isnan(end_s):
            key = _user_key(job.user, job.virtual_cluster, job.gpus)
            ended.append((end_s, 1, i, key, job.gpus, job.duration_s))
    ended.sort(key=lambda row: row[:3])

    past = UserHistory()
    estimates = np.empty(len(workload))
    learned = 0
    for i, job in enumerate(workload.jobs):
        while learned < len(ended) and ended[learned][0] <= job.submit_time_s:
            past._learn(*ended[learned][3:])
            learned += 1
        estimates[i] = past.estimate_s(job.user, job.virtual_cluster, job.gpus)
    return estimates


def _user_key(user: str | None, virtual_cluster: str, gpus: int) -> Hashable:
    return ("user", user) if user is not None else ("demand", virtual_cluster, gpus)


def _ended_before(
    history: pd.DataFrame, origin: pd.Timestamp
) -> list[tuple[float, int, int, Hashable, int, float]]:
    """Rows of the history from before the workload's time; ends in seconds from its origin."""
    submit = pd.to_datetime(history["submit_time"], utc=True)
    end = pd.to_datetime(history["end_time"], utc=True)
    duration = pd.to_numeric(history["duration_s"], errors="coerce")
    usable = ((submit < origin) & end.notna() & duration.notna() & (history["gpus"] > 0)).to_numpy()
    users = history["user"] if "user" in history.columns else pd.Series([None] * len(history))
    seconds = (end - origin).dt.total_seconds().to_numpy()
    return [
        (
            float(seconds[row]),
            0,
            int(row),
            _user_key(
                None if pd.isna(users.iloc[row]) else str(users.iloc[row]),
                str(history["virtual_cluster"].iloc[row]),
                int(history["gpus"].iloc[row]),
            ),
            int(history["gpus"].iloc[row]),
            float(duration.iloc[row]),
        )
        for row in np.flatnonzero(usable)
    ]
