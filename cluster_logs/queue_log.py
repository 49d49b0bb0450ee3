"""A waiting queue, seen again and again: its jobs, and which waited at which moment with which priority.

With NumPy alone: what computes features of a queue needs no more. `queue_log_files` reads it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cluster_logs.job_facts import source_columns

Column = npt.NDArray[Any]
Columns = Mapping[str, Column]

_COLUMNS = source_columns("queue")


def _names(fact: str) -> tuple[str, ...]:
    return tuple(_COLUMNS[fact].split("|"))


# What is known of a job, by the names that sites give it; the first that a file has is read.
NAMES: Mapping[str, tuple[str, ...]] = {
    "job_id": _names("job_id"),
    "moment_s": ("poll_time", "snapshot_time", "moment"),
    "submit_s": _names("submit_time"),
    "eligible_s": ("eligible_time",),
    "start_s": _names("start_time"),
    "end_s": _names("end_time"),
    "partition": _names("queue"),
    "account": _names("account"),
    "priority": ("priority_y", "priority_poll", "priority"),
    "cpus": _names("cpus"),
    "mem_mib": _names("requested_memory_mib"),
    "gpus": ("gpus", "req_gpus"),
    "limit_s": _names("time_limit_s"),
}
# What a site's own tools say of a waiting job beside; each may be missing.
SITE_NAMES: Mapping[str, str] = {
    "fair_share": "level_fs_poll",
    "usage": "effect_use_poll",
    "share": "norm_share_poll",
    "jobs_above": "q_jobs_above",
    "cpus_above": "q_cores_above",
    "gpus_above": "q_gpus_above",
    "cpu_hours_above": "q_core_hours_above",
    "gpu_hours_above": "q_gpu_hours_above",
    "running_jobs": "r_jobs_above",
    "running_cpus": "r_cores_above",
    "running_gpus": "r_gpus_above",
    "running_cpu_hours": "r_core_hours_above",
    "running_gpu_hours": "r_gpu_hours_above",
}
JOB_COLUMNS = tuple(name for name in NAMES if name not in ("moment_s", "priority"))


@dataclass(frozen=True)
class QueueLog:
    """Jobs, and the moments at which they were seen waiting.

    - `jobs`: arrays of shape (jobs,) by the names of JOB_COLUMNS; times in s, NaN where not known;
      partitions and accounts as positions in `names`.
    - `seen`: arrays of shape (sightings,): `job` (its place among `jobs`), `moment_s`, `priority`, `whole`
      (of a snapshot of the whole queue), and the site's own columns (SITE_NAMES), in the order of moments.
    - `reasons`: rows that were not read, counted by reason; `rows_in`: rows of both files.
    """

    jobs: Columns
    seen: Columns
    names: Mapping[str, tuple[str, ...]]
    rows_in: int
    reasons: Mapping[str, int]

    @property
    def moments_s(self) -> npt.NDArray[np.float64]:
        """The moments at which the whole queue was seen, ascending, in s."""
        return np.unique(self.seen["moment_s"][self.seen["whole"]])

    @property
    def rows_kept(self) -> int:
        """Sightings that were read; with the rows in `reasons` they are all that came in."""
        return int(self.seen["job"].size)

    def partition_name(self, code: int) -> str:
        """What the site calls a partition."""
        return self.names["partition"][code]
