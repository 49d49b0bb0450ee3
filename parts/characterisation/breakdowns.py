"""The same numbers by virtual cluster, user, size, state, hour of day, month and week."""

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from cluster_logs.log_statistics.observed_log import ObservedLog, with_text_index
from cluster_logs.log_statistics.occupancy import occupancy
from cluster_logs.log_statistics.statistics import final_state
from parts.characterisation.utilisation import ratios

_HOUR_S = 3_600.0
Key = Callable[[ObservedLog], "pd.Series[str]"]
# What each GPU job is counted under.
KEYS: Mapping[str, Key] = {
    "virtual_cluster": lambda log: log.gpu_jobs["virtual_cluster"],
    "user": lambda log: log.gpu_jobs["user"],
    "size": lambda log: log.gpu_jobs["gpus"],
    "state": lambda log: final_state(log.gpu_jobs),
    "hour": lambda log: pd.Series(log.hours, index=log.gpu_jobs.index),
    "month": lambda log: pd.Series(log.months_of(log.gpu_jobs), index=log.gpu_jobs.index),
    "week": lambda log: by_week(log),
}


def by_week(log: ObservedLog) -> "pd.Series[str]":
    """The ISO week of each GPU job's submission."""
    return pd.Series(_weeks(log.window.local(log.gpu_jobs["submit_s"])), index=log.gpu_jobs.index)


def counts(log: ObservedLog, key: Key) -> pd.DataFrame:
    """GPU jobs, their share, and their mean GPUs."""
    grouped = log.gpu_jobs["gpus"].groupby(key(log), observed=True)
    jobs = grouped.size()
    table = pd.DataFrame(
        {"gpu_jobs": jobs, "gpu_jobs_pct": 100 * jobs / jobs.sum(), "mean_gpus": grouped.mean()}
    )
    return _as_text(table)


def times(log: ObservedLog, key: Key) -> pd.DataFrame:
    """GPU time, its share, mean and median duration."""
    keys = key(log)
    gpu_time_s = log.gpu_jobs["gpu_time_s"].groupby(keys, observed=True).sum()
    durations = log.gpu_jobs["duration_s"].groupby(keys, observed=True)
    return _as_text(
        pd.DataFrame(
            {
                "gpu_time_s": gpu_time_s,
                "gpu_time_pct": 100 * gpu_time_s / (gpu_time_s.sum() or np.nan),
                "mean_duration_s": durations.mean(),
                "median_duration_s": durations.median(),
            }
        )
    )


def delays(log: ObservedLog, key: Key) -> pd.DataFrame:
    """Mean queuing delay, and the share of jobs that queued."""
    queue_s, keys = log.gpu_jobs["queue_s"].dropna(), key(log)
    grouped = queue_s.groupby(keys, observed=True)
    queued = (queue_s > 0).groupby(keys, observed=True).mean()
    return _as_text(pd.DataFrame({"mean_queuing_delay_s": grouped.mean(), "queued_jobs_pct": 100 * queued}))


def ends(log: ObservedLog, key: Key) -> pd.DataFrame:
    """Shares of the jobs that completed, were cancelled, failed."""
    ended = final_state(log.gpu_jobs).dropna()
    keys = key(log)
    shares = {
        f"{state}_pct": 100 * (ended == state).groupby(keys, observed=True).mean()
        for state in ("completed", "cancelled", "failed")
    }
    return _as_text(pd.DataFrame(shares))


def days_by_week(log: ObservedLog) -> pd.DataFrame:
    """Days of a week that lie in the window: the first and the last week may be parts of weeks."""
    hours = log.window.local(np.arange(log.window.start_s, log.window.end_s, _HOUR_S))
    count = pd.Series(1, index=range(len(hours))).groupby(_weeks(hours), observed=True).size()
    return _as_text(pd.DataFrame({"days": count / 24}))


def users_by_week(log: ObservedLog) -> pd.DataFrame:
    """Users with a GPU job submitted in a week."""
    users = log.gpu_jobs["user"].cat.codes.groupby(by_week(log), observed=True).nunique()
    return _as_text(pd.DataFrame({"users": users}))


def utilisation_by_week(log: ObservedLog) -> pd.DataFrame:
    """Mean utilisation of a week."""
    held = occupancy(log)
    weeks = _weeks(log.window.local(held.times_s))
    return _as_text(
        pd.DataFrame(
            {"utilisation_pct": 100 * pd.Series(ratios(log, held)).groupby(weeks, observed=True).mean()}
        )
    )


def week_statistics(log: ObservedLog) -> dict[str, float]:
    """How the GPU jobs of whole weeks change: the largest rise and fall against the week before, in %."""
    weeks = counts(log, by_week)["gpu_jobs"].iloc[1:-1]  # the first and the last may be parts of weeks
    if len(weeks) < 2:
        return {}
    changes = (100 * (weeks / weeks.shift() - 1)).dropna()
    return {
        "whole_weeks": len(weeks),
        "largest_rise_pct": float(changes.max()),
        "largest_fall_pct": float(changes.min()),
    }


def _weeks(local: pd.DatetimeIndex) -> "pd.Index[str]":
    monday = (local - pd.to_timedelta(local.day_of_week, unit="D")).normalize()
    codes, mondays = pd.factorize(monday, sort=True)
    calendar = [pd.Timestamp(monday).isocalendar() for monday in mondays]
    names = pd.Index([f"{year}-W{week:02d}" for year, week, _ in calendar])
    return pd.CategoricalIndex(pd.Categorical.from_codes(codes, names))


def _as_text(table: pd.DataFrame) -> pd.DataFrame:
    return table if pd.api.types.is_integer_dtype(table.index.dtype) else with_text_index(table)
