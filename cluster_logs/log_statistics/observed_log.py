"""A log as it is measured: its jobs as plain columns, its window, the cluster's size, what was sampled.

Everything is in seconds since 1970; hours, days, weeks and months are those of the log's own clock. A GPU job
has at least one GPU; its duration is end - start, its queuing delay start - submission (Helios, section
2.3.1). What a source states instead (a duration without times) is taken where the times are not known.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, wraps
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cluster_logs.job_states import JobState
from cluster_logs.log_statistics.capacity import Capacity, FloatArray
from foundation.errors import BadInputError

DAY_S = 86_400.0
Measured = TypeVar("Measured")
# What is read of a job table, and of what the columns of `ObservedLog.jobs` are made.
JOB_COLUMNS = (
    "virtual_cluster",
    "user",
    "gpus",
    "cpus",
    "state",
    "submit_time",
    "eligible_time",
    "start_time",
    "end_time",
    "duration_s",
    "queuing_delay_s",
    "time_limit_s",
)


class UtilisationRule(StrEnum):
    """At which minutes a job holds its GPUs: start <= m < end, or floor(start) <= m <= floor(end).

    The second is that of Helios' published figures, which counts a job for up to a minute too long.
    """

    HALF_OPEN = "half-open"
    INCLUSIVE = "inclusive"


@dataclass(frozen=True)
class OccupancySamples:
    """Samples at instants (seconds since 1970), in order.

    - `busy`, `total`: of the whole cluster, in `unit` (nodes or GPUs), shape (samples,). `total` None: the
      cluster's capacity.
    - `by_virtual_cluster`: busy GPUs, a column a virtual cluster; `waiting_by_virtual_cluster`: GPUs that
      waiting jobs ask for.
    """

    times_s: FloatArray
    busy: FloatArray
    total: FloatArray | None
    unit: str
    by_virtual_cluster: pd.DataFrame | None = None
    waiting_by_virtual_cluster: pd.DataFrame | None = None

    def within(self, start_s: float, end_s: float) -> "OccupancySamples":
        """The samples in [start_s, end_s)."""
        inside = (self.times_s >= start_s) & (self.times_s < end_s)

        def cut(frame: pd.DataFrame | None) -> pd.DataFrame | None:
            return None if frame is None else frame[inside]

        return OccupancySamples(
            self.times_s[inside],
            self.busy[inside],
            None if self.total is None else self.total[inside],
            self.unit,
            cut(self.by_virtual_cluster),
            cut(self.waiting_by_virtual_cluster),
        )


@dataclass(frozen=True)
class Window:
    """The seconds [start_s, end_s) that are looked at, on a clock."""

    start_s: float
    end_s: float
    zone: ZoneInfo

    @property
    def days(self) -> float:
        """Its length in days of the log's clock (a change of the clock makes no day longer)."""
        local = self._local([self.start_s, self.end_s])
        return float((local[1] - local[0]).total_seconds() / DAY_S)

    def local(self, seconds: "pd.Series[float] | FloatArray") -> pd.DatetimeIndex:
        """Instants as times of the log's clock, without a zone."""
        return self._local(np.asarray(seconds, dtype=np.float64))

    def _local(self, seconds: Any) -> pd.DatetimeIndex:
        at = np.floor(np.asarray(seconds, dtype=np.float64)).astype("int64").astype("datetime64[s]")
        return pd.DatetimeIndex(at).tz_localize("UTC").tz_convert(self.zone).tz_localize(None)


@dataclass(frozen=True, eq=False)
class ObservedLog:
    """A cluster's log, cut to a window.

    `jobs`: those submitted in the window (virtual_cluster, user, state as categories; gpus, cpus, submit_s,
    ready_s, start_s, end_s, duration_s, queue_s, barred_s, limit_s; NaN: unknown). `queue_s` is all pending
    time; from `ready_s` on the cluster made the job wait: for the `barred_s` before it could not start (it
    was to begin later, depended on another, was held; NaN: the log does not say). `running`: all that held
    GPUs in the window, also those submitted earlier (virtual_cluster, gpus, submit_s, ready_s, start_s,
    end_s, user). `bins`: counted submissions of a log without jobs (time_s, gpu_jobs, gpus).
    """

    cluster: str
    window: Window
    jobs: pd.DataFrame
    running: pd.DataFrame
    capacity: Capacity | None = None
    bins: pd.DataFrame | None = None
    samples: OccupancySamples | None = None
    rule: UtilisationRule = UtilisationRule.HALF_OPEN
    notes: tuple[str, ...] = ()
    measured: dict[Callable[..., Any], Any] = field(default_factory=dict, repr=False)  # `measured_once`

    @property
    def known_capacity(self) -> Capacity:
        """The capacity. Raises BadInputError where it is not known; `needs` asks first."""
        if self.capacity is None:
            raise BadInputError(
                f"The nodes of {self.cluster!r} are not known.", remedy="Give them with --nodes."
            )
        return self.capacity

    @cached_property
    def gpu_jobs(self) -> pd.DataFrame:
        """The jobs with at least one GPU, with `gpu_time_s` (gpus x duration; NaN without a duration)."""
        jobs = self.jobs[self.jobs["gpus"] > 0]
        return jobs.assign(gpu_time_s=jobs["gpus"] * jobs["duration_s"])

    @cached_property
    def cpu_jobs(self) -> pd.DataFrame:
        """The jobs without a GPU, with `cpu_time_s`."""
        jobs = self.jobs[self.jobs["gpus"] == 0]
        return jobs.assign(cpu_time_s=jobs["cpus"] * jobs["duration_s"])

    @cached_property
    def hours(self) -> "NDArray[np.int64]":
        """The hour of day at which each of `gpu_jobs` was submitted."""
        return self.window.local(self.gpu_jobs["submit_s"]).hour.to_numpy().astype(np.int64)

    def months_of(self, jobs: pd.DataFrame) -> pd.Index:
        """The month in which each job was submitted, such as `2020-04`."""
        return month_names(self.window.local(jobs["submit_s"]))


