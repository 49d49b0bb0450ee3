"""Orders a queue by a release: the job that will hold the fewest GPU-seconds goes first (Lucid section
3.5.3).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from live_scheduler.fallback import fifo_order
from live_scheduler.queue_file import check_queue, read_queue
from live_scheduler.release import FallbackRelease, Release

__all__ = ["RankedJob", "rank_queue", "read_queue"]


@dataclass(frozen=True)
class RankedJob:
    """One waiting job; the lowest `priority` starts first.

    `priority` is GPUs x estimated run time in GPU-seconds (a job without GPUs counts as one), or by the
    fallback the submission in Unix seconds. `estimated_duration_s` is None by the fallback, which knows no
    run times.
    """

    job_id: str
    priority: float
    estimated_duration_s: float | None
    reason: str


def rank_queue(queue: Sequence[Mapping[str, Any]], release: Release) -> list[RankedJob]:
    """The queue in the order in which its jobs should start; ties by submission, then by place in the queue.

    Raises BadInputError that names the row and column of a value that cannot be used. A release that fails
    on a queue is not used for it: the queue is then served first in, first out, and every reason says why.
    """
    jobs = check_queue(queue)
    if not jobs:
        return []
    if isinstance(release, FallbackRelease):
        return _first_in_first_out(jobs, release.why)
    try:
        estimates = release.scorers.duration.estimate(jobs)
    except Exception as error:  # a scheduler must go on whatever a model does
        return _first_in_first_out(jobs, f"{release.describe()} failed on this queue: {error!r}")
    ranked = [
        RankedJob(str(job["job_id"]), max(job["gpus"], 1) * estimate.p50_s, estimate.p50_s, estimate.reason)
        for job, estimate in zip(jobs, estimates, strict=True)
    ]
    order = sorted(range(len(jobs)), key=lambda i: (ranked[i].priority, jobs[i]["submit_time_s"], i))
    return [ranked[position] for position in order]


def _first_in_first_out(jobs: Sequence[Mapping[str, Any]], why: str) -> list[RankedJob]:
    reason = f"First in, first out: {why}"
    return [
        RankedJob(str(jobs[i]["job_id"]), float(jobs[i]["submit_time_s"]), None, reason)
        for i in fifo_order(jobs)
    ]
