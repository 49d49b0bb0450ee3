"""How many GPUs jobs ask for (Helios, figure 6)."""

import numpy as np
import pandas as pd

from cluster_logs.characterisation.observed_log import ObservedLog
from cluster_logs.characterisation.shares import FloatArray, cumulative_pct, share_pct

STEPS_GPUS = (1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 56, 64)
LARGE_GPUS = 8
ALL = "all"


def sizes_by_jobs(log: ObservedLog) -> pd.DataFrame:
    """Figure 6(a): the share of GPU jobs with at most so many GPUs."""
    shares = cumulative_pct(log.gpu_jobs["gpus"], (*STEPS_GPUS, np.inf))
    return _by_step("gpu_jobs_pct", shares)


def sizes_by_gpu_time(log: ObservedLog) -> pd.DataFrame:
    """Figure 6(b): the share of GPU time of jobs with at most so many GPUs."""
    timed = log.gpu_jobs.dropna(subset=["gpu_time_s"])
    shares = cumulative_pct(timed["gpus"], (*STEPS_GPUS, np.inf), timed["gpu_time_s"])
    return _by_step("gpu_time_pct", shares)


def size_statistics(log: ObservedLog) -> dict[str, float]:
    """Mean, median and largest size, and the shares of single-GPU and of large jobs (8 GPUs and more)."""
    gpus = log.gpu_jobs["gpus"].to_numpy()
    return {
        "mean_gpus": float(gpus.mean()),
        "median_gpus": float(np.median(gpus)),
        "max_gpus": int(gpus.max()),
        "single_gpu_jobs_pct": float(100 * (gpus == 1).mean()),
        "large_jobs_pct": float(100 * (gpus >= LARGE_GPUS).mean()),
    }


def gpu_time_statistics(log: ObservedLog) -> dict[str, float]:
    """GPU time, and the shares that single-GPU jobs and large jobs take."""
    timed = log.gpu_jobs.dropna(subset=["gpu_time_s"])
    gpus, gpu_time_s = timed["gpus"].to_numpy(), timed["gpu_time_s"].to_numpy()
    total = float(gpu_time_s.sum())
    return {
        "total_s": total,
        "total_gpu_hours": total / 3_600,
        "single_gpu_jobs_pct": share_pct(gpu_time_s[gpus == 1].sum(), total),
        "large_jobs_pct": share_pct(gpu_time_s[gpus >= LARGE_GPUS].sum(), total),
    }


def size_class(gpus: "pd.Series[int]") -> "pd.Series[str]":
    """1, 2-7, 8 or more: jobs on one GPU, on a part of a node, on whole nodes."""
    names = pd.Index(["1 GPU", "2-7 GPUs", "8 and more GPUs"])
    codes = np.digitize(gpus.to_numpy(), [2, LARGE_GPUS])
    return pd.Series(pd.Categorical.from_codes(codes, names), index=gpus.index)


def _by_step(column: str, shares: FloatArray) -> pd.DataFrame:
    steps = [*map(str, STEPS_GPUS), ALL]
    return pd.DataFrame({column: shares}, index=pd.Index(steps, name="gpus"))
