"""When jobs are submitted (Helios, figures 2(b) and 3): from the jobs, or from bins that count them."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cluster_logs.characterisation.observed_log import ObservedLog, month_names
from cluster_logs.characterisation.utilisation import hour_index


def submissions_by_hour(log: ObservedLog) -> pd.DataFrame:
    """Figure 2(b): the mean over days of the GPU jobs submitted in an hour of day, and of their GPUs."""
    hours, jobs, gpus = _counted(log)
    days = log.window.days
    columns = {"gpu_jobs_per_h": jobs, "gpus_per_h": gpus}
    counts = {name: np.bincount(hours, amounts, 24) / days for name, amounts in columns.items()}
    return pd.DataFrame(counts, index=hour_index())


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


def _counted(log: ObservedLog) -> "tuple[NDArray[np.int64], NDArray[np.float64] | None, NDArray[Any]]":
    if log.bins is not None:
        hours = log.window.local(log.bins["time_s"]).hour.to_numpy().astype(np.int64)
        return hours, log.bins["gpu_jobs"].to_numpy(dtype=np.float64), log.bins["gpus"].to_numpy()
    return log.hours, None, log.gpu_jobs["gpus"].to_numpy()


def _variation(amounts: "NDArray[np.float64]") -> float:
    mean = float(amounts.mean())
    return float(amounts.std()) / mean if mean else float("nan")
