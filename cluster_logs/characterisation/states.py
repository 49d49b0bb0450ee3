"""How jobs end (Helios, figures 1(b) and 7): completed, cancelled, and everything else that ended, failed.

The job table's states are these already: time-outs and failures of nodes are FAILED there.
"""

import numpy as np
import pandas as pd

from cluster_logs.characterisation.observed_log import ObservedLog
from cluster_logs.characterisation.shares import share_pct

FINAL_STATES = ("completed", "cancelled", "failed")
SIZES_GPUS = (1, 2, 4, 8, 16, 32, 64)
SHORT_FAILURE_S = 120.0  # the limit that Helios' implication 6 proposes for a queue of debugging jobs


def final_state(jobs: pd.DataFrame) -> "pd.Series[str]":
    """`completed`, `cancelled` or `failed` for each job; missing for one that has not ended or does not
    say.
    """
    words = [str(state).lower() for state in jobs["state"].cat.categories]
    code_of = [FINAL_STATES.index(word) if word in FINAL_STATES else -1 for word in words]
    codes = np.array([*code_of, -1], dtype=np.int8)[jobs["state"].cat.codes.to_numpy()]
    return pd.Series(pd.Categorical.from_codes(codes, pd.Index(FINAL_STATES)), index=jobs.index)


def gpu_time_by_state(log: ObservedLog) -> pd.DataFrame:
    """Figure 1(b): the share of GPU time by how the job ended."""
    jobs = log.gpu_jobs
    held = jobs["gpu_time_s"].groupby(final_state(jobs), observed=False).sum()
    return _by_state(100 * held / (held.sum() or np.nan), "gpu_time_pct")


def gpu_jobs_by_state(log: ObservedLog) -> pd.DataFrame:
    """Figure 7(a): the share of GPU jobs by how they ended."""
    return _by_state(_job_shares(final_state(log.gpu_jobs)), "gpu_jobs_pct")


def cpu_jobs_by_state(log: ObservedLog) -> pd.DataFrame:
    """Figure 7(a): the same of CPU jobs."""
    return _by_state(_job_shares(final_state(log.cpu_jobs)), "cpu_jobs_pct")


def states_by_size(log: ObservedLog) -> pd.DataFrame:
    """Figure 7(b): how jobs with exactly 1, 2, 4, 8, 16, 32 and with at least 64 GPUs ended."""
    jobs = log.gpu_jobs
    ended, gpus = final_state(jobs), jobs["gpus"].to_numpy()
    rows = {}
    for size in SIZES_GPUS:
        of_size = gpus >= size if size == SIZES_GPUS[-1] else gpus == size
        rows[f">= {size}" if size == SIZES_GPUS[-1] else str(size)] = _job_shares(ended[of_size])
    frame = pd.DataFrame(rows).T.add_suffix("_pct")
    frame.columns = pd.Index(map(str, frame.columns))
    return frame.rename_axis("gpus")


def state_statistics(log: ObservedLog) -> dict[str, float]:
    """Shares of GPU jobs by how they ended."""
    shares = _job_shares(final_state(log.gpu_jobs))
    return {
        **{f"{state}_pct": float(shares[state]) for state in FINAL_STATES},
        "unsuccessful_pct": float(shares["cancelled"] + shares["failed"]),
    }


def state_time_statistics(log: ObservedLog) -> dict[str, float]:
    """Shares of GPU time by how jobs ended."""
    shares = gpu_time_by_state(log)["gpu_time_pct"]
    return {f"{state}_pct": float(shares[state]) for state in FINAL_STATES}


def failure_statistics(log: ObservedLog) -> dict[str, float]:
    """How soon failed GPU jobs end."""
    run_s = _failed(log)["duration_s"].dropna().to_numpy()
    if not len(run_s):
        return {}
    return {
        "median_duration_s": float(np.median(run_s)),
        "within_2_min_pct": float(100 * (run_s <= SHORT_FAILURE_S).mean()),
    }


def failure_waiting_statistics(log: ObservedLog) -> dict[str, float]:
    """The share of failed GPU jobs that queued longer than they ran."""
    failed = _failed(log).dropna(subset=["duration_s", "queue_s"])
    if failed.empty:
        return {}
    longer = int((failed["queue_s"] > failed["duration_s"]).sum())
    return {"queued_longer_than_ran_pct": share_pct(longer, len(failed))}


def _failed(log: ObservedLog) -> pd.DataFrame:
    jobs = log.gpu_jobs
    return jobs[(final_state(jobs) == "failed").to_numpy()]


def _job_shares(ended: "pd.Series[str]") -> "pd.Series[float]":
    counts = ended.value_counts().reindex(FINAL_STATES, fill_value=0)
    counts.index = pd.Index(FINAL_STATES)
    return 100 * counts / (counts.sum() or np.nan)


def _by_state(shares: "pd.Series[float]", column: str) -> pd.DataFrame:
    return pd.DataFrame({column: shares.to_numpy()}, index=pd.Index(FINAL_STATES, name="state"))
