"""What jobs must be to be replayed."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from foundation.errors import BadInputError
from simulator.workload.columns import WorkloadColumns, objects_in
from simulator.workload.job import Job
from simulator.workload.speed_up import Elasticity
from simulator.workload.workers import Workers

DURATION_TOLERANCE = 1e-6  # by which a run time may differ from what a job's speed-up curve says, relative


def check_jobs(jobs: WorkloadColumns) -> None:
    """Raise BadInputError for a job that cannot be replayed, or that breaks the order of submission."""
    for wrong, why in _CHECKS:
        rows = np.flatnonzero(wrong(jobs))
        if len(rows):
            (job,) = jobs[rows[:1]].jobs()
            raise why(job)
    for column in (jobs.elasticity, jobs.workers):
        present = [row for row, _ in objects_in(column)]
        for job in jobs[present].jobs() if present else ():
            if job.elasticity is not None:
                _check_elasticity(job, job.elasticity)
            if job.workers is not None:
                _check_workers(job, job.workers)


def _out_of_order(jobs: WorkloadColumns) -> NDArray[np.bool_]:
    since_s = np.diff(jobs.submit_time_s, prepend=-np.inf)
    breaks: NDArray[np.bool_] = (since_s < 0) | ((since_s == 0) & (np.diff(jobs.order, prepend=0) < 0))
    return breaks


_CHECKS: tuple[tuple[Callable[[WorkloadColumns], NDArray[np.bool_]], Callable[[Job], BadInputError]], ...] = (
    (
        lambda jobs: (
            ((jobs.gpus < 1) & (jobs.cpus < 1))
            | ~np.isfinite(jobs.submit_time_s)
            | ~np.isfinite(jobs.duration_s)
        ),
        lambda job: BadInputError(f"Job {job.job_id!r} cannot be replayed: {job}."),
    ),
    (
        lambda jobs: ~np.isnan(jobs.cancel_time_s) & ~jobs.withdrawn,
        lambda job: BadInputError(f"Job {job.job_id!r} leaves at a time, but is not withdrawn: {job}."),
    ),
    (
        lambda jobs: jobs.duration_s < 0,
        lambda job: BadInputError(f"Job {job.job_id!r} has a duration of {job.duration_s} s."),
    ),
    (
        _out_of_order,
        lambda job: BadInputError(
            f"Job {job.job_id!r} breaks the order of submission.",
            remedy="Sort the jobs by (submit_time_s, order).",
        ),
    ),
)


def _check_elasticity(job: Job, elasticity: Elasticity) -> None:
    """Raise BadInputError unless the job's run time is what its curve says for all of its GPUs."""
    if not job.gpus or elasticity.min_gpus > job.gpus:
        raise BadInputError(
            f"Job {job.job_id!r} asks for {job.gpus} GPUs, and is to run on {elasticity.min_gpus} or more."
        )
    says_s = elasticity.service_s / elasticity.speed_up.at(job.gpus)
    if abs(says_s - job.duration_s) > DURATION_TOLERANCE * max(1.0, says_s):
        raise BadInputError(
            f"Job {job.job_id!r} takes {job.duration_s} s, and by its speed-up curve {says_s} s on "
            f"all of its {job.gpus} GPUs.",
            remedy="Let duration_s be service_s / S(gpus).",
        )


def _check_workers(job: Job, workers: Workers) -> None:
    """Raise BadInputError unless the job asks for the GPUs of all its workers."""
    if job.gpus != workers.gpus or job.elasticity is not None:
        raise BadInputError(
            f"Job {job.job_id!r} asks for {job.gpus} GPUs and has up to {workers.most} workers of "
            f"{workers.gpus_each}.",
            remedy="Let gpus be most x gpus_each, and give it no elasticity beside its workers.",
        )
