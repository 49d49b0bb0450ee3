"""How much of the cluster and of its virtual clusters is in use (Helios, figures 2(a), 3 and 4).

For figure 4 the paper takes a month in which no virtual cluster changed, and its GPUs on the first day; a log
is taken as a whole here, or by a window. Days on which nothing at all was sampled are gaps and count in no
box.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from cluster_logs.log_statistics.capacity import FloatArray
from cluster_logs.log_statistics.observed_log import (
    ObservedLog,
    UtilisationRule,
    measured_once,
    month_names,
    with_text_index,
)
from cluster_logs.log_statistics.occupancy import Occupancy, gpus_in_use, minutes_of, occupancy
from cluster_logs.log_statistics.statistics import gini, hour_index
from parts.characterisation.figures import lorenz_curve

NIGHT_HOURS, DAY_HOURS = range(9), range(9, 24)  # 0-8 h and 9-23 h
_PUBLISHED_DECIMALS = 3
LARGEST = 10
_WHISKER = 1.5  # times the distance of the quartiles


def ratios(log: ObservedLog, held: Occupancy) -> FloatArray:
    """The utilisation at each instant; to three decimals where the published rule is asked for."""
    return np.round(held.ratio, _PUBLISHED_DECIMALS) if log.rule is UtilisationRule.INCLUSIVE else held.ratio


def utilisation_by_hour(log: ObservedLog) -> pd.DataFrame:
    """Figure 2(a): the mean over all minutes of an hour of day."""
    held = occupancy(log)
    hours = log.window.local(held.times_s).hour
    mean = 100 * pd.Series(ratios(log, held)).groupby(np.asarray(hours)).mean()
    return pd.DataFrame({"utilisation_pct": mean.reindex(range(24)).to_numpy()}, index=hour_index())


def utilisation_by_month(log: ObservedLog) -> pd.DataFrame:
    """Figure 3, dashed lines: the mean over all minutes of a month."""
    held = occupancy(log)
    return _by_month(log, held.times_s, {"utilisation_pct": ratios(log, held)})


def utilisation_by_size_and_month(log: ObservedLog) -> pd.DataFrame:
    """Figure 3, bottom: the same by jobs of one and by jobs of more than one GPU."""
    minutes_s, single, multi = _by_size(log)
    columns = {"single_gpu_utilisation_pct": single, "multi_gpu_utilisation_pct": multi}
    return _by_month(log, minutes_s, columns)


def utilisation_statistics(log: ObservedLog) -> dict[str, float]:
    """Mean, spread of the hourly means, quantiles, and the dip at night.

    `night_dip_points`: mean of the hours 9-23 less the lowest of 0-8, in points.
    """
    held = occupancy(log)
    used = 100 * ratios(log, held)
    hourly = pd.Series(used).groupby((held.times_s // 3_600).astype(np.int64)).mean()
    by_hour = utilisation_by_hour(log)["utilisation_pct"].to_numpy()
    night, day = by_hour[list(NIGHT_HOURS)], by_hour[list(DAY_HOURS)]
    whole_day = not np.isnan(by_hour).any()
    points = np.quantile(used, [0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99])
    names = ("p01", "p05", "p25", "p50", "p75", "p95", "p99")
    sampled = used[held.busy > 0]
    return {
        "minutes": len(used),
        "mean_pct": float(used.mean()),
        "std_of_hourly_pct": float(hourly.std()) if len(hourly) > 1 else 0.0,
        **{f"{name}_pct": float(point) for name, point in zip(names, points, strict=True)},
        "zero_minutes": int((held.busy == 0).sum()),
        "mean_without_zeros_pct": float(sampled.mean()) if len(sampled) else 0.0,
        **({"night_dip_points": float(day.mean() - night.min())} if whole_day else {}),
    }


def size_utilisation_statistics(log: ObservedLog) -> dict[str, float]:
    """Mean utilisation by jobs of one and by jobs of more than one GPU."""
    _, single, multi = _by_size(log)
    return {
        "single_gpu_utilisation_pct": 100 * float(single.mean()),
        "multi_gpu_utilisation_pct": 100 * float(multi.mean()),
    }


@measured_once
def _by_size(log: ObservedLog) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Minutes, and the utilisation by single-GPU and by other jobs at each."""
    minutes_s, running = minutes_of(log.window), log.running
    total = log.known_capacity.at(minutes_s)
    some = total > 0
    alone = (running["gpus"] == 1).to_numpy()
    parts = (
        np.minimum(gpus_in_use(running[of_size], minutes_s, log.rule)[some] / total[some], 1.0)
        for of_size in (alone, ~alone)
    )
    return minutes_s[some], *parts  # type: ignore[return-value]


