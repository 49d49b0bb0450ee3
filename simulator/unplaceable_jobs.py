"""Jobs that are larger than their virtual cluster is at present.

They wait beside the queue until it has grown again: a policy that serves its queue in order would otherwise
stop for ever at a job that cannot run. Nodes that failed or are lent count: they come back.
"""

from collections.abc import Iterable

from simulator.job_view import JobView, RunState
from simulator.snapshot import NodePool


class UnplaceableJobs:
    """Holds such jobs by pool. Only pools whose size changes are watched."""

    def __init__(self, pools: Iterable[NodePool]) -> None:
        self._fit = {pool: pool.gpus_when_whole() for pool in pools}
        self._held: dict[NodePool, dict[JobView, None]] = {pool: {} for pool in self._fit}

    def hold(self, job: JobView, pool: NodePool) -> bool:
        """Hold a job that begins to wait, if the pool is too small for it; say whether."""
        if job.gpus <= self._fit.get(pool, job.gpus):
            return False
        job.state = RunState.HELD
        self._held[pool][job] = None
        return True

    def resized(self, pool: NodePool) -> list[JobView]:
        """Hold the queued jobs that no longer fit, and return those held that now do, as they came."""
        fit = self._fit[pool] = pool.gpus_when_whole()
        held = self._held[pool]
        back = [job for job in held if job.gpus <= fit]
        for job in back:
            del held[job]
        for job in [job for job in pool.queue if job.gpus > fit]:
            pool.queue.remove(job)
            self.hold(job, pool)
        return back

    def forget(self, job: JobView, pool: NodePool) -> None:
        """Release a held job that leaves."""
        del self._held[pool][job]

    def jobs(self) -> list[JobView]:
        """Return all that are held."""
        return [job for held in self._held.values() for job in held]