def measured_once(measure: Callable[[ObservedLog], Measured]) -> Callable[[ObservedLog], Measured]:
    """Have what several figures of a log are made of measured at the first that asks."""

    @wraps(measure)
    def remembered(log: ObservedLog) -> Measured:
        if measure not in log.measured:
            log.measured[measure] = measure(log)
        result: Measured = log.measured[measure]
        return result

    return remembered


def with_text_index(frame: pd.DataFrame, name: str | None = None) -> pd.DataFrame:
    """Return the frame with the texts of its index, under a name."""
    return frame.set_axis(pd.Index(map(str, frame.index), name=name), axis=0)


def month_names(times: pd.DatetimeIndex) -> pd.Index:
    """Months as texts; a category each, for millions of times."""
    codes, months = pd.factorize(times.year * 12 + times.month - 1, sort=True)
    names = pd.Index([f"{month // 12:04d}-{month % 12 + 1:02d}" for month in months])
    return pd.CategoricalIndex(pd.Categorical.from_codes(codes, names))


def as_columns(jobs: pd.DataFrame) -> pd.DataFrame:
    """The plain columns (see `ObservedLog.jobs`) of a job table with JOB_COLUMNS."""
    submit_s, start_s, end_s = (_seconds(jobs[name]) for name in ("submit_time", "start_time", "end_time"))
    stated_s, stated_queue_s = (_numbers(jobs[name]) for name in ("duration_s", "queuing_delay_s"))
    timed_s, waited_s = end_s - start_s, start_s - submit_s
    eligible_s = _seconds(jobs["eligible_time"])
    ready_s = np.fmin(np.fmax(submit_s, eligible_s), np.fmax(submit_s, start_s))
    return pd.DataFrame(
        {
            **{name: jobs[name].astype("category") for name in ("virtual_cluster", "user", "state")},
            "gpus": jobs["gpus"].to_numpy(dtype=np.int32),
            "cpus": _numbers(jobs["cpus"]),
            "submit_s": submit_s,
            "ready_s": ready_s,
            "start_s": start_s,
            "end_s": end_s,
            "duration_s": np.where(np.isnan(timed_s), stated_s, timed_s),
            "queue_s": np.where(np.isnan(waited_s), stated_queue_s, waited_s),
            "barred_s": np.where(np.isnan(eligible_s), np.nan, ready_s - submit_s),
            "limit_s": _numbers(jobs["time_limit_s"]),
        }
    )


def running_in(jobs: pd.DataFrame, window: Window) -> pd.DataFrame:
    """The GPU jobs that held GPUs, or waited for them, in the window; those still running hold them to its
    end.
    """
    held = jobs.loc[
        (jobs["gpus"] > 0) & jobs["start_s"].notna(),
        ["virtual_cluster", "user", "gpus", "submit_s", "ready_s", "start_s", "end_s"],
    ]
    still = held["end_s"].isna() & (jobs.loc[held.index, "state"] == JobState.RUNNING.value)
    held = held.assign(end_s=held["end_s"].where(~still, window.end_s)).dropna(subset=["end_s"])
    inside = (held["submit_s"] < window.end_s) & (held["end_s"] >= window.start_s)
    return held[inside] if not inside.all() else held


def _seconds(times: "pd.Series[Any]") -> FloatArray:
    naive = times.dt.tz_convert(None) if isinstance(times.dtype, pd.DatetimeTZDtype) else times
    micros = naive.to_numpy(dtype="datetime64[us]")
    return np.where(np.isnat(micros), np.nan, micros.astype(np.int64) / 1e6)


def _numbers(values: "pd.Series[Any]") -> FloatArray:
    return values.to_numpy(dtype=np.float64, na_value=np.nan)
