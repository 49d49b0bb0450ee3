"""How long jobs run (Helios, figures 1(a) and 5)."""

import numpy as np
import pandas as pd

from cluster_logs.characterisation.observed_log import DAY_S, ObservedLog
from cluster_logs.characterisation.shares import cumulative_pct

STEPS_S = tuple(2**power for power in range(22))


def gpu_job_durations(log: ObservedLog) -> pd.DataFrame:
    """Figures 1(a) and 5(a): the share of GPU jobs that run for at most 2^k s, k = 0..21."""
    return _distribution(log.gpu_jobs, "gpu_jobs_pct")


def cpu_job_durations(log: ObservedLog) -> pd.DataFrame:
    """Figure 5(b): the same of CPU jobs."""
    return _distribution(log.cpu_jobs, "cpu_jobs_pct")


def duration_statistics(log: ObservedLog) -> dict[str, float]:
    """Mean, median and longest duration of GPU jobs, and the share below 1,000 s."""
    run_s = log.gpu_jobs["duration_s"].dropna().to_numpy()
    return {
        "mean_s": float(run_s.mean()),
        "median_s": float(np.median(run_s)),
        "p99_s": float(np.quantile(run_s, 0.99)),
        "max_s": float(run_s.max()),
        "max_days": float(run_s.max() / DAY_S),
        "under_1000_s_pct": float(100 * (run_s < 1_000).mean()),
    }


def cpu_duration_statistics(log: ObservedLog) -> dict[str, float]:
    """Mean and median duration of CPU jobs."""
    run_s = log.cpu_jobs["duration_s"].dropna().to_numpy()
    return {"mean_s": float(run_s.mean()), "median_s": float(np.median(run_s))}


def _distribution(jobs: pd.DataFrame, column: str) -> pd.DataFrame:
    shares = cumulative_pct(jobs["duration_s"].dropna(), STEPS_S)
    return pd.DataFrame({column: shares}, index=pd.Index(STEPS_S, name="duration_s"))
