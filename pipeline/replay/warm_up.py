"""Which jobs fill a cluster before the days that count: every replay begins warm, and in this one way.

The jobs of the last `WARM_UP_DAYS` with jobs before the first counted moment are replayed under the policy
itself, on the nodes that are asked about. So are the jobs that, by the log, were there when those days began
though they had been submitted before: one that ran comes when it began to run, one that waited when the days
begin. None of them is counted (`Scenario.counted_from_s`).
"""

from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cluster_logs.busy_days import BusyDays
from foundation.errors import BadInputError
from simulator.scenario.rules import DEFAULT, Rules
from simulator.workload.job_columns import ARRIVAL

WARM_UP_DAYS = 2.0
MOST_WARM_UP_DAYS = 365.0


@dataclass(frozen=True)
class WarmJobs:
    """Jobs to replay: those that fill the cluster, and those that count; `remark` says how many fill it."""

    jobs: pd.DataFrame  # with the column ARRIVAL where one comes to the replay later than it was submitted
    counted: NDArray[np.bool_]  # which rows of `jobs` count
    earlier: pd.DataFrame  # the jobs before the counted ones that are not replayed: history to learn from
    since: datetime  # when the warm-up begins, or the first counted moment
    counted_from: datetime | None  # None: all of `jobs` count
    remark: str | None

    @property
    def warm_up_jobs(self) -> int:
        """How many fill the cluster without being counted."""
        return int((~self.counted).sum())


def check_warm_up_days(days: float) -> float:
    """Return how many days of jobs fill the cluster; 0: none do. Raises BadInputError for no such number."""
    if isinstance(days, bool) or not 0 <= days <= MOST_WARM_UP_DAYS:
        raise BadInputError(f"warm_up_days is {days!r}.", remedy=f"Use 0 to {MOST_WARM_UP_DAYS:g}.")
    return days


def warm_up_days_of(rules: Rules, *, cold: bool) -> float:
    """Return how many days of jobs fill a cluster: none where it is to start empty, nor under the rules of
    another simulator, which starts so.
    """
    return 0.0 if cold or rules != DEFAULT else WARM_UP_DAYS


def warm_up_start(jobs: pd.DataFrame, start: datetime, days: float) -> datetime:
    """Return the moment from which on so many days with jobs lie before `start` (UTC)."""
    submit = pd.to_datetime(jobs["submit_time"], utc=True)
    return BusyDays(submit.dt.date.unique().tolist()).before(start, check_warm_up_days(days))


def there_at(jobs: pd.DataFrame, at: datetime) -> NDArray[np.bool_]:
    """Say which jobs, by the log, were submitted before a moment and ran or waited then; shape (jobs,).

    A log without start and end times has jobs begin when they are submitted.
    """
    ends = _ends(jobs)
    before = pd.to_datetime(jobs["submit_time"], utc=True) < at
    return (before & (ends > at)).to_numpy(dtype=bool)


def warm_jobs(
    jobs: pd.DataFrame, start: datetime, end: datetime | None = None, *, warm_up_from: datetime
) -> WarmJobs:
    """Return the jobs submitted in [start, end) with those that fill the cluster before them.

    `jobs` are all jobs of the log, as a job table, and `warm_up_from` begins the warm-up; where it is `start`
    the cluster starts empty.
    """
    submit = pd.to_datetime(jobs["submit_time"], utc=True)
    in_window = submit >= start
    if end is not None:
        in_window &= submit < end
    cold = not warm_up_from < start
    fills = (submit >= warm_up_from) & (submit < start)
    carried = np.zeros(len(jobs), dtype=bool) if cold else there_at(jobs, warm_up_from)
    chosen = (in_window | fills).to_numpy(dtype=bool) | carried
    earlier = jobs[(submit < start).to_numpy(dtype=bool) & ~chosen]
    replayed, counted, carried = jobs[chosen], in_window.to_numpy(dtype=bool)[chosen], carried[chosen]
    if carried.any():
        told = bool(jobs["start_time"].notna().any())  # then a job without a start only waited
        began = pd.to_datetime(replayed["start_time"], utc=True) if told else submit[chosen]
        arrival = began.where(began < warm_up_from, pd.Timestamp(warm_up_from))
        replayed = replayed.assign(**{ARRIVAL: arrival.where(carried)})
    return WarmJobs(
        replayed.reset_index(drop=True),
        counted,
        earlier.reset_index(drop=True),
        warm_up_from,
        None if counted.all() else start,
        _remark(counted, carried, warm_up_from, some_earlier=bool((submit < start).any())),
    )


def _ends(jobs: pd.DataFrame) -> "pd.Series[pd.Timestamp]":
    """When each job ended, or left the queue; NaT where it is not known."""
    submit = pd.to_datetime(jobs["submit_time"], utc=True)
    began = pd.to_datetime(jobs["start_time"], utc=True).fillna(submit)
    ran = pd.to_timedelta(pd.to_numeric(jobs["duration_s"], errors="coerce"), unit="s")
    return pd.to_datetime(jobs["end_time"], utc=True).fillna(began + ran)


def _remark(
    counted: NDArray[np.bool_], carried: NDArray[np.bool_], warm_up_from: datetime, *, some_earlier: bool
) -> str:
    if not some_earlier:
        return "The log has no job before those that count: the cluster starts empty."
    if counted.all():
        return "The cluster starts empty: the jobs before those that count are left out."
    fill, older = int((~counted).sum()), int(carried.sum())
    there = f", and {older:,} of them had been submitted before and were there then" if older else ""
    return (
        f"{fill:,} jobs of the time from {time_text(warm_up_from)} on fill the cluster before the days that "
        f"count; they are not counted{there}."
    )


def time_text(instant: datetime) -> str:
    """Return an instant as people read it."""
    return f"{instant.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
