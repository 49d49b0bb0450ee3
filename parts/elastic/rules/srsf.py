"""SRSF: the least remaining GPU time first (Tiresias-G, NSDI '19, as PCS' authors compare with it)."""

from collections.abc import Sequence

from parts.elastic.active_job import ActiveJob
from parts.elastic.allocation import AllocationRule, Pool
from parts.elastic.elastic_policy import ElasticPolicy
from parts.elastic.rules.elastic_fifo import serve


class ShortestRemainingServiceFirst(AllocationRule):
    """Serves the job first that would need the fewest more seconds times GPUs on all that it makes use of."""

    settles_at_events = True
    at_events_only = True  # running jobs overtake waiting ones in between

    def allocate(self, jobs: Sequence[ActiveJob], pool: Pool, now_s: float) -> list[float]:
        """Serve jobs by their remaining GPU time, equal ones in the order of submission."""
        order = sorted(range(len(jobs)), key=[remaining_gpu_s(job, now_s) for job in jobs].__getitem__)
        given = [0.0] * len(jobs)
        for at, gpus in zip(order, serve([jobs[at] for at in order], pool), strict=True):
            given[at] = gpus
        return given


def remaining_gpu_s(job: ActiveJob, now_s: float) -> float:
    """Remaining run time on all GPUs that a job makes use of, times their number."""
    return job.demand * max(0.0, job.remaining_at(now_s)) / job.speed_up.at(job.demand)


class Srsf(ElasticPolicy):
    """Jobs are served in the order of GPUs x remaining run time; it reads true sizes."""

    rule: AllocationRule = ShortestRemainingServiceFirst()
