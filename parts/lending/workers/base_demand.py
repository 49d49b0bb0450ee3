"""Phase 1 of Lyra's scheduler: which waiting jobs get their base demand, and in which pool (section 5.2)."""

from collections.abc import Iterable, Mapping

from foundation.errors import BadInputError
from parts.lending.workers.server_pools import ServerPool


def pools_of(*, loanable: bool, grows: bool) -> tuple[ServerPool, ...]:
    """Return the pools that a job may run in, the preferred first.

    A job that `grows` (it is elastic, and scaling is on) goes to servers on loan, where its flexible workers
    can be taken off without preempting it; others keep off them (section 5.2).
    """
    if not loanable:
        return (ServerPool.TRAINING,)
    pools = (ServerPool.TRAINING, ServerPool.ON_LOAN)
    return pools[::-1] if grows else pools


class BaseRoom:
    """GPUs that no base worker holds, by pool; flexible workers make room for base ones.

    On servers on loan `loaned_workers_per_worker` workers do the work of one, and a demand is so many times
    as large. Raises BadInputError for less than one.
    """

    def __init__(self, free_gpus: Mapping[ServerPool, int], loaned_workers_per_worker: int = 1) -> None:
        if loaned_workers_per_worker < 1:
            raise BadInputError(
                f"There are {loaned_workers_per_worker} loaned workers per worker.", remedy="Use 1 or more."
            )
        self.left_gpus = {pool: free_gpus.get(pool, 0) for pool in ServerPool}
        self._units = {ServerPool.TRAINING: 1, ServerPool.ON_LOAN: loaned_workers_per_worker}

    @property
    def largest(self) -> int:
        """The largest base demand (GPUs) that there is room for in any pool."""
        return max(left // self._units[pool] for pool, left in self.left_gpus.items())

    def take(self, gpus: int, pools: Iterable[ServerPool]) -> tuple[ServerPool, int] | None:
        """Take a base demand from the first of these pools that has it; return it with the GPUs there."""
        for pool in pools:
            wanted = gpus * self._units[pool]
            if wanted <= self.left_gpus[pool]:
                self.left_gpus[pool] -= wanted
                return pool, wanted
        return None
