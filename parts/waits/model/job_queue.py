"""The waiting queue of a job table: the jobs that were submitted and had not started, at moments in a row.

Every log with submissions and starts tells as much, so that a wait model can be learned, judged and watched
where no snapshots of the queue are taken. Priorities and a site's own figures are not in it. Where the table
tells from when on a job might start, its wait begins then: what the cluster would not have started (a later
begin, a dependency, a hold) is no queue's doing (docs/decisions/0092-waits-count-when-job-eligible-start.md).
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cluster_logs.lake import Lake
from cluster_logs.queue_log import JOB_COLUMNS, Columns, QueueLog
from foundation.site import Site
from lucid_models.duration.tables import ends_and_run_times, epoch_seconds
from lucid_models.groups import Floats
from lucid_models.training_data import as_known_at
from parts.waits.model.queue_moment import DAY_S, HISTORY_S

# Moments lie so far apart that they visit the hours of the day in turn; 40 of them are four weeks.
MOMENT_EVERY_S = 17 * 3_600.0
LEARNED_MOMENTS = 40
# Jobs that were submitted longer before the first moment are taken to wait no more.
LONGEST_WAIT_S = 30 * DAY_S
# Facts of the job table that say as much as a column of a queue's log, the first that the table tells.
_FACTS: Mapping[str, tuple[str, ...]] = {
    "partition": ("virtual_cluster",),
    "account": ("account", "user"),
    "cpus": ("cpus",),
    "gpus": ("gpus",),
    "limit_s": ("time_limit_s",),
}
TEXTS = ("partition", "account")


def read_job_queue(site: Site, until: datetime, moments: int = LEARNED_MOMENTS) -> QueueLog:
    """The queue of a cluster's jobs in the lake at the last `moments` moments before `until`, as known then.

    Raises NotFoundError when the lake has no jobs of the cluster.
    """
    return queue_log_of_jobs(jobs_of_queue(site, until, moments), moments_before(until, moments))


def jobs_of_queue(site: Site, until: datetime, moments: int) -> pd.DataFrame:
    """The jobs that make the queue at so many moments before `until`, as known then."""
    span = timedelta(seconds=moments * MOMENT_EVERY_S + HISTORY_S + LONGEST_WAIT_S)
    return as_known_at(Lake(site.lake).read_jobs(site.cluster, until - span, until), until)


def jobs_around(jobs: pd.DataFrame, moment: datetime) -> pd.DataFrame:
    """Those of a job table that make the queue at one moment."""
    span = timedelta(seconds=HISTORY_S + LONGEST_WAIT_S)
    submit = jobs["submit_time"]
    return jobs[(submit > moment - span) & (submit <= moment)].reset_index(drop=True)


def moments_before(until: datetime, moments: int) -> Floats:
    """So many moments in a row, the last one at `until` (Unix s)."""
    return until.timestamp() - MOMENT_EVERY_S * np.arange(moments - 1, -1, -1, dtype=np.float64)


def queue_log_of_jobs(jobs: pd.DataFrame, moments_s: Floats) -> QueueLog:
    """Who of a job table (JOB_SCHEMA) waited at each of the moments (Unix s, ascending).

    A job waits from when on it might start; one that was withdrawn waited until its end. Counted by reason
    are rows without a submission, those that end or start before it, those that have ended without saying
    when, and those that might never start.
    """
    columns, reasons = _columns(jobs)
    names: dict[str, tuple[str, ...]] = {}
    for name in TEXTS:
        codes, uniques = pd.factorize(columns[name], sort=True)
        columns[name], names[name] = codes, tuple(map(str, uniques))
    return queue_seen_at(moments_s, columns, names, reasons)


def queue_seen_at(
    moments_s: Floats,
    columns: Columns,
    names: Mapping[str, tuple[str, ...]],
    reasons: Mapping[str, int],
) -> QueueLog:
    """Jobs (by JOB_COLUMNS), seen at each moment at which they had been submitted and had not started."""
    submit, start, end = columns["submit_s"], columns["start_s"], columns["end_s"]
    left = np.where(np.isnan(start), end, start)
    waits = [np.flatnonzero((submit <= moment) & ~(left <= moment)) for moment in moments_s.tolist()]
    sighted = np.concatenate([*waits, np.empty(0, dtype=np.intp)]).astype(np.intp)
    seen = {
        "job": sighted,
        "moment_s": np.repeat(moments_s, [rows.size for rows in waits]),
        "priority": np.full(sighted.size, np.nan),
        "whole": np.ones(sighted.size, dtype=np.bool_),
    }
    return QueueLog(columns, seen, names, sighted.size + sum(reasons.values()), reasons)


def _columns(jobs: pd.DataFrame) -> tuple[dict[str, NDArray[np.generic]], dict[str, int]]:
    """The columns of JOB_COLUMNS by when jobs might start, and the rows that were left out, by reason."""
    submit = epoch_seconds(jobs, "submit_time")
    end, run_s = ends_and_run_times(jobs)
    start = epoch_seconds(jobs, "start_time")
    start = np.where(np.isnan(start), end - run_s, start)
    ready = _ready(jobs, submit, start)
    ended = jobs["state"].isin(["COMPLETED", "CANCELLED", "FAILED"]).to_numpy(dtype=np.bool_)
    refused = {
        "no_submit_time": np.isnan(submit),
        "started_before_submission": (start < submit) | (end < submit),
        "no_start_time": ended & np.isnan(start) & np.isnan(end),
        "never_eligible": np.isnan(ready) | (np.isnan(start) & (end < ready)),
    }
    reasons: dict[str, int] = {}
    is_kept = np.ones(len(jobs), dtype=np.bool_)
    for reason, is_refused in refused.items():
        if (is_kept & is_refused).any():
            reasons[reason] = int((is_kept & is_refused).sum())
        is_kept &= ~is_refused
    order = np.flatnonzero(is_kept)
    order = order[np.lexsort((jobs["job_id"].astype(str).to_numpy()[order], ready[order]))]
    facts = {name: _fact(jobs, name) for name in _FACTS}
    unknown = np.full(len(jobs), np.nan)
    table = {"job_id": jobs["job_id"].astype(str).to_numpy(dtype=object), **facts, "mem_mib": unknown}
    table |= {
        "submit_s": ready,
        "eligible_s": ready,
        "start_s": start,
        "end_s": end,
    }
    return {name: table[name][order] for name in JOB_COLUMNS}, reasons


def _ready(jobs: pd.DataFrame, submit: Floats, start: Floats) -> Floats:
    """From when on each job might start, NaN: never yet. A table that does not tell it has them wait from
    their submission on, and so has a job that started without.
    """
    if "eligible_time" not in jobs or jobs["eligible_time"].isna().all():
        return submit
    eligible = epoch_seconds(jobs, "eligible_time")
    unknown = np.where(np.isnan(start), np.nan, submit)
    return np.where(np.isnan(eligible), unknown, np.fmin(np.fmax(eligible, submit), start))


def _fact(jobs: pd.DataFrame, name: str) -> NDArray[np.generic]:
    known = (column for column in _FACTS[name] if column in jobs and jobs[column].notna().any())
    column = next(known, None)
    if name in TEXTS:
        if column is None:
            return np.full(len(jobs), "", dtype=object)
        return jobs[column].astype("string").fillna("").to_numpy(dtype=object)
    if column is None:
        return np.full(len(jobs), np.nan if name != "gpus" else 0.0)
    values = pd.to_numeric(jobs[column], errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    return np.nan_to_num(values) if name == "gpus" else values
