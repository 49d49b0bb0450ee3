"""Any job as workers: those of a log that tells workers, elastic jobs of other kinds, and rigid ones."""

from functools import lru_cache
from math import isfinite

from simulator.job_view import JobView, outlasting
from simulator.workload.speed_up import Elasticity
from simulator.workload.workers import Workers


def workers_of(view: JobView) -> Workers:
    """Return the workers of a job.

    A rigid job is one worker of all its GPUs. Of an elastic job by GPUs (`Job.elasticity`) each GPU is a
    worker, and the speed is that of its curve.
    """
    workers = view.job.workers
    return _implied(view.gpus, view.job.elasticity) if workers is None else workers


@lru_cache(maxsize=65536)
def _implied(gpus: int, elasticity: Elasticity | None) -> Workers:
    if elasticity is None:
        return Workers(gpus, 1, 1)
    least = max(1, elasticity.min_gpus)
    curve = elasticity.speed_up
    return Workers(
        1, least, gpus, speed_ups=tuple(curve.at(n) / curve.at(least) for n in range(least, gpus + 1))
    )


def widest_first(view: JobView) -> tuple[int, int, int]:
    """Order by best fit decreasing (Lyra, section 5.3): most GPUs a worker, then most workers."""
    workers = workers_of(view)
    return (-workers.gpus_each, -workers.least, view.index)


def base_gang(view: JobView, gpus_per_node: int) -> tuple[int, ...]:
    """Return the GPUs of each of a job's base workers, largest first.

    What is no gang of workers in the log is one consolidated gang: whole nodes, and what remains.
    """
    workers = view.job.workers
    if workers is not None:
        return (workers.gpus_each,) * workers.least
    whole, rest = divmod(view.min_gpus, gpus_per_node)
    return (gpus_per_node,) * whole + (rest,) * (rest > 0)


def believed_left_s(view: JobView, now_s: float, *, by_estimates: bool) -> float:
    """Return how long a job would still run on all of its workers (s), in truth or by its estimate."""
    left_s = view.remaining_at(now_s)
    if not by_estimates or view.estimate_s == view.job.duration_s:
        return left_s
    # On a live cluster true run times are unknown.
    done_s = view.job.duration_s - left_s if isfinite(left_s) else view.attained_at(now_s)
    return outlasting(max(view.estimate_s, 1e-6), done_s) - done_s
