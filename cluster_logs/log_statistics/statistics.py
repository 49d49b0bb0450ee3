"""How many jobs of which size a log has, how long they run and wait, how they end and by which users.

Groups of numbers as Helios gives them (section 3). Users are all that submitted a job, on CPUs or GPUs; one
without any of what is shared holds nothing of it. The job table's final states are Helios' three already:
time-outs and failures of nodes are FAILED there.
"""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from cluster_logs.log_statistics.observed_log import DAY_S, ObservedLog

LARGE_GPUS = 8
FINAL_STATES = ("completed", "cancelled", "failed")
TOP_PCT = (1, 2, 5, 10, 20, 25, 50, 75)


def share_pct(part: float, whole: float) -> float:
    """100 x part / whole; NaN of nothing."""
    return 100.0 * float(part) / float(whole) if whole else float("nan")


def gini(amounts: ArrayLike) -> float:
    """2 sum(i x_i) / (n sum x) - (n + 1) / n, x ascending, i from 1; NaN where there is nothing to share."""
    x = np.sort(np.asarray(amounts, dtype=np.float64))
    n, total = len(x), float(x.sum())
    if n == 0 or total <= 0:
        return float("nan")
    return float(2 * (np.arange(1, n + 1) * x).sum() / (n * total) - (n + 1) / n)


def concentration_curve(amounts: ArrayLike) -> pd.DataFrame:
    """What the most consuming x % hold together; index `population_pct`.

    As Helios' figures 8 and 9(a) draw it: amounts descending against linspace(0, 100, n), so that the first
    stands at 0 %.
    """
    x = np.sort(np.asarray(amounts, dtype=np.float64))[::-1]
    return pd.DataFrame(
        {"held_pct": 100 * np.cumsum(x) / (x.sum() or 1.0)},
        index=pd.Index(np.linspace(0, 100, len(x)), name="population_pct"),
    )


def held_by_top(curve: pd.DataFrame, top_pct: float) -> float:
    """What the top x % hold on a concentration curve, by linear interpolation."""
    return float(np.interp(top_pct, curve.index.to_numpy(), curve["held_pct"].to_numpy()))


def submissions_by_hour(log: ObservedLog) -> pd.DataFrame:
    """Figure 2(b): the mean over days of the GPU jobs submitted in an hour of day, and of their GPUs."""
    hours, jobs, gpus = _counted(log)
    days = log.window.days
    columns = {"gpu_jobs_per_h": jobs, "gpus_per_h": gpus}
    counts = {name: np.bincount(hours, amounts, 24) / days for name, amounts in columns.items()}
    return pd.DataFrame(counts, index=hour_index())


def _counted(log: ObservedLog) -> "tuple[NDArray[np.int64], NDArray[np.float64] | None, NDArray[Any]]":
    if log.bins is not None:
        hours = log.window.local(log.bins["time_s"]).hour.to_numpy().astype(np.int64)
        return hours, log.bins["gpu_jobs"].to_numpy(dtype=np.float64), log.bins["gpus"].to_numpy()
    return log.hours, None, log.gpu_jobs["gpus"].to_numpy()


def hour_index() -> pd.Index:
    """The hours of a day."""
    return pd.RangeIndex(24, name="hour")


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


def waiting_statistics(log: ObservedLog) -> dict[str, float]:
    """Queuing delays of GPU jobs: all pending time, as published. `barred_pct`: the part of it in which the
    cluster would not have started them (begin times, dependencies, holds), where the log tells it.
    """
    jobs = log.gpu_jobs.dropna(subset=["queue_s"])
    queue_s, barred_s = (jobs[name].to_numpy() for name in ("queue_s", "barred_s"))
    is_known = not bool(np.isnan(barred_s).all())
    return {
        "mean_s": float(queue_s.mean()),
        "median_s": float(np.median(queue_s)),
        "p90_s": float(np.quantile(queue_s, 0.9)),
        "p99_s": float(np.quantile(queue_s, 0.99)),
        "max_s": float(queue_s.max()),
        "queued_jobs_pct": float(100 * (queue_s > 0).mean()),
        "total_hours": float(queue_s.sum() / 3_600),
        **({"barred_pct": share_pct(np.nansum(barred_s), queue_s.sum())} if is_known else {}),
    }


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
    return by_state(100 * held / (held.sum() or np.nan), "gpu_time_pct")


def state_statistics(log: ObservedLog) -> dict[str, float]:
    """Shares of GPU jobs by how they ended."""
    shares = shares_of_states(final_state(log.gpu_jobs))
    return {
        **{f"{state}_pct": float(shares[state]) for state in FINAL_STATES},
        "unsuccessful_pct": float(shares["cancelled"] + shares["failed"]),
    }


def state_time_statistics(log: ObservedLog) -> dict[str, float]:
    """Shares of GPU time by how jobs ended."""
    shares = gpu_time_by_state(log)["gpu_time_pct"]
    return {f"{state}_pct": float(shares[state]) for state in FINAL_STATES}


def shares_of_states(ended: "pd.Series[str]") -> "pd.Series[float]":
    """What % of the jobs that ended did so in each of FINAL_STATES."""
    counts = ended.value_counts().reindex(FINAL_STATES, fill_value=0)
    counts.index = pd.Index(FINAL_STATES)
    return 100 * counts / (counts.sum() or np.nan)


def by_state(shares: "pd.Series[float]", column: str) -> pd.DataFrame:
    """Shares of FINAL_STATES as a table of one column."""
    return pd.DataFrame({column: shares.to_numpy()}, index=pd.Index(FINAL_STATES, name="state"))


def gpu_time_of_users(log: ObservedLog) -> "pd.Series[float]":
    """GPU time by user."""
    return summed_by_user(log, log.gpu_jobs, "gpu_time_s")


def user_statistics(log: ObservedLog) -> dict[str, float]:
    """The Gini coefficient of GPU time over users, and what the top users hold."""
    held = gpu_time_of_users(log)
    return {
        "users": len(held),
        "gini_gpu_time": gini(held),
        **held_by_tops(concentration_curve(held), "gpu_time"),
    }


def summed_by_user(log: ObservedLog, jobs: pd.DataFrame, column: str) -> "pd.Series[float]":
    """The sum of a column over the jobs of each user; 0 for users without any."""
    # The categories are all users of the log.
    return jobs[column].groupby(jobs["user"], observed=False).sum()


def held_by_tops(curve: pd.DataFrame, what: str) -> dict[str, float]:
    """What the top TOP_PCT % hold on a concentration curve, as numbers `top_5_pct_WHAT_pct`."""
    return {f"top_{top}_pct_{what}_pct": held_by_top(curve, top) for top in TOP_PCT}
