"""On which servers workers go: best fit decreasing (Lyra, section 5.3).

Each worker goes to the fullest server that is in use and has room, else to an empty one; the lowest id of
equals. On servers on loan base and flexible workers keep apart, so that servers with flexible workers only
can go back without preempting anybody: a worker looks among the servers of its own kind, then at empty ones,
then at the others. A server with any base worker counts as one of base workers.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from foundation.errors import BadInputError
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


class _Group(Enum):
    """Servers that a worker looks at together, best fit first."""

    TRAINING = 0
    BASE = 1
    EMPTY = 2
    FLEXIBLE = 3


_TIERS: Mapping[tuple[ServerPool, WorkerKind], tuple[_Group, ...]] = {
    (ServerPool.TRAINING, WorkerKind.BASE): (_Group.TRAINING,),
    (ServerPool.TRAINING, WorkerKind.FLEXIBLE): (_Group.TRAINING,),
    (ServerPool.ON_LOAN, WorkerKind.BASE): (_Group.BASE, _Group.EMPTY, _Group.FLEXIBLE),
    (ServerPool.ON_LOAN, WorkerKind.FLEXIBLE): (_Group.FLEXIBLE, _Group.EMPTY, _Group.BASE),
}


def _group_of(server: ServerRoom) -> _Group:
    if server.pool is ServerPool.TRAINING:
        return _Group.TRAINING
    if server.has_base:
        return _Group.BASE
    return _Group.FLEXIBLE if server.has_flexible else _Group.EMPTY


class PlacementPlan:
    """Servers with room, and the workers that are placed on them one after another."""

    def __init__(self, servers: Iterable[ServerRoom]) -> None:
        in_order = sorted(servers, key=lambda server: server.id)
        self._ids = [server.id for server in in_order]
        self._at = {server: at for at, server in enumerate(self._ids)}
        if len(self._at) < len(self._ids):
            raise BadInputError("A server stands twice in the plan.", remedy="Name each server once.")
        wrong = next((server for server in in_order if server.free_gpus < 0), None)
        if wrong is not None:
            raise BadInputError(f"Server {wrong.id} has {wrong.free_gpus} free GPUs.")
        self._free = [server.free_gpus for server in in_order]
        self._group = [_group_of(server) for server in in_order]
        # Which servers of a group have so many free GPUs: bit i is the server with the i-th lowest id.
        size = max(self._free, default=0)
        self._buckets = {group: [0] * (size + 1) for group in _Group}
        for at, free in enumerate(self._free):
            self._buckets[self._group[at]][free] |= 1 << at

    def free_gpus(self, pool: ServerPool) -> int:
        """Return the free GPUs of a pool."""
        own = pool is ServerPool.TRAINING
        return sum(
            free
            for free, group in zip(self._free, self._group, strict=True)
            if (group is _Group.TRAINING) == own
        )

    def free_on(self, server: int) -> int:
        """Return a server's free GPUs."""
        return self._free[self._at[server]]

    def place_gang(self, pool: ServerPool, gpus_each: int, workers: int) -> tuple[int, ...] | None:
        """Place base workers, all or none; return a server for each, or None."""
        before: list[tuple[int, int, _Group]] = []
        for _ in range(workers):
            at = self._find(pool, WorkerKind.BASE, gpus_each)
            if at is None:
                for undone in reversed(before):
                    self._put(*undone)
                return None
            before.append((at, self._free[at], self._group[at]))
            self._take(at, WorkerKind.BASE, gpus_each)
        return tuple(self._ids[at] for at, _, _ in before)

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
        at = self._at[server]
        if self._free[at] < gpus:
            return False
        self._take(at, kind, gpus)
        return True

    def give(self, server: int, gpus: int) -> None:
        """Free GPUs again that were taken here; which group the server is in stays as it is."""
        at = self._at[server]
        self._put(at, self._free[at] + gpus, self._group[at])

    def _find(self, pool: ServerPool, kind: WorkerKind, gpus: int) -> int | None:
        for group in _TIERS[pool, kind]:
            for bucket in self._buckets[group][gpus:]:
                if bucket:
                    return (bucket & -bucket).bit_length() - 1
        return None

    def _take(self, at: int, kind: WorkerKind, gpus: int) -> None:
        group = self._group[at]
        if group is not _Group.TRAINING and kind is WorkerKind.BASE:
            group = _Group.BASE
        elif group is _Group.EMPTY:
            group = _Group.FLEXIBLE
        self._put(at, self._free[at] - gpus, group)

    def _put(self, at: int, free: int, group: _Group) -> None:
        self._buckets[self._group[at]][self._free[at]] ^= 1 << at
        self._buckets[group][free] |= 1 << at
        self._free[at], self._group[at] = free, group


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
                servers = plan.place_gang(pool, demand.gpus_each, demand.workers * unit)
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
