"""How many GPUs are in use, minute by minute.

The GPUs in use at a minute are the sum over the jobs that hold some then, by `UtilisationRule`, cut at the
GPUs that there are. Sums of all minutes come from differences: + at a job's first minute, - past its last.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cluster_logs.log_statistics.capacity import FloatArray
from cluster_logs.log_statistics.observed_log import (
    ObservedLog,
    OccupancySamples,
    UtilisationRule,
    Window,
    measured_once,
)

MINUTE_S = 60.0


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
