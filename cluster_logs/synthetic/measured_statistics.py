"""The figures that studies of GPU clusters publish, measured on a made log (Helios, section 3).

What a log says is measured by `cluster_logs/log_statistics`; here stand the generator's names for it. Only
GPU jobs with a known run time count. Shares are fractions of 1, times are seconds.
"""

from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from cluster_logs.log_statistics import statistics
from cluster_logs.log_statistics.capacity import Capacity, capacity_of
from cluster_logs.log_statistics.observed_log import (
    DAY_S,
    ObservedLog,
    Window,
    as_columns,
    running_in,
)
from cluster_logs.log_statistics.occupancy import occupancy

_FAMILY = r"\d+$"
_UTC = ZoneInfo("UTC")


def measure_statistics(jobs: pd.DataFrame, nodes: pd.DataFrame, days: int) -> dict[str, float]:
    """Return the statistics of a log with submissions over `days` days, on clusters of the given nodes.

    `jobs` follows JOB_SCHEMA and `nodes` has virtual_cluster, nodes and gpus_per_node.
    """
    gpu_jobs = jobs[(jobs["gpus"] > 0) & jobs["duration_s"].notna()]
    log = _observed(gpu_jobs, capacity_of(nodes.assign(from_s=-np.inf)), 0, days)
    family = (
        gpu_jobs["user"].astype(str) + "/" + gpu_jobs["name"].astype(str).str.replace(_FAMILY, "", regex=True)
    )
    members = family.map(family.value_counts())
    by_hour = statistics.submissions_by_hour(log)["gpu_jobs_per_h"].to_numpy()
    hour = by_hour / by_hour.mean()
    size, gpu_time = statistics.size_statistics(log), statistics.gpu_time_statistics(log)
    run, ended, queued = (
        statistics.duration_statistics(log),
        statistics.state_statistics(log),
        statistics.waiting_statistics(log),
    )
    held = statistics.user_statistics(log)
    return {
        "gpu_jobs": float(len(gpu_jobs)),
        "gpu_jobs_per_day": len(gpu_jobs) / days,
        "users": held["users"],
        "virtual_clusters": float(gpu_jobs["virtual_cluster"].nunique()),
        "cluster_gpus": float((nodes["nodes"] * nodes["gpus_per_node"]).sum()),
        "mean_gpus": size["mean_gpus"],
        "max_gpus": size["max_gpus"],
        "single_gpu_job_share": size["single_gpu_jobs_pct"] / 100,
        "single_gpu_time_share": gpu_time["single_gpu_jobs_pct"] / 100,
        "large_job_share": size["large_jobs_pct"] / 100,
        "large_gpu_time_share": gpu_time["large_jobs_pct"] / 100,
        "median_duration_s": run["median_s"],
        "mean_duration_s": run["mean_s"],
        "max_duration_days": run["max_days"],
        "under_1000_s_share": run["under_1000_s_pct"] / 100,
        "unsuccessful_share": ended["unsuccessful_pct"] / 100,
        "failed_share": ended["failed_pct"] / 100,
        "failed_gpu_time_share": statistics.state_time_statistics(log)["failed_pct"] / 100,
        "top_5_pct_users_gpu_time_share": held["top_5_pct_gpu_time_pct"] / 100,
        "recurring_job_share": float((members > 1).mean()),
        "night_rate": float(hour[3:7].mean()),
        "before_lunch_rate": float(hour[11]),
        "lunch_rate": float(hour[12]),
        "after_lunch_rate": float(hour[13]),
        "before_dinner_rate": float(hour[17]),
        "dinner_rate": float(hour[18]),
        "after_dinner_rate": float(hour[19]),
        "utilisation": _utilisation(gpu_jobs, log.capacity, days),
        "mean_queuing_delay_s": queued["mean_s"],
        "median_queuing_delay_s": queued["median_s"],
        "p99_queuing_delay_s": queued["p99_s"],
        "queued_job_share": queued["queued_jobs_pct"] / 100,
    }


def _utilisation(jobs: pd.DataFrame, capacity: Capacity | None, days: int) -> float:
    """Mean utilisation in the second half of the log's days: the log opens on an empty cluster."""
    return float(occupancy(_observed(jobs, capacity, days / 2, days)).ratio.mean())


def _observed(
    jobs: pd.DataFrame, capacity: Capacity | None, from_day: float, until_day: float
) -> ObservedLog:
    """The log in days from the midnight (UTC) before its first submission on."""
    columns = as_columns(jobs)
    midnight_s = float(columns["submit_s"].min() // DAY_S * DAY_S)
    window = Window(midnight_s + from_day * DAY_S, midnight_s + until_day * DAY_S, _UTC)
    return ObservedLog("made", window, columns, running_in(columns, window), capacity)
