"""AFS over workers, as Lyra's authors compare it: one at a time to the job that gains most by its GPUs."""

from collections.abc import Sequence
from heapq import heapify, heappop, heapreplace

from parts.lending.workers.scalable_job import ScalableJob
from parts.lending.workers.worker_policy import WorkerPolicy


class AfsByWorkers(WorkerPolicy):
    """The shortest base demands first, then workers by the throughput that they add (Lyra, section 7.1)."""

    def extra_workers(self, jobs: Sequence[ScalableJob], capacity_gpus: int) -> Sequence[int]:
        """Give the next worker to the job that gains most a GPU, the first of equals."""
        extra = [0] * len(jobs)
        gains = [(-_gain(job, 0), at) for at, job in enumerate(jobs)]
        heapify(gains)
        while gains:
            at = gains[0][1]
            job = jobs[at]
            if job.gpus_per_worker > capacity_gpus or gains[0][0] >= 0:
                heappop(gains)
                continue
            capacity_gpus -= job.gpus_per_worker
            extra[at] += 1
            if extra[at] == job.most_extra:
                heappop(gains)
            else:
                heapreplace(gains, (-_gain(job, extra[at]), at))
        return extra


def _gain(job: ScalableJob, extra: int) -> float:
    """Return what one worker more adds to a job's speed on its base workers, by its GPUs."""
    workers = job.workers
    count = workers.least + extra
    more = workers.rate(count + 1) - workers.rate(count)
    return more / workers.rate(workers.least) / job.gpus_per_worker
