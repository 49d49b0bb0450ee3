"""On which servers workers go: best fit decreasing (Lyra, section 5.3).

Each worker goes to the fullest server that is in use and has room, else to an empty one; the lowest id of
equals. On servers on loan base and flexible workers keep apart, so that servers with flexible workers only
can go back without preempting anybody: a worker looks among the servers of its own kind, then at empty ones,
then at the others. A server with any base worker counts as one of base workers.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from foundation.errors import BadInputError
from simulator.placement import FreeGpus
from simulator.worker_scaling.server_pools import ServerPool

JobT = TypeVar("JobT", bound=Hashable)


class WorkerKind(Enum):
    """Base workers are all placed or none; flexible ones come and go."""

    BASE = "base"
    FLEXIBLE = "flexible"


@dataclass(frozen=True, slots=True)
class ServerRoom:
    """A server's free GPUs, and whether base or flexible workers are on it. All servers are of one size."""

    id: int
    pool: ServerPool
    free_gpus: int
    has_base: bool = False
    has_flexible: bool = False


class PlacementPlan:
    """Servers with room, and the workers that are placed on them one after another."""

    def __init__(self, servers: Iterable[ServerRoom]) -> None:
        in_order = sorted(servers, key=lambda server: server.id)
        self._ids: Sequence[int] = [server.id for server in in_order]
        self._at: Mapping[int, int] | None = {server: at for at, server in enumerate(self._ids)}
        if len(self._at) < len(self._ids):
            raise BadInputError("A server stands twice in the plan.", remedy="Name each server once.")
        wrong = next((server for server in in_order if server.free_gpus < 0), None)
        if wrong is not None:
            raise BadInputError(f"Server {wrong.id} has {wrong.free_gpus} free GPUs.")
        size = max((server.free_gpus for server in in_order), default=0)
        self._free = FreeGpus(len(in_order), size)
        self._keeps_apart = True
        self._own = self._loaned = self._with_base = self._flexible_only = 0
        for at, server in enumerate(in_order):
            self._free.take(((at, size - server.free_gpus),))
            if server.pool is ServerPool.TRAINING:
                self._own |= 1 << at
                continue
            self._loaned |= 1 << at
            if server.has_base:
                self._with_base |= 1 << at
            elif server.has_flexible:
                self._flexible_only |= 1 << at

    @classmethod
    def on(cls, free: FreeGpus, loaned: int, with_base: int, *, keeps_apart: bool = True) -> "PlacementPlan":
        """Return a plan on the nodes of a pool, whose free GPUs it takes and gives.

        Bit *i* of `loaned` and of `with_base` is node *i*: which nodes are on loan, and which of these have
        base workers; no node has only flexible ones yet. Unless it `keeps_apart` base and flexible workers,
        each goes to the fullest server on loan.
        """
        plan = cls.__new__(cls)
        plan._ids, plan._at = range(free.nodes), None
        plan._free, plan._keeps_apart = free, keeps_apart
        plan._own, plan._loaned = ((1 << free.nodes) - 1) & ~loaned, loaned
        plan._with_base, plan._flexible_only = with_base, 0
        return plan

    def free_gpus(self, pool: ServerPool) -> int:
        """Return the free GPUs of a pool."""
        return self._free.free_on(self._own if pool is ServerPool.TRAINING else self._loaned)

    def free_on(self, server: int) -> int:
        """Return a server's free GPUs."""
        return self._free.on_node(self._place_of(server))

    def place_gang(self, pool: ServerPool, gang: Iterable[int]) -> tuple[int, ...] | None:
        """Place base workers of these GPUs, all or none; return a server for each, or None."""
        groups = self._with_base, self._flexible_only
        taken: list[tuple[int, int]] = []
        for gpus in gang:
            if not self._place_base(pool, gpus, taken):
                self._undo(taken, groups)
                return None
        return tuple([self._ids[at] for at, _ in taken])

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
        return tuple((self._ids[at], gpus) for at, gpus in taken)

    def place_flexible(self, pool: ServerPool, gpus_each: int, workers: int) -> tuple[int, ...]:
        """Place as many of these flexible workers as there is room for; return a server for each."""
        placed: list[int] = []
        while len(placed) < workers:
            at = self._find(pool, WorkerKind.FLEXIBLE, gpus_each)
            if at is None:
                break
            self._take(at, WorkerKind.FLEXIBLE, gpus_each)
            placed.append(self._ids[at])
        return tuple(placed)

    def take(self, server: int, kind: WorkerKind, gpus: int) -> bool:
        """Take GPUs of this very server, for workers that stay on it; return whether they are free."""
        at = self._place_of(server)
        if not self._free.is_present(at) or self._free.on_node(at) < gpus:
            return False
        self._take(at, kind, gpus)
        return True

    def give(self, server: int, gpus: int) -> None:
        """Free GPUs again that were taken here; which group the server is in stays as it is."""
        self._free.give(((self._place_of(server), gpus),))

    def _place_of(self, server: int) -> int:
        return server if self._at is None else self._at[server]

    def _find(self, pool: ServerPool, kind: WorkerKind, gpus: int) -> int | None:
        fullest = self._free.fullest
        if pool is ServerPool.TRAINING:
            return fullest(gpus, self._own)
        if not self._keeps_apart:
            return fullest(gpus, self._loaned)
        groups = self._with_base, self._flexible_only
        own_kind, other_kind = groups if kind is WorkerKind.BASE else groups[::-1]
        for among in (own_kind, self._loaned & ~own_kind & ~other_kind, other_kind):
            at = fullest(gpus, among) if among else None
            if at is not None:
                return at
        return None

    def _place_base(self, pool: ServerPool, gpus: int, taken: list[tuple[int, int]]) -> bool:
        at = self._find(pool, WorkerKind.BASE, gpus)
        if at is None:
            return False
        self._take(at, WorkerKind.BASE, gpus)
        taken.append((at, gpus))
        return True

    def _take(self, at: int, kind: WorkerKind, gpus: int) -> None:
        self._free.take(((at, gpus),))
        bit = self._loaned & (1 << at)
        if kind is WorkerKind.BASE:
            self._with_base |= bit
            self._flexible_only &= ~bit
        else:
            self._flexible_only |= bit & ~self._with_base

    def _undo(self, taken: Iterable[tuple[int, int]], groups: tuple[int, int]) -> None:
        self._free.give(tuple(taken))
        self._with_base, self._flexible_only = groups


