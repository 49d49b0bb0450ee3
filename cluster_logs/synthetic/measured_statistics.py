"""The figures that studies of GPU clusters publish, measured on a job table (Helios, Section 3).

Only GPU jobs with a known run time count. Shares are fractions of 1, times are seconds.
"""

import numpy as np
import pandas as pd

_FAMILY = r"\d+$"


def measure_statistics(jobs: pd.DataFrame, nodes: pd.DataFrame, days: int) -> dict[str, float]:
    """Return the statistics of a log whose submissions span `days` days, on clusters of the given nodes.

    `jobs` follows JOB_SCHEMA and `nodes` has virtual_cluster, nodes and gpus_per_node.
    """
    gpu_jobs = jobs[(jobs["gpus"] > 0) & jobs["duration_s"].notna()]
    gpus = gpu_jobs["gpus"].to_numpy()
    run_s = gpu_jobs["duration_s"].to_numpy()
    gpu_s = gpus * run_s
    total = gpu_s.sum()
    large = gpus >= 8
    family = (
        gpu_jobs["user"].astype(str) + "/" + gpu_jobs["name"].astype(str).str.replace(_FAMILY, "", regex=True)
    )
    members = family.map(family.value_counts())
    by_user = gpu_jobs.assign(gpu_s=gpu_s).groupby("user")["gpu_s"].sum().sort_values(ascending=False)
    hour = np.bincount(gpu_jobs["submit_time"].dt.hour, minlength=24) / (len(gpu_jobs) / 24)
    state = gpu_jobs["state"]
    queuing = gpu_jobs["queuing_delay_s"].to_numpy()
    capacity = int((nodes["nodes"] * nodes["gpus_per_node"]).sum())
    return {
        "gpu_jobs": float(len(gpu_jobs)),
        "gpu_jobs_per_day": len(gpu_jobs) / days,
        "users": float(gpu_jobs["user"].nunique()),
        "virtual_clusters": float(gpu_jobs["virtual_cluster"].nunique()),
        "cluster_gpus": float(capacity),
        "mean_gpus": float(gpus.mean()),
        "max_gpus": float(gpus.max()),
        "single_gpu_job_share": float((gpus == 1).mean()),
        "single_gpu_time_share": float(gpu_s[gpus == 1].sum() / total),
        "large_job_share": float(large.mean()),
        "large_gpu_time_share": float(gpu_s[large].sum() / total),
        "median_duration_s": float(np.median(run_s)),
        "mean_duration_s": float(run_s.mean()),
        "max_duration_days": float(run_s.max() / 86_400),
        "under_1000_s_share": float((run_s < 1_000).mean()),
        "unsuccessful_share": float((state != "COMPLETED").mean()),
        "failed_share": float((state == "FAILED").mean()),
        "failed_gpu_time_share": float(gpu_s[(state == "FAILED").to_numpy()].sum() / total),
        "top_5_pct_users_gpu_time_share": float(
            by_user.iloc[: max(1, round(0.05 * len(by_user)))].sum() / total
        ),
        "recurring_job_share": float((members > 1).mean()),
        "night_rate": float(hour[3:7].mean()),
        "before_lunch_rate": float(hour[11]),
        "lunch_rate": float(hour[12]),
        "after_lunch_rate": float(hour[13]),
        "before_dinner_rate": float(hour[17]),
        "dinner_rate": float(hour[18]),
        "after_dinner_rate": float(hour[19]),
        "utilisation": utilisation(gpu_jobs, capacity, days),
        "mean_queuing_delay_s": float(queuing.mean()),
        "median_queuing_delay_s": float(np.median(queuing)),
        "p99_queuing_delay_s": float(np.quantile(queuing, 0.99)),
        "queued_job_share": float((queuing > 0).mean()),
    }


def utilisation(jobs: pd.DataFrame, capacity: int, days: int) -> float:
    """Return busy GPU time / GPU time there is, in the second half of the log's days.

    The first half is left out because the log opens on an empty cluster.
    """
    first = jobs["submit_time"].min().normalize()
    begin, end = first + pd.Timedelta(days=days / 2), first + pd.Timedelta(days=days)
    overlap = jobs["end_time"].clip(upper=end) - jobs["start_time"].clip(lower=begin)
    busy_s = np.clip(overlap.dt.total_seconds().to_numpy(), 0.0, None)
    return float((busy_s * jobs["gpus"].to_numpy()).sum() / (capacity * days * 43_200))