def _by_month(log: ObservedLog, times_s: FloatArray, columns: dict[str, FloatArray]) -> pd.DataFrame:
    months = month_names(log.window.local(times_s))
    means = {
        name: 100 * pd.Series(used).groupby(months, observed=True).mean() for name, used in columns.items()
    }
    return with_text_index(pd.DataFrame(means), "month")


def largest_virtual_clusters(log: ObservedLog) -> "pd.Series[int]":
    """GPUs of the ten virtual clusters that had most on the window's first day; equal ones in their order."""
    return _sizes(log).sort_values(ascending=False, kind="stable").head(LARGEST)


@measured_once
def utilisation_boxes(log: ObservedLog) -> pd.DataFrame:
    """The box of per-minute utilisation of each virtual cluster: quartiles, whiskers at 1.5 times their
    distance, mean.
    """
    rows = {name: {"gpus": float(gpus), **_box(used)} for name, gpus, used in _used_by_minute(log)}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("virtual_cluster")


def largest_boxes(log: ObservedLog) -> pd.DataFrame:
    """Figure 4, top: the boxes of the ten largest."""
    boxes = utilisation_boxes(log)
    return boxes.reindex([name for name in largest_virtual_clusters(log).index if name in boxes.index])


def demand_of_largest(log: ObservedLog) -> pd.DataFrame:
    """Figure 4, top, dashed: the mean GPUs of the jobs of the ten largest."""
    mean = log.gpu_jobs["gpus"].groupby(log.gpu_jobs["virtual_cluster"], observed=True).mean()
    return _of_largest(log, pd.DataFrame({"mean_gpus": mean}))


def delays_of_largest(log: ObservedLog) -> pd.DataFrame:
    """Figure 4, bottom: mean duration and mean queuing delay, each scaled from 0 to 1 over the ten."""
    grouped = log.gpu_jobs[["duration_s", "queue_s"]].groupby(log.gpu_jobs["virtual_cluster"], observed=True)
    means = _of_largest(log, grouped.mean().set_axis(["mean_duration_s", "mean_queuing_delay_s"], axis=1))
    for name in ("duration", "queuing_delay"):
        mean = means[f"mean_{name}_s"]
        means[f"{name}_scaled"] = (mean - mean.min()) / ((mean.max() - mean.min()) or np.nan)
    return means


def waiting_gpus(log: ObservedLog) -> pd.DataFrame:
    """Mean GPUs that waiting jobs ask for, by virtual cluster, over all samples or minutes."""
    samples = log.samples.waiting_by_virtual_cluster if log.samples is not None else None
    if samples is None:
        minutes = len(minutes_of(log.window))
        jobs = log.running
        begins, ends = (
            jobs[name].clip(log.window.start_s, log.window.end_s) for name in ("submit_s", "start_s")
        )
        asked_s = (jobs["gpus"] * (ends - begins)).groupby(jobs["virtual_cluster"], observed=True).sum()
        mean = asked_s / (60 * minutes)
    else:
        mean = samples.mean()
    return with_text_index(pd.DataFrame({"mean_waiting_gpus": mean}), "virtual_cluster")


def lorenz_of_virtual_clusters(log: ObservedLog) -> pd.DataFrame:
    """The Lorenz curve of GPU time over virtual clusters."""
    return lorenz_curve(_gpu_time(log)).set_axis(["gpu_time_pct"], axis=1)


