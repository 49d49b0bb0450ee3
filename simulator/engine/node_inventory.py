"""The nodes of a running simulation: which pool has them, and what closes them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from foundation.errors import BadInputError, UnknownNameError
from simulator.cluster.changes import ClusterChange, NodeFailure, Repair, SizeChange
from simulator.cluster.placement import FreeGpus, Remainder, free_gpus
from simulator.cluster.spec import ClusterSpec
from simulator.job_view import JobView
from simulator.snapshot import FAILED, GONE, Lender, NodePool


@dataclass(frozen=True)
class Affected:
    """What a change of the cluster touches: pools to decide in, jobs that are killed, a repair to come."""

    pools: tuple[NodePool, ...] = ()
    killed: tuple[JobView, ...] = ()
    repair: Repair | None = None


def cpu_pool(virtual_cluster: str) -> str:
    """Name the pool of a virtual cluster's CPU jobs."""
    return f"{virtual_cluster}:cpu"


def make_pools(cluster: ClusterSpec, cpu_cores_per_node: int, remainder: Remainder) -> dict[str, NodePool]:
    """Make the pools of a cluster: its virtual clusters, its partitions, and pools of cores for CPU jobs.

    Cores are served like GPUs: a CPU job of at most a node's cores stays on one node.
    """
    sizes = (*cluster.virtual_clusters.items(), *cluster.partitions.items())
    pools = {name: NodePool(name, FreeGpus(nodes, cluster.gpus_per_node, remainder)) for name, nodes in sizes}
    for name, gpus in cluster.node_gpus.items():
        pools[name] = NodePool(name, free_gpus(gpus, cluster.gpus_per_node, remainder))
    if cpu_cores_per_node:
        for name, nodes in cluster.virtual_clusters.items():
            pools[cpu_pool(name)] = NodePool(cpu_pool(name), FreeGpus(nodes, cpu_cores_per_node, remainder))
    for share in cluster.shared.values():
        for name in (share.pool, cpu_pool(share.pool)):
            if name in pools:
                pools[name].masks = cluster.masks(share.pool)
    return pools


def beside_lender(cluster: ClusterSpec, lender: Lender | None) -> ClusterSpec:
    """Return a cluster with the servers of a lender as one more partition."""
    if lender is None:
        return cluster
    if lender.name in {*cluster.virtual_clusters, *cluster.partitions}:
        raise BadInputError(
            f"The servers that may be lent are called {lender.name!r}, as a part of the cluster is.",
            remedy="Give them another name.",
        )
    return replace(cluster, partitions={**cluster.partitions, lender.name: lender.servers})


class NodeInventory:
    """Applies cluster changes to pools, and integrates the GPUs that there were over time.

    A virtual cluster's nodes are counted as its own, in the order of their indices, whether they are lent or
    not; nodes that a policy set aside are taken off its size, and do not fail.
    """

    def __init__(self, pools: Mapping[str, NodePool], given: ClusterSpec, prepared: ClusterSpec) -> None:
        self._pools = pools
        self.set_aside = {
            name: nodes - prepared.virtual_clusters[name] for name, nodes in given.virtual_clusters.items()
        }
        self.failures = 0  # so far
        self._gpus = [(0.0, prepared.total_gpus)]  # (s, GPUs), each until the next

    def mean_gpus(self, until_s: float, from_s: float = 0.0) -> float:
        """Return how many GPUs the cluster has offered on average from `from_s` to `until_s`."""
        if len(self._gpus) == 1 or until_s <= from_s:
            return self._gpus[-1][1]
        gpu_s = 0.0
        for (begin_s, gpus), (end_s, _) in pairwise([*self._gpus, (until_s, 0)]):
            gpu_s += gpus * max(0.0, min(end_s, until_s) - max(begin_s, from_s))
        return gpu_s / (until_s - from_s)

    def apply(self, change: ClusterChange | Repair, now_s: float) -> Affected:
        """Apply a change; raises UnknownNameError for a virtual cluster that does not exist."""
        if isinstance(change, Repair):
            return self._repair(change, now_s)
        if change.virtual_cluster not in self.set_aside:
            raise UnknownNameError("virtual cluster", change.virtual_cluster, self.set_aside)
        pool = self._pools[change.virtual_cluster]
        if isinstance(change, SizeChange):
            nodes = max(0, change.nodes - self.set_aside[pool.name])
            affected = [pool]
            if cpu_pool(pool.name) in self._pools:
                affected.append(self._pools[cpu_pool(pool.name)])
            for each in affected:
                self._resize(each, nodes, now_s)
            return Affected(tuple(affected))
        return self._fail(change, pool, now_s)

    def _resize(self, pool: NodePool, nodes: int, now_s: float) -> None:
        if pool.masks or not pool.free.has_equal_nodes:
            raise BadInputError(
                f"The nodes of {pool.name!r} change in number, and they are shared or differ in size.",
                remedy="Replay a stretch of time with one table of nodes.",
            )
        own = pool.own_nodes()
        for node in own[nodes:]:
            pool.power_on(node)
        before = pool.total_gpus
        for node in own[:nodes]:
            pool.reopen(node, GONE)
        for node in own[nodes:]:
            pool.close(node, GONE)
        for _ in range(nodes - len(own)):
            pool.free.add_node()
            pool.total_gpus += pool.free.gpus_per_node
        if pool.name in self.set_aside:
            self._count(pool.total_gpus - before, now_s)

    def _count(self, gpus: int, now_s: float) -> None:
        changed_s, present = self._gpus[-1]
        if changed_s == now_s:
            self._gpus.pop()
        self._gpus.append((now_s, present + gpus))

    def _fail(self, failure: NodeFailure, pool: NodePool, now_s: float) -> Affected:
        own = pool.own_nodes()
        if failure.node >= len(own) + self.set_aside[pool.name]:
            raise BadInputError(
                f"Node {failure.node} of {pool.name!r} fails at {failure.at_s} s, and it has "
                f"{len(own) + self.set_aside[pool.name]} nodes.",
                remedy="Nodes are counted from 0.",
            )
        # One of those that the policy set aside: they do not fail.
        if failure.node >= len(own):
            return Affected()
        node = own[failure.node]
        pool.power_on(node)
        cores = self._pools.get(cpu_pool(pool.name))
        if cores is not None:
            cores.power_on(cores.own_nodes()[failure.node])
        self.failures += 1
        reason = f"{FAILED} {self.failures}"
        places = self._places(pool, node)
        killed = tuple(
            job
            for place, at in places
            for job in place.running
            if any(used == at for used, _ in job.placement or ())
        )
        before = pool.total_gpus
        for place, at in places:
            place.close(at, reason)
        self._count(pool.total_gpus - before, now_s)
        repair = Repair(failure.at_s + failure.down_s, pool.name, node, reason)
        return Affected(tuple(place for place, _ in places), killed, repair)

    def _repair(self, repair: Repair, now_s: float) -> Affected:
        home = self._pools[repair.home]
        before = home.total_gpus
        places = self._places(home, repair.node)
        for place, at in places:
            place.reopen(at, repair.reason)
        self._count(home.total_gpus - before, now_s)
        return Affected(tuple(place for place, _ in places))

    def _places(self, home: NodePool, node: int) -> list[tuple[NodePool, int]]:
        """Return the pools in which a node has an index: its home, and the borrower if it is lent."""
        places = [(home, node)]
        for pool in self._pools.values():
            places += [(pool, guest) for guest, origin in pool.guests.items() if origin == (home, node)]
        return places
