"""The figures and numbers of jobs and users (Helios, tables 1 and 2, figures 1 and 3 to 9).

Users are all that submitted a job, on CPUs or GPUs; one without any of what is shared holds nothing of it.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from cluster_logs.log_statistics.capacity import FloatArray
from cluster_logs.log_statistics.observed_log import ObservedLog, month_names
from cluster_logs.log_statistics.statistics import (
    LARGE_GPUS,
    by_state,
    concentration_curve,
    final_state,
    gini,
    gpu_time_of_users,
    held_by_tops,
    share_pct,
    shares_of_states,
    submissions_by_hour,
    summed_by_user,
)

STEPS_S = tuple(2**power for power in range(22))
STEPS_GPUS = (1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 56, 64)
ALL = "all"
SIZES_GPUS = (1, 2, 4, 8, 16, 32, 64)
SHORT_FAILURE_S = 120.0  # the limit that Helios' implication 6 proposes for a queue of debugging jobs
LARGEST_CONSUMERS = 10


def cluster_jobs(log: ObservedLog) -> pd.DataFrame:
    """Table 1: virtual clusters with jobs, and jobs."""
    row = {"virtual_clusters": log.jobs["virtual_cluster"].nunique(), "jobs": len(log.jobs)}
    return _row(log, row)


def cluster_nodes(log: ObservedLog) -> pd.DataFrame:
    """Table 1: nodes and GPUs at the end of the window."""
    last_s = log.window.end_s - 1
    return _row(
        log, {"nodes": log.known_capacity.nodes_on(last_s), "gpus": int(log.known_capacity.on(last_s).sum())}
    )


def log_size(log: ObservedLog) -> pd.DataFrame:
    """Table 2: jobs, and their GPUs."""
    gpus = log.gpu_jobs["gpus"]
    row = {
        "virtual_clusters": log.jobs["virtual_cluster"].nunique(),
        "jobs": len(log.jobs),
        "gpu_jobs": len(log.gpu_jobs),
        "cpu_jobs": len(log.cpu_jobs),
        "days": log.window.days,
        "mean_gpus": gpus.mean(),
        "max_gpus": int(gpus.max()),
    }
    return _row(log, row)


def log_durations(log: ObservedLog) -> pd.DataFrame:
    """Table 2: durations of GPU jobs."""
    run_s = log.gpu_jobs["duration_s"].dropna()
    row = {
        "mean_duration_s": run_s.mean(),
        "median_duration_s": run_s.median(),
        "max_duration_s": run_s.max(),
    }
    return _row(log, row)


def _row(log: ObservedLog, row: Mapping[str, float]) -> pd.DataFrame:
    return pd.DataFrame([row], index=pd.Index([log.cluster], name="cluster"))


def gpu_job_durations(log: ObservedLog) -> pd.DataFrame:
    """Figures 1(a) and 5(a): the share of GPU jobs that run for at most 2^k s, k = 0..21."""
    return _distribution(log.gpu_jobs, "gpu_jobs_pct")


def cpu_job_durations(log: ObservedLog) -> pd.DataFrame:
    """Figure 5(b): the same of CPU jobs."""
    return _distribution(log.cpu_jobs, "cpu_jobs_pct")


def cpu_duration_statistics(log: ObservedLog) -> dict[str, float]:
    """Mean and median duration of CPU jobs."""
    run_s = log.cpu_jobs["duration_s"].dropna().to_numpy()
    return {"mean_s": float(run_s.mean()), "median_s": float(np.median(run_s))}


def _distribution(jobs: pd.DataFrame, column: str) -> pd.DataFrame:
    shares = cumulative_pct(jobs["duration_s"].dropna(), STEPS_S)
    return pd.DataFrame({column: shares}, index=pd.Index(STEPS_S, name="duration_s"))


def sizes_by_jobs(log: ObservedLog) -> pd.DataFrame:
    """Figure 6(a): the share of GPU jobs with at most so many GPUs."""
    shares = cumulative_pct(log.gpu_jobs["gpus"], (*STEPS_GPUS, np.inf))
    return _by_step("gpu_jobs_pct", shares)


def sizes_by_gpu_time(log: ObservedLog) -> pd.DataFrame:
    """Figure 6(b): the share of GPU time of jobs with at most so many GPUs."""
    timed = log.gpu_jobs.dropna(subset=["gpu_time_s"])
    shares = cumulative_pct(timed["gpus"], (*STEPS_GPUS, np.inf), timed["gpu_time_s"])
    return _by_step("gpu_time_pct", shares)


def size_class(gpus: "pd.Series[int]") -> "pd.Series[str]":
    """1, 2-7, 8 or more: jobs on one GPU, on a part of a node, on whole nodes."""
    names = pd.Index(["1 GPU", "2-7 GPUs", "8 and more GPUs"])
    codes = np.digitize(gpus.to_numpy(), [2, LARGE_GPUS])
    return pd.Series(pd.Categorical.from_codes(codes, names), index=gpus.index)


def _by_step(column: str, shares: FloatArray) -> pd.DataFrame:
    steps = [*map(str, STEPS_GPUS), ALL]
    return pd.DataFrame({column: shares}, index=pd.Index(steps, name="gpus"))


def gpu_jobs_by_state(log: ObservedLog) -> pd.DataFrame:
    """Figure 7(a): the share of GPU jobs by how they ended."""
    return by_state(shares_of_states(final_state(log.gpu_jobs)), "gpu_jobs_pct")


def cpu_jobs_by_state(log: ObservedLog) -> pd.DataFrame:
    """Figure 7(a): the same of CPU jobs."""
    return by_state(shares_of_states(final_state(log.cpu_jobs)), "cpu_jobs_pct")


def states_by_size(log: ObservedLog) -> pd.DataFrame:
    """Figure 7(b): how jobs with exactly 1, 2, 4, 8, 16, 32 and with at least 64 GPUs ended."""
    jobs = log.gpu_jobs
    ended, gpus = final_state(jobs), jobs["gpus"].to_numpy()
    rows = {}
    for size in SIZES_GPUS:
        of_size = gpus >= size if size == SIZES_GPUS[-1] else gpus == size
        rows[f">= {size}" if size == SIZES_GPUS[-1] else str(size)] = shares_of_states(ended[of_size])
    frame = pd.DataFrame(rows).T.add_suffix("_pct")
    frame.columns = pd.Index(map(str, frame.columns))
    return frame.rename_axis("gpus")


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


def submissions_by_month(log: ObservedLog) -> pd.DataFrame:
    """Figure 3, bars: GPU jobs submitted in a month."""
    if log.bins is not None:
        months = month_names(log.window.local(log.bins["time_s"]))
        counts = log.bins["gpu_jobs"].groupby(np.asarray(months)).sum()
    else:
        counts = pd.Series(np.asarray(log.months_of(log.gpu_jobs))).value_counts().sort_index()
    return pd.DataFrame(
        {"gpu_jobs": counts.to_numpy(dtype=np.int64)}, index=pd.Index(map(str, counts.index), name="month")
    )


def sizes_by_month(log: ObservedLog) -> pd.DataFrame:
    """Figure 3, bars: those with one GPU, those with more, and their mean GPUs."""
    jobs = log.gpu_jobs
    months = np.asarray(log.months_of(jobs))
    single = (jobs["gpus"] == 1).to_numpy()
    grouped = pd.DataFrame({"single_gpu_jobs": single, "multi_gpu_jobs": ~single}).groupby(months).sum()
    grouped["mean_gpus"] = jobs["gpus"].groupby(months).mean()
    return grouped.rename_axis("month")


def submission_statistics(log: ObservedLog) -> dict[str, float]:
    """Submissions an hour: the mean, the busiest and the quietest hour of day and their ratio."""
    per_h = submissions_by_hour(log)["gpu_jobs_per_h"].to_numpy()
    return {
        "gpu_jobs": round(per_h.sum() * log.window.days),
        "days": log.window.days,
        "gpu_jobs_per_day": float(per_h.sum()),
        "mean_per_h": float(per_h.mean()),
        "highest_per_h": float(per_h.max()),
        "lowest_per_h": float(per_h.min()),
        "busiest_hour": int(per_h.argmax()),
        "quietest_hour": int(per_h.argmin()),
        "highest_to_lowest": float(per_h.max() / per_h.min()) if per_h.min() else float("nan"),
    }


def month_statistics(log: ObservedLog) -> dict[str, float]:
    """How much the submissions of months vary (deviation / mean): jobs of one GPU, and of more."""
    by_month = sizes_by_month(log)
    single, multi = (by_month[f"{size}_gpu_jobs"].to_numpy(dtype=np.float64) for size in ("single", "multi"))
    varies = {"single_gpu_jobs_variation": _variation(single), "multi_gpu_jobs_variation": _variation(multi)}
    ratio = varies["multi_gpu_jobs_variation"] / varies["single_gpu_jobs_variation"]
    return {
        "months": float(len(by_month)),
        **varies,
        "multi_to_single_variation": ratio,
        "std_of_mean_gpus": float(by_month["mean_gpus"].std()),
    }


def _variation(amounts: "NDArray[np.float64]") -> float:
    mean = float(amounts.mean())
    return float(amounts.std()) / mean if mean else float("nan")


def queuing_of_users(log: ObservedLog) -> "pd.Series[float]":
    """Queuing time of GPU jobs by user."""
    return summed_by_user(log, log.gpu_jobs, "queue_s")


def users_by_gpu_time(log: ObservedLog) -> pd.DataFrame:
    """Figure 8(a): the share of GPU time that the top x % of users hold."""
    return _curve(gpu_time_of_users(log), "gpu_time_pct")


def users_by_cpu_time(log: ObservedLog) -> pd.DataFrame:
    """Figure 8(b): the share of the CPU jobs' CPU time."""
    return _curve(summed_by_user(log, log.cpu_jobs, "cpu_time_s"), "cpu_time_pct")


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


