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
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np

from foundation.errors import BadInputError
from simulator.workload.workload import Workload

if TYPE_CHECKING:  # tsafrir_easy decides on a live cluster, where pandas is not installed
    import pandas as pd

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
        key = _user_key(user, virtual_cluster, gpus)
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


def _user_key(user: str | None, virtual_cluster: str, gpus: int) -> Hashable:
    return ("user", user) if user is not None else ("demand", virtual_cluster, gpus)


# A job that has ended: (end, 0 history or 1 workload, position), and what `UserHistory.ended` learns of it.
_Ended = tuple[tuple[float, int, int], tuple[str | None, str, int, float]]


def user_history_estimates(
    workload: Workload,
    *,
    history: "pd.DataFrame | None" = None,
    history_until: datetime | None = None,
    ends_s: np.ndarray | None = None,
) -> np.ndarray:
    """Return one estimated duration (s) a job of the workload, from what had ended by its submission.

    `history` is a job table (JOB_SCHEMA) of earlier jobs, with their recorded end times; a row without a
    duration or an end, and a row submitted at or after `history_until` (default: the workload's origin), are
    not used. `ends_s` holds when each job of the workload ended according to the log, in seconds from the
    workload's origin; without it a job counts as ended at submission + duration, as if it had never waited.
    Nothing that ends after a job's submission touches its estimate.
    """
    if ends_s is not None and len(ends_s) != len(workload):
        raise BadInputError(f"ends_s holds {len(ends_s)} values for {len(workload)} jobs.")
    ended: list[_Ended] = []
    if history is not None and workload.origin is not None:
        ended += _ended_before(history, workload.origin, history_until or workload.origin)
    jobs = workload.columns
    users, clusters = jobs.user.tolist(), jobs.virtual_cluster.tolist()
    gpus, submitted_s, ran_s = jobs.gpus.tolist(), jobs.submit_time_s.tolist(), jobs.duration_s.tolist()
    end_s = jobs.submit_time_s + jobs.duration_s if ends_s is None else np.asarray(ends_s, dtype=np.float64)
    for i in np.flatnonzero(~jobs.withdrawn & ~np.isnan(end_s)).tolist():  # the others never ran in the log
        ended.append(((float(end_s[i]), 1, i), (users[i], clusters[i], gpus[i], ran_s[i])))
    ended.sort(key=lambda row: row[0])  # so that the result does not depend on the order of rows

    past = UserHistory()
    estimates = np.empty(len(workload))
    learned = 0
    for i, now_s in enumerate(submitted_s):
        while learned < len(ended) and ended[learned][0][0] <= now_s:
            past.ended(*ended[learned][1])
            learned += 1
        estimates[i] = past.estimate_s(users[i], clusters[i], gpus[i])
    return estimates


def _ended_before(
    history: "pd.DataFrame", origin: "pd.Timestamp", until: "datetime | pd.Timestamp"
) -> list[_Ended]:
    """Rows of the history submitted before a moment; ends in seconds from the workload's origin."""
    import pandas as pd

    submit = pd.to_datetime(history["submit_time"], utc=True)
    end = pd.to_datetime(history["end_time"], utc=True)
    duration = pd.to_numeric(history["duration_s"], errors="coerce")
    usable = (
        (submit < pd.Timestamp(until)) & end.notna() & duration.notna() & (history["gpus"] > 0)
    ).to_numpy()
    users = history["user"] if "user" in history.columns else pd.Series([None] * len(history))
    seconds = (end - origin).dt.total_seconds().to_numpy()
    return [
        (
            (float(seconds[row]), 0, int(row)),
            (
                None if pd.isna(users.iloc[row]) else str(users.iloc[row]),
                str(history["virtual_cluster"].iloc[row]),
                int(history["gpus"].iloc[row]),
                float(duration.iloc[row]),
            ),
        )
        for row in np.flatnonzero(usable)
    ]