@dataclass(frozen=True, slots=True)
class WorkerDemand(Generic[JobT]):
    """Workers to place of one job: their number on training servers, and the pools to try, in this order."""

    job: JobT
    gpus_each: int
    workers: int
    kind: WorkerKind = WorkerKind.BASE
    pools: tuple[ServerPool, ...] = (ServerPool.TRAINING,)


def place_workers(
    plan: PlacementPlan, demands: Collection[WorkerDemand[JobT]], loaned_workers_per_worker: int = 1
) -> dict[JobT, tuple[ServerPool, tuple[int, ...]]]:
    """Place the workers of all jobs, those with most GPUs each first, then the jobs with most workers.

    Give the demands in the order of submission, which decides between equals. Returns the pool and a server
    for each worker, for those jobs of which any was placed. A gang that does not fit in a pool leaves nothing
    there and tries its next one. On servers on loan `loaned_workers_per_worker` workers stand for one;
    flexible workers that are less than one are not placed.
    """
    placed: dict[JobT, tuple[ServerPool, tuple[int, ...]]] = {}
    for demand in sorted(demands, key=lambda demand: (-demand.gpus_each, -demand.workers)):
        for pool in demand.pools:
            unit = loaned_workers_per_worker if pool is ServerPool.ON_LOAN else 1
            servers: tuple[int, ...] | None
            if demand.kind is WorkerKind.BASE:
                servers = plan.place_gang(pool, (demand.gpus_each,) * (demand.workers * unit))
            else:
                servers = plan.place_flexible(pool, demand.gpus_each, demand.workers * unit)
                kept = whole_units(Counter(servers), unit)
                for server, workers in (Counter(servers) - Counter(kept)).items():
                    plan.give(server, workers * demand.gpus_each)
                servers = tuple(Counter(kept).elements())
            if servers:
                placed[demand.job] = pool, servers
                break
    return placed


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
