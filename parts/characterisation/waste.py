"""GPU time that brought nothing, limits that were not needed, and GPUs that idle while jobs wait."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from cluster_logs.log_statistics.capacity import FloatArray
from cluster_logs.log_statistics.observed_log import ObservedLog, with_text_index
from cluster_logs.log_statistics.occupancy import gpus_in_use, held_by_minute, minutes_of
from cluster_logs.log_statistics.statistics import final_state, share_pct
from parts.characterisation.figures import SHORT_FAILURE_S

_MOST_USERS = 10


def lost_gpu_time(log: ObservedLog) -> pd.DataFrame:
    """GPU jobs and GPU time of cancelled and of failed jobs; failed ones by how soon they ended."""
    jobs = log.gpu_jobs
    ended = final_state(jobs)
    soon = (jobs["duration_s"] <= SHORT_FAILURE_S).to_numpy()
    cancelled, failed = ((ended == state).to_numpy() for state in ("cancelled", "failed"))
    kinds = {
        "cancelled": cancelled,
        "failed within 2 min": failed & soon,
        "failed later": failed & ~soon,
        "cancelled or failed": cancelled | failed,
    }
    total_s = jobs["gpu_time_s"].sum()
    rows = {
        name: {
            "gpu_jobs": int(chosen.sum()),
            "gpu_jobs_pct": share_pct(chosen.sum(), len(jobs)),
            "gpu_time_s": float(jobs["gpu_time_s"][chosen].sum()),
            "gpu_time_pct": share_pct(jobs["gpu_time_s"][chosen].sum(), total_s),
        }
        for name, chosen in kinds.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("kind")


def lost_by_user(log: ObservedLog) -> pd.DataFrame:
    """The ten users with most GPU time of cancelled and failed jobs."""
    jobs = log.gpu_jobs
    lost = final_state(jobs).isin(["cancelled", "failed"]).to_numpy()
    held = jobs["gpu_time_s"].groupby(jobs["user"], observed=True).sum()
    in_vain = jobs["gpu_time_s"][lost].groupby(jobs["user"][lost], observed=True).sum()
    table = pd.DataFrame({"lost_gpu_time_s": in_vain, "gpu_time_s": held}).fillna(0.0)
    table["lost_pct"] = 100 * table["lost_gpu_time_s"] / table["gpu_time_s"].where(table["gpu_time_s"] > 0)
    return (
        with_text_index(table, "user")
        .sort_values("lost_gpu_time_s", ascending=False, kind="stable")
        .head(_MOST_USERS)
    )


def waste_statistics(log: ObservedLog) -> dict[str, float]:
    """GPU hours of cancelled and failed jobs, and their share."""
    lost = lost_gpu_time(log).loc["cancelled or failed"].to_dict()
    return {
        "lost_gpu_hours": float(lost["gpu_time_s"] / 3_600),
        "lost_gpu_time_pct": float(lost["gpu_time_pct"]),
    }


def unused_limits(log: ObservedLog) -> pd.DataFrame:
    """By virtual cluster: GPU time that time limits allowed and jobs did not use."""
    jobs = _limited(log)
    grouped = jobs.groupby("virtual_cluster", observed=True)
    table = pd.DataFrame(
        {
            "gpu_jobs": grouped.size(),
            "allowed_gpu_time_s": grouped["allowed_s"].sum(),
            "used_gpu_time_s": grouped["used_s"].sum(),
            "median_used_pct": 100 * grouped["used"].median(),
        }
    )
    table["unused_pct"] = 100 * (1 - table["used_gpu_time_s"] / table["allowed_gpu_time_s"])
    return with_text_index(table, "virtual_cluster").sort_values(
        "allowed_gpu_time_s", ascending=False, kind="stable"
    )


def limit_statistics(log: ObservedLog) -> dict[str, float]:
    """How much of the asked time limits is used."""
    jobs = _limited(log)
    return {
        "jobs_with_limit_pct": share_pct(len(jobs), len(log.gpu_jobs)),
        "unused_gpu_time_pct": 100 - share_pct(jobs["used_s"].sum(), jobs["allowed_s"].sum()),
        "median_used_pct": float(100 * jobs["used"].median()),
    }


def idle_while_waiting(log: ObservedLog) -> pd.DataFrame:
    """Fragmentation by virtual cluster, over the minutes at which GPU jobs wait there that might start.

    `idle_pct`: GPUs that idle then, of all; `fits_pct`: the share of these minutes at which the smallest
    waiting job asks for no more GPUs than idle (spread over nodes, set aside, or the scheduler was late).
    """
    rows = {each.name: each.row() for each in _virtual_clusters(log)}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("virtual_cluster")


def fragmentation_statistics(log: ObservedLog) -> dict[str, float]:
    """The same over all virtual clusters, weighted by their GPUs and minutes."""
    table = idle_while_waiting(log)
    minutes = table["minutes_with_waiting"]
    weights = (minutes * table["gpus"]).to_numpy()
    if not weights.sum():
        return {"idle_gpu_hours_while_waiting": 0.0}
    return {
        "idle_gpu_hours_while_waiting": float(table["idle_gpu_hours"].sum()),
        "idle_while_waiting_pct": float(np.average(table["idle_pct"].fillna(0.0), weights=weights)),
        "fits_while_waiting_pct": float(np.average(table["fits_pct"].fillna(0.0), weights=minutes)),
    }


@dataclass(frozen=True)
class _IdleBesideWaiting:
    """One virtual cluster at the minutes at which jobs wait: idle GPUs, and GPUs of the smallest waiting."""

    name: str
    gpus: int
    minutes: int
    idle: FloatArray
    smallest: FloatArray

    def row(self) -> dict[str, float]:
        waiting = len(self.idle)
        return {
            "gpus": self.gpus,
            "minutes_with_waiting": waiting,
            "waiting_pct": share_pct(waiting, self.minutes),
            "idle_gpu_hours": float(self.idle.sum() / 60),
            "idle_pct": share_pct(self.idle.sum(), waiting * self.gpus),
            "fits_pct": share_pct((self.smallest <= self.idle).sum(), waiting),
        }


def _virtual_clusters(log: ObservedLog) -> Iterator[_IdleBesideWaiting]:
    minutes_s = minutes_of(log.window)
    sizes = log.known_capacity.on(log.window.start_s)
    for name, jobs in log.running.groupby("virtual_cluster", observed=True):
        if name not in sizes:
            continue
        total = log.known_capacity.of(str(name), minutes_s)
        idle = np.maximum(total - gpus_in_use(jobs, minutes_s, log.rule), 0)
        smallest = _smallest_waiting(jobs, minutes_s)
        waiting = np.isfinite(smallest) & (total > 0)
        yield _IdleBesideWaiting(
            str(name), int(sizes[name]), len(minutes_s), idle[waiting], smallest[waiting]
        )


def _smallest_waiting(jobs: pd.DataFrame, minutes_s: FloatArray) -> FloatArray:
    """GPUs of the smallest job that waits at each minute and might start; infinity where none does."""
    smallest = np.full(len(minutes_s), np.inf)
    delayed = jobs[jobs["start_s"] > jobs["ready_s"]]
    for gpus in np.sort(delayed["gpus"].unique())[::-1]:
        part = delayed[delayed["gpus"] == gpus]
        ready_s, start_s = (part[column].to_numpy() for column in ("ready_s", "start_s"))
        smallest[held_by_minute(ready_s, start_s, np.ones(len(part)), minutes_s) > 0] = float(gpus)
    return smallest


def _limited(log: ObservedLog) -> pd.DataFrame:
    jobs = log.gpu_jobs[["virtual_cluster", "gpus", "duration_s", "limit_s"]]
    jobs = jobs[jobs["duration_s"].notna() & (jobs["limit_s"] > 0)]
    return jobs.assign(
        allowed_s=jobs["gpus"] * jobs["limit_s"],
        used_s=jobs["gpus"] * np.minimum(jobs["duration_s"], jobs["limit_s"]),
        used=np.minimum(jobs["duration_s"] / jobs["limit_s"], 1.0),
    )
