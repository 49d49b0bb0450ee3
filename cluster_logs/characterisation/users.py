"""How users share the cluster and its queues (Helios, figures 8 and 9).

Users are all that submitted a job, on CPUs or GPUs; one without any of what is shared holds nothing of it.
"""

import numpy as np
import pandas as pd

from cluster_logs.characterisation.observed_log import ObservedLog
from cluster_logs.characterisation.shares import concentration_curve, gini, held_by_top, lorenz_curve
from cluster_logs.characterisation.states import final_state

TOP_PCT = (1, 2, 5, 10, 20, 25, 50, 75)
LARGEST_CONSUMERS = 10


def gpu_time_of_users(log: ObservedLog) -> "pd.Series[float]":
    """GPU time by user."""
    return _summed(log, log.gpu_jobs, "gpu_time_s")


def queuing_of_users(log: ObservedLog) -> "pd.Series[float]":
    """Queuing time of GPU jobs by user."""
    return _summed(log, log.gpu_jobs, "queue_s")


def users_by_gpu_time(log: ObservedLog) -> pd.DataFrame:
    """Figure 8(a): the share of GPU time that the top x % of users hold."""
    return _curve(gpu_time_of_users(log), "gpu_time_pct")


def users_by_cpu_time(log: ObservedLog) -> pd.DataFrame:
    """Figure 8(b): the share of the CPU jobs' CPU time."""
    return _curve(_summed(log, log.cpu_jobs, "cpu_time_s"), "cpu_time_pct")


def users_by_queuing(log: ObservedLog) -> pd.DataFrame:
    """Figure 9(a): the share of the GPU jobs' queuing time."""
    return _curve(queuing_of_users(log), "queuing_pct")


def users_by_completion(log: ObservedLog) -> pd.DataFrame:
    """Figure 9(b): users by the share of their GPU jobs that completed, ten bins over 0..100 %."""
    jobs = log.gpu_jobs
    ended = final_state(jobs)
    done = (ended == "completed").groupby(jobs["user"], observed=True).sum()
    rated = ended.notna().groupby(jobs["user"], observed=True).sum()
    rates = (100 * done[rated > 0] / rated[rated > 0]).to_numpy()
    counts, edges = np.histogram(rates, bins=10, range=(0, 100))
    return pd.DataFrame({"users": counts}, index=pd.Index(edges[:-1], name="completed_from_pct"))


def lorenz_of_users(log: ObservedLog) -> pd.DataFrame:
    """The Lorenz curve of GPU time over users."""
    return lorenz_curve(gpu_time_of_users(log)).set_axis(["gpu_time_pct"], axis=1)


def user_statistics(log: ObservedLog) -> dict[str, float]:
    """The Gini coefficient of GPU time over users, and what the top users hold."""
    held = gpu_time_of_users(log)
    return {
        "users": len(held),
        "gini_gpu_time": gini(held),
        **_held_by_tops(concentration_curve(held), "gpu_time"),
    }


def cpu_user_statistics(log: ObservedLog) -> dict[str, float]:
    """The same of CPU time, and the share of users that have CPU jobs."""
    held = _summed(log, log.cpu_jobs, "cpu_time_s")
    return {
        "gini_cpu_time": gini(held),
        "with_cpu_jobs_pct": float(100 * log.cpu_jobs["user"].nunique() / len(held)),
        **_held_by_tops(concentration_curve(held), "cpu_time"),
    }


def user_queuing_statistics(log: ObservedLog) -> dict[str, float]:
    """What the top users bear of all queuing, and how many of the top 1 % are among the ten that hold most.

    The second is Helios' remark on "marquee users": they wait most without consuming most.
    """
    queued = queuing_of_users(log).sort_values(ascending=False, kind="stable")
    bearers = queued.index[: max(1, round(len(queued) / 100))]
    consumers = gpu_time_of_users(log).nlargest(LARGEST_CONSUMERS).index
    return {
        "gini_queuing": gini(queued),
        **_held_by_tops(concentration_curve(queued), "queuing"),
        "top_waiting_users": len(bearers),
        "top_waiting_among_ten_largest": int(bearers.isin(consumers).sum()),
    }


def _summed(log: ObservedLog, jobs: pd.DataFrame, column: str) -> "pd.Series[float]":
    # The categories are all users of the log.
    return jobs[column].groupby(jobs["user"], observed=False).sum()


def _curve(held: "pd.Series[float]", column: str) -> pd.DataFrame:
    return concentration_curve(held).set_axis([column], axis=1)


def _held_by_tops(curve: pd.DataFrame, what: str) -> dict[str, float]:
    return {f"top_{top}_pct_{what}_pct": held_by_top(curve, top) for top in TOP_PCT}
