"""On which servers workers go: best fit decreasing (Lyra, section 5.3).

Each worker goes to the fullest server that is in use and has room, else to an empty one; the lowest id of
equals. On servers on loan base and flexible workers keep apart, so that servers with flexible workers only
can go back without preempting anybody: a worker looks among the servers of its own kind, then at empty ones,
then at the others. A server with any base worker counts as one of base workers.
"""

from collections.abc import Iterable, Mapping
from enum import Enum

from parts.lending.workers.server_pools import ServerPool
from simulator.cluster.placement import FreeGpus


class WorkerKind(Enum):
    """Base workers are all placed or none; flexible ones come and go."""

    BASE = "base"
    FLEXIBLE = "flexible"


class PlacementPlan:
    """The servers of a pool, and the workers that are placed on them one after another."""

    def __init__(self, free: FreeGpus, loaned: int, with_base: int, *, keeps_apart: bool = True) -> None:
        """`free` are the pool's free GPUs, which the plan takes and gives.

        Bit *i* of `loaned` and of `with_base` is node *i*: which nodes are on loan, and which of these have
        base workers; no node has only flexible ones yet. Unless it `keeps_apart` base and flexible workers,
        each goes to the fullest server on loan.
        """
        self._free = free
        self._keeps_apart = keeps_apart
        self._own = ((1 << free.nodes) - 1) & ~loaned
        self._loaned = loaned
        self._with_base = with_base
        self._flexible_only = 0

    def free_gpus(self, pool: ServerPool) -> int:
        """Return the free GPUs of a pool."""
        return self._free.free_on(self._own if pool is ServerPool.TRAINING else self._loaned)

    def free_on(self, server: int) -> int:
        """Return a server's free GPUs."""
        return self._free.on_node(server)

    def place_gang(self, pool: ServerPool, gang: Iterable[int]) -> tuple[int, ...] | None:
        """Place base workers of these GPUs, all or none; return a server for each, or None."""
        groups = self._with_base, self._flexible_only
        taken: list[tuple[int, int]] = []
        for gpus in gang:
            if not self._place_base(pool, gpus, taken):
                self._undo(taken, groups)
                return None
        return tuple([server for server, _ in taken])

    def place_mixed_gang(
        self, gang: Iterable[int], loaned_workers_per_worker: int
    ) -> tuple[tuple[int, int], ...] | None:
        """Place base workers all or none, on training servers first; return (server, GPUs) for each, or None.

        Each that finds no room there is as many workers on loan as do the work of one.
        """
        groups = self._with_base, self._flexible_only
        taken: list[tuple[int, int]] = []
        for gpus in gang:
            if not self._place_base(ServerPool.TRAINING, gpus, taken) and not all(
                self._place_base(ServerPool.ON_LOAN, gpus, taken) for _ in range(loaned_workers_per_worker)
            ):
                self._undo(taken, groups)
                return None
        return tuple(taken)

    def place_flexible(self, pool: ServerPool, gpus_each: int, workers: int) -> tuple[int, ...]:
        """Place as many of these flexible workers as there is room for; return a server for each."""
        placed: list[int] = []
        while len(placed) < workers:
            server = self._find(pool, WorkerKind.FLEXIBLE, gpus_each)
            if server is None:
                break
            self._take(server, WorkerKind.FLEXIBLE, gpus_each)
            placed.append(server)
        return tuple(placed)

    def take(self, server: int, kind: WorkerKind, gpus: int) -> bool:
        """Take GPUs of this very server, for workers that stay on it; return whether they are free."""
        if not self._free.is_present(server) or self._free.on_node(server) < gpus:
            return False
        self._take(server, kind, gpus)
        return True

    def give(self, server: int, gpus: int) -> None:
        """Free GPUs again that were taken here; which group the server is in stays as it is."""
        self._free.give(((server, gpus),))

    def _find(self, pool: ServerPool, kind: WorkerKind, gpus: int) -> int | None:
        fullest = self._free.fullest
        if pool is ServerPool.TRAINING:
            return fullest(gpus, self._own)
        if not self._keeps_apart:
            return fullest(gpus, self._loaned)
        groups = self._with_base, self._flexible_only
        own_kind, other_kind = groups if kind is WorkerKind.BASE else groups[::-1]
        for among in (own_kind, self._loaned & ~own_kind & ~other_kind, other_kind):
            server = fullest(gpus, among) if among else None
            if server is not None:
                return server
        return None

    def _place_base(self, pool: ServerPool, gpus: int, taken: list[tuple[int, int]]) -> bool:
        server = self._find(pool, WorkerKind.BASE, gpus)
        if server is None:
            return False
        self._take(server, WorkerKind.BASE, gpus)
        taken.append((server, gpus))
        return True

    def _take(self, server: int, kind: WorkerKind, gpus: int) -> None:
        self._free.take(((server, gpus),))
        bit = self._loaned & (1 << server)
        if kind is WorkerKind.BASE:
            self._with_base |= bit
            self._flexible_only &= ~bit
        else:
            self._flexible_only |= bit & ~self._with_base

    def _undo(self, taken: Iterable[tuple[int, int]], groups: tuple[int, int]) -> None:
        self._free.give(tuple(taken))
        self._with_base, self._flexible_only = groups


def whole_units(workers: Mapping[int, int], unit: int) -> dict[int, int]:
    """Return the flexible workers by server without those that are less than a whole `unit` together.

    They leave the servers with the lowest ids. On loaned servers `unit` workers stand for one.
    """
    surplus = sum(workers.values()) % unit
    kept = {}
    for server in sorted(workers):
        gone = min(surplus, workers[server])
        surplus -= gone
        if workers[server] > gone:
            kept[server] = workers[server] - gone
    return kept
