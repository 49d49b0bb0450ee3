"""Figures of merit of a simulated schedule (terms: docs/concepts.md)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd


def percentile(values: np.ndarray, percent: float) -> float:
    """Return a percentile by linear interpolation; 0 for no values."""
    return float(np.percentile(values, percent)) if len(values) else 0.0


def mean(values: np.ndarray) -> float:
    """Return the mean; 0 for no values."""
    return float(np.mean(values)) if len(values) else 0.0


def schedule_summary(jobs: pd.DataFrame, *, total_gpus: int, held_gpu_s: float) -> dict[str, Any]:
    """Summarise a table of completed jobs (`simulator.result.JOB_COLUMNS`).

    `held_gpu_s` is the GPU time that was occupied; GPUs that two jobs share count once. Utilisation is its
    share of all GPUs' time from the first submission to the last completion.
    """
    jct = jobs["jct_s"].to_numpy()
    queuing = jobs["queuing_delay_s"].to_numpy()
    makespan = float(jobs["end_time_s"].max() - jobs["submit_time_s"].min()) if len(jobs) else 0.0
    capacity = total_gpus * makespan
    return {
        "jobs": len(jobs),
        "mean_jct_s": mean(jct),
        "median_jct_s": percentile(jct, 50),
        "p999_jct_s": percentile(jct, 99.9),
        "mean_queuing_delay_s": mean(queuing),
        "median_queuing_delay_s": percentile(queuing, 50),
        "p999_queuing_delay_s": percentile(queuing, 99.9),
        "max_queuing_delay_s": float(queuing.max()) if len(jobs) else 0.0,
        "queued_jobs": int((queuing > 0).sum()),
        "makespan_s": makespan,
        "utilisation_pct": 100 * held_gpu_s / capacity if capacity else 0.0,
        "preemptions": int(jobs["preemptions"].sum()),
        "colocated_jobs": int(jobs["colocated"].sum()),
        "profiled_jobs": int(jobs["profiled"].sum()),
        "ended_in_profiling": int(jobs["ended_in_profiling"].sum()),
        "overhead_gpu_s": float((jobs["overhead_s"] * jobs["gpus"]).sum()),
        "lost_gpu_s": float((jobs["lost_s"] * jobs["gpus"]).sum()),
    }


def by_group(jobs: pd.DataFrame, column: str) -> list[Mapping[str, Any]]:
    """Summarise by `virtual_cluster` or `user`, in the order of names; rows without a name are one group."""
    names = jobs[column].astype("object").where(jobs[column].notna(), "(unknown)")
    return [
        {
            column: str(name),
            "jobs": len(group),
            "mean_jct_s": mean(group["jct_s"].to_numpy()),
            "mean_queuing_delay_s": mean(group["queuing_delay_s"].to_numpy()),
            "p999_queuing_delay_s": percentile(group["queuing_delay_s"].to_numpy(), 99.9),
            "gpu_s": float((group["duration_s"] * group["gpus"]).sum()),
        }
        for name, group in jobs.groupby(names, sort=True)
    ]