def cpu_user_statistics(log: ObservedLog) -> dict[str, float]:
    """The same of CPU time, and the share of users that have CPU jobs."""
    held = summed_by_user(log, log.cpu_jobs, "cpu_time_s")
    return {
        "gini_cpu_time": gini(held),
        "with_cpu_jobs_pct": float(100 * log.cpu_jobs["user"].nunique() / len(held)),
        **held_by_tops(concentration_curve(held), "cpu_time"),
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
        **held_by_tops(concentration_curve(queued), "queuing"),
        "top_waiting_users": len(bearers),
        "top_waiting_among_ten_largest": int(bearers.isin(consumers).sum()),
    }


def _curve(held: "pd.Series[float]", column: str) -> pd.DataFrame:
    return concentration_curve(held).set_axis([column], axis=1)


def lorenz_curve(amounts: ArrayLike) -> pd.DataFrame:
    """What the least consuming x % hold together, from (0, 0) to (100, 100); index `population_pct`."""
    x = np.sort(np.asarray(amounts, dtype=np.float64))
    held = np.concatenate([[0.0], np.cumsum(x)])
    return pd.DataFrame(
        {"held_pct": 100 * held / (held[-1] or 1.0)},
        index=pd.Index(np.linspace(0, 100, len(x) + 1), name="population_pct"),
    )


def cumulative_pct(values: ArrayLike, steps: ArrayLike, weights: ArrayLike | None = None) -> FloatArray:
    """The share (by weight) of values <= each step, in %, shape (steps,); NaN of no values."""
    ordered = np.asarray(values, dtype=np.float64)
    order = np.argsort(ordered, kind="stable")
    ordered = ordered[order]
    held = np.arange(len(ordered) + 1, dtype=np.float64)
    if weights is not None:
        held = np.concatenate([[0.0], np.cumsum(np.asarray(weights, dtype=np.float64)[order])])
    below = held[np.searchsorted(ordered, np.asarray(steps, dtype=np.float64), side="right")]
    return 100 * below / held[-1] if held[-1] else np.full(len(below), np.nan)
