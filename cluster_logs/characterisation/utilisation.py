"""How much of the cluster is in use, minute by minute (Helios, figures 2(a) and 3).

The GPUs in use at a minute are the sum over the jobs that hold some then, by `UtilisationRule`, cut at the
GPUs that there are. Sums of all minutes come from differences: + at a job's first minute, - past its last.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cluster_logs.characterisation.observed_log import (
    ObservedLog,
    Window,
    measured_once,
    month_names,
    with_text_index,
)
from cluster_logs.characterisation.samples import OccupancySamples
from cluster_logs.characterisation.shares import FloatArray
from cluster_logs.characterisation.utilisation_rule import UtilisationRule

MINUTE_S = 60.0
NIGHT_HOURS, DAY_HOURS = range(9), range(9, 24)  # 0-8 h and 9-23 h
_PUBLISHED_DECIMALS = 3


@dataclass(frozen=True)
class Occupancy:
    """What is in use of what there is at instants: seconds since 1970, busy and total in `unit`."""

    times_s: FloatArray
    busy: FloatArray
    total: FloatArray
    unit: str

    @property
    def ratio(self) -> FloatArray:
        """Busy / total at the instants at which there is anything, at most 1."""
        return np.minimum(self.busy, self.total) / self.total


def minutes_of(window: Window) -> FloatArray:
    """Every full minute in a window, in seconds since 1970."""
    first, past = (np.ceil(second / MINUTE_S) for second in (window.start_s, window.end_s))
    return np.arange(first, max(past, first + 1)) * MINUTE_S


def held_by_minute(
    from_s: FloatArray,
    until_s: FloatArray,
    amounts: FloatArray,
    minutes_s: FloatArray,
    rule: UtilisationRule = UtilisationRule.HALF_OPEN,
) -> FloatArray:
    """The sum of the amounts held at each minute, shape (minutes,); one amount a job, from and until."""
    alone = np.zeros(len(from_s), dtype=np.int64)
    held: FloatArray = held_by_group(from_s, until_s, amounts, alone, minutes_s, rule)[0]
    return held


def held_by_group(
    from_s: FloatArray,
    until_s: FloatArray,
    amounts: FloatArray,
    groups: "NDArray[np.int64]",
    minutes_s: FloatArray,
    rule: UtilisationRule = UtilisationRule.HALF_OPEN,
) -> FloatArray:
    """The same by group (0, 1, ...), shape (groups, minutes)."""
    if rule is UtilisationRule.HALF_OPEN:
        first, past = np.ceil(from_s / MINUTE_S), np.ceil(until_s / MINUTE_S)
    else:
        first, past = np.floor(from_s / MINUTE_S), np.floor(until_s / MINUTE_S) + 1
    origin, count = minutes_s[0] / MINUTE_S, len(minutes_s)
    rows = int(groups.max()) + 1 if len(groups) else 1
    low, high = (
        np.clip(edge - origin, 0, count).astype(np.int64) + groups * (count + 1) for edge in (first, past)
    )
    change = np.bincount(low, amounts, rows * (count + 1)) - np.bincount(high, amounts, rows * (count + 1))
    return np.cumsum(change.reshape(rows, count + 1), axis=1)[:, :count]


def gpus_in_use(jobs: pd.DataFrame, minutes_s: FloatArray, rule: UtilisationRule) -> FloatArray:
    """GPUs that the jobs (of `ObservedLog.running`) hold at each minute."""
    start_s, end_s, gpus = (jobs[name].to_numpy(dtype=np.float64) for name in ("start_s", "end_s", "gpus"))
    return held_by_minute(start_s, end_s, gpus, minutes_s, rule)


@measured_once
def occupancy(log: ObservedLog) -> Occupancy:
    """The whole cluster: as it was sampled, else by its jobs' starts and ends."""
    if log.samples is not None:
        return _sampled(log, log.samples)
    minutes_s = minutes_of(log.window)
    busy = gpus_in_use(log.running, minutes_s, log.rule)
    return _where_any(Occupancy(minutes_s, busy, log.known_capacity.at(minutes_s), "GPUs"))


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


def hour_index() -> pd.Index:
    """The hours of a day."""
    return pd.RangeIndex(24, name="hour")


def _sampled(log: ObservedLog, samples: OccupancySamples) -> Occupancy:
    total = samples.total
    if total is None:
        names: Iterable[object] = ()
        if samples.by_virtual_cluster is not None:
            names = samples.by_virtual_cluster.columns
        capacity = log.known_capacity.only(map(str, names)) or log.known_capacity
        total = capacity.at(samples.times_s)
    return _where_any(Occupancy(samples.times_s, samples.busy, total, samples.unit))


def _where_any(held: Occupancy) -> Occupancy:
    some = held.total > 0
    return held if some.all() else Occupancy(held.times_s[some], held.busy[some], held.total[some], held.unit)


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