def virtual_cluster_statistics(log: ObservedLog) -> dict[str, float]:
    """Their number among the jobs, and the Gini coefficient of GPU time over them."""
    held = _gpu_time(log)
    return {"virtual_clusters": len(held), "gini_gpu_time": gini(held)}


def imbalance_statistics(log: ObservedLog) -> dict[str, float]:
    """How far utilisations lie apart over virtual clusters with GPUs."""
    means = utilisation_boxes(log)["mean_pct"]
    return {
        "lowest_mean_pct": float(means.min()),
        "highest_mean_pct": float(means.max()),
        "spread_points": float(means.max() - means.min()),
    }


def demand_correlation(log: ObservedLog) -> dict[str, float]:
    """Over the ten largest: the correlation of mean utilisation with mean GPUs of a job (Pearson)."""
    both = largest_boxes(log)[["mean_pct"]].join(demand_of_largest(log)).dropna()
    return _correlated("utilisation_with_gpus", both["mean_pct"], both["mean_gpus"])


def delay_correlation(log: ObservedLog) -> dict[str, float]:
    """Over the ten largest: the correlation of mean queuing delay with mean duration (Pearson)."""
    means = delays_of_largest(log).dropna(subset=["mean_duration_s", "mean_queuing_delay_s"])
    return _correlated("queuing_with_duration", means["mean_queuing_delay_s"], means["mean_duration_s"])


def _correlated(name: str, one: "pd.Series[float]", other: "pd.Series[float]") -> dict[str, float]:
    if len(one) < 3 or one.std() == 0 or other.std() == 0:
        return {}
    return {name: float(np.corrcoef(one, other)[0, 1])}


def _sizes(log: ObservedLog) -> "pd.Series[int]":
    return log.known_capacity.on(log.window.start_s)


def _of_largest(log: ObservedLog, frame: pd.DataFrame) -> pd.DataFrame:
    named = with_text_index(frame)
    return named.reindex(largest_virtual_clusters(log).index).rename_axis("virtual_cluster")


def _gpu_time(log: ObservedLog) -> "pd.Series[float]":
    jobs = log.gpu_jobs
    return jobs["gpu_time_s"].groupby(jobs["virtual_cluster"], observed=True).sum()


def _used_by_minute(log: ObservedLog) -> Iterator[tuple[str, int, FloatArray]]:
    """Each virtual cluster with GPUs, these, and its utilisation by minute in %."""
    samples = log.samples
    if samples is not None and samples.by_virtual_cluster is not None:
        days = np.asarray(log.window.local(samples.times_s).normalize())
        sampled = pd.Series(samples.busy).groupby(days).transform("max").to_numpy() > 0
        table = samples.by_virtual_cluster
        for name, gpus in _sizes(log).items():
            if name in table:
                used = table[name].to_numpy(dtype=np.float64)[sampled]
                yield str(name), int(gpus), 100 * np.minimum(used / gpus, 1.0)
        return
    minutes_s = minutes_of(log.window)
    groups = log.running.groupby("virtual_cluster", observed=True)
    for name, gpus in _sizes(log).items():
        total = log.known_capacity.of(str(name), minutes_s)
        some = total > 0
        used = np.zeros(int(some.sum()))
        if name in groups.groups:
            used = gpus_in_use(groups.get_group(name), minutes_s, log.rule)[some]
        yield str(name), int(gpus), 100 * np.minimum(used / total[some], 1.0)


def _box(used: FloatArray) -> dict[str, float]:
    if not len(used):
        return {}
    q1, median, q3 = np.quantile(used, [0.25, 0.5, 0.75])
    reach = _WHISKER * (q3 - q1)
    return {
        "whisker_low_pct": float(used[used >= q1 - reach].min()),
        "q1_pct": float(q1),
        "median_pct": float(median),
        "q3_pct": float(q3),
        "whisker_high_pct": float(used[used <= q3 + reach].max()),
        "mean_pct": float(used.mean()),
    }
