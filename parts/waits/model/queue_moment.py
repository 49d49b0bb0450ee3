"""What is known of a queue at one moment, and nothing of what came after: all that a forecast is made of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cluster_logs.queue_log import JOB_COLUMNS, SITE_NAMES, QueueLog

DAY_S = 86_400.0
# Jobs that started earlier say nothing any more, unless they still run.
HISTORY_S = 10 * DAY_S

Columns = Mapping[str, NDArray[Any]]
_TEXTS = ("partition", "account")
_PLAIN = tuple(name for name in JOB_COLUMNS if name not in ("job_id", "start_s", "end_s"))


@dataclass(frozen=True)
class QueueMoment:
    """A queue at `moment_s`.

    - `waiting`: arrays of shape (waiting,): `job` (position in its log), submit_s, eligible_s (NaN: not yet),
      partition, account (codes or names), cpus, gpus, mem_mib, limit_s, priority, and the site's own columns.
    - `started`: arrays of shape (started,) of jobs that started by then: the same facts, the priority last
      seen, start_s, and end_s (NaN: still running).
    """

    moment_s: float
    waiting: Columns
    started: Columns


def queue_at(log: QueueLog, moment_s: float) -> QueueMoment:
    """The queue as it was known at one of the log's moments; what happened later is not in it."""
    jobs, seen = log.jobs, log.seen
    rows = np.flatnonzero((seen["moment_s"] == moment_s) & seen["whole"])
    positions = seen["job"][rows]
    waiting: dict[str, NDArray[Any]] = {"job": positions, "priority": seen["priority"][rows]}
    waiting |= {name: jobs[name][positions] for name in _PLAIN}
    # A job is not eligible yet, or it is since a time that is known.
    waiting["eligible_s"] = np.where(waiting["eligible_s"] <= moment_s, waiting["eligible_s"], np.nan)
    waiting |= {name: seen[name][rows] for name in SITE_NAMES if name in seen}

    start, end = jobs["start_s"], jobs["end_s"]
    is_recent = (start > moment_s - HISTORY_S) | ~(end <= moment_s)
    past = np.flatnonzero((start <= moment_s) & is_recent)
    sighted = np.flatnonzero(seen["moment_s"] <= moment_s)
    priority = np.full(start.size, np.nan)
    priority[seen["job"][sighted]] = seen["priority"][sighted]  # in the order of moments: the last one stays
    started = {name: jobs[name][past] for name in (*_PLAIN, "start_s")}
    started["priority"] = priority[past]
    started["end_s"] = np.where(end[past] <= moment_s, end[past], np.nan)
    return QueueMoment(moment_s, waiting, started)


def queue_of_jobs(
    moment_s: float, waiting: Sequence[Mapping[str, Any]], started: Sequence[Mapping[str, Any]]
) -> QueueMoment:
    """The queue of jobs with facts under the names of JOB_COLUMNS, and `priority`.

    What is not known is NaN, or no name; a job without `eligible_s` has been eligible since its submission.
    `started` holds nothing that came after `moment_s`.
    """

    def columns(jobs: Sequence[Mapping[str, Any]]) -> dict[str, NDArray[Any]]:
        table: dict[str, NDArray[Any]] = {
            name: np.array([job.get(name) or "" for job in jobs], dtype=np.str_) for name in _TEXTS
        }
        for name in (*_PLAIN, "priority", "start_s", "end_s"):
            if name not in _TEXTS:
                values = [job.get(name) for job in jobs]
                table[name] = np.array(
                    [np.nan if value is None else value for value in values], dtype=np.float64
                )
        table["gpus"] = np.nan_to_num(table["gpus"])
        is_told = np.array(["eligible_s" in job for job in jobs], dtype=np.bool_)
        table["eligible_s"] = np.where(is_told, table["eligible_s"], table["submit_s"])
        return table

    # Of equal priorities the job that came first stands first, as in a log.
    order = sorted(range(len(waiting)), key=lambda place: float(waiting[place]["submit_s"]))
    queue = columns([waiting[place] for place in order])
    queue["job"] = np.array(order, dtype=np.intp)
    return QueueMoment(moment_s, queue, columns(started))
