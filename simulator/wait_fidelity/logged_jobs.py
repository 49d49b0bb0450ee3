"""What a log says of the jobs that a replay of it replays: when they could start, did start, and ended."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simulator.workload.job_columns import floats, instants_of
from simulator.workload.workload import Workload

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
Names = NDArray[np.object_]


@dataclass(frozen=True, eq=False)
class LoggedJobs:
    """Jobs as their log has them, one element a job; times in s on a replay's clock, NaN: not known.

    `ready_s` is from when on a job waited for the cluster: its submission, or later where it was held,
    depended on another or was to begin later. `limit_s` is the run time that its user asked for.
    """

    virtual_cluster: Names
    gpus: Floats
    submit_s: Floats
    ready_s: Floats
    start_s: Floats
    end_s: Floats
    limit_s: Floats

    def __len__(self) -> int:
        return len(self.gpus)

    @property
    def wait_s(self) -> Floats:
        """How long each waited for the cluster; NaN where the log does not say."""
        return self.start_s - self.ready_s

    def those(self, chosen: NDArray[np.bool_]) -> "LoggedJobs":
        """Return some of the jobs, by a mask."""
        return LoggedJobs(*(values[chosen] for values in vars(self).values()))


def logged_jobs(frame: "pd.DataFrame", workload: Workload) -> LoggedJobs:
    """Return what a job table says of each of a workload's jobs, in their order.

    `frame` is the table that the workload was made of.
    """
    rows = np.arange(len(workload)) if workload.rows is None else workload.rows
    names = workload.columns.virtual_cluster.objects()
    return _columns(frame.iloc[rows], workload.origin, names)


def other_jobs(
    frame: "pd.DataFrame", origin: "pd.Timestamp | None", virtual_cluster: str | None = None
) -> LoggedJobs:
    """Return what a job table says of jobs that are not replayed.

    `virtual_cluster` holds all of them where a cluster is replayed as one.
    """
    names = frame["virtual_cluster"].astype(str).to_numpy(dtype=object)
    if virtual_cluster is not None:
        names = np.full(len(frame), virtual_cluster, dtype=object)
    return _columns(frame, origin, names)


def _columns(frame: "pd.DataFrame", origin: "pd.Timestamp | None", names: Names) -> LoggedJobs:
    submit_s = _seconds(frame, "submit_time", origin)
    start_s = _seconds(frame, "start_time", origin)
    # A start before the submission, or an eligible time after the start, is a slip of a clock.
    eligible_s = _seconds(frame, "eligible_time", origin)
    eligible_s = np.where(eligible_s > start_s, start_s, eligible_s)
    return LoggedJobs(
        virtual_cluster=names,
        gpus=np.nan_to_num(floats(frame, "gpus")),
        submit_s=submit_s,
        ready_s=np.fmax(submit_s, eligible_s),
        start_s=np.maximum(start_s, submit_s),
        end_s=_seconds(frame, "end_time", origin),
        limit_s=floats(frame, "time_limit_s"),
    )


def _seconds(frame: "pd.DataFrame", column: str, origin: "pd.Timestamp | None") -> Floats:
    if column not in frame.columns or origin is None:
        return np.full(len(frame), np.nan)
    instants = instants_of(frame[column]).to_numpy(dtype="datetime64[us]")
    micros = instants.astype(np.int64) - origin.value // 1_000
    return np.where(np.isnat(instants), np.nan, micros / 1e6)
