"""Whether a job's workers may be where a policy puts them, and how fast it runs there (Lyra, 2.2 and 7.1).

A job runs wholly on its pool's own servers or wholly on servers of the lender that are on loan; a
heterogeneous job may run on both. On loaned servers `loaned_workers_per_worker` workers do the work of one.
"""

from simulator.cluster.placement import Placement
from simulator.job_view import JobView
from simulator.snapshot import Lender, NodePool
from simulator.workload.workers import Workers


class PlacedWorkers:
    """The rules for workers in one simulation. They raise ValueError, with the reason."""

    def __init__(self, lender: Lender | None) -> None:
        self._lender = lender

    def speed(self, view: JobView, pool: NodePool, placement: Placement, flexible: Placement) -> float:
        """Return the speed of a job with workers placed like that; 1 with all of them on own servers.

        `placement` are the GPUs of all its workers by server, `flexible` those of its flexible ones.
        """
        workers = view.job.workers
        assert workers is not None  # noqa: S101
        own, loaned = self._count(workers, pool, placement)
        flexible_own, flexible_loaned = self._count(workers, pool, flexible)
        held = dict(placement)
        if any(held.get(node, 0) < gpus for node, gpus in flexible):
            raise ValueError("more flexible workers than workers")
        if loaned and not (workers.loanable or workers.heterogeneous):
            raise ValueError("it may not run on loaned servers")
        if own and loaned and not workers.heterogeneous:
            raise ValueError("it may not run on own and on loaned servers at once")
        many = 1 if self._lender is None else self._lender.loaned_workers_per_worker
        total = (own * many + loaned) / many
        base = ((own - flexible_own) * many + loaned - flexible_loaned) / many
        if base < workers.least or total > workers.most:
            raise ValueError(
                f"{base:g} base workers of {total:g} in all; it runs on {workers.least} to {workers.most}"
            )
        speed = workers.rate(total) / workers.rate(workers.most)
        if own and loaned and self._lender is not None:
            speed *= self._lender.mixed_speed
        return speed

    def _count(self, workers: Workers, pool: NodePool, placement: Placement) -> tuple[int, int]:
        """Return the workers on own servers, and on those of the lender."""
        own = loaned = 0
        lender = self._lender
        for node, gpus in placement:
            count, rest = divmod(gpus, workers.gpus_each)
            if rest or count < 1:
                raise ValueError(f"{gpus} GPUs on server {node} are no workers of {workers.gpus_each} GPUs")
            if lender is not None and pool.is_lent_by(lender.name, node):
                loaned += count
            else:
                own += count
        return own, loaned
