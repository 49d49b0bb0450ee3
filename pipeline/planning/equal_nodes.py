"""A cluster counted in equal nodes, each of one pool: what a plan adds and takes away."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from simulator.cluster import ClusterSpec


@dataclass(frozen=True)
class EqualNodes:
    """Nodes of `gpus_per_node` GPUs by pool, the pool of each virtual cluster, and what this simplifies."""

    nodes: Mapping[str, int]
    homes: Mapping[str, str]
    gpus_per_node: int
    remarks: tuple[str, ...] = ()


def as_equal_nodes(cluster: ClusterSpec) -> EqualNodes:
    """Count nodes of several sizes in the size that holds most GPUs, rounded down, at least one a pool.

    Virtual clusters that share nodes are one pool, whose nodes count once and serve all of them.
    """
    homes = {name: cluster.home_of(name) for name in cluster.names}
    if cluster.has_equal_nodes:
        return EqualNodes(dict(cluster.virtual_clusters), homes, cluster.gpus_per_node)
    by_size: Counter[int] = Counter()
    for pool in cluster.virtual_clusters:
        for gpus in cluster.sizes(pool):
            by_size[gpus] += gpus
    size = max(by_size, key=lambda gpus: (by_size[gpus], gpus))
    nodes = {}
    for pool, count in cluster.virtual_clusters.items():
        nodes[pool] = max(1, cluster.gpus_of(pool) // size) if count else 0
    remarks = []
    if len(by_size) > 1:
        sizes = ", ".join(map(str, sorted(by_size)))
        remarks.append(f"Nodes have {sizes} GPUs; the plan counts nodes of {size}.")
    for pool in dict.fromkeys(share.pool for share in cluster.shared.values()):
        names = ", ".join(name for name, home in homes.items() if home == pool)
        remarks.append(f"{names} share nodes: the plan counts them once, as one pool.")
    return EqualNodes(nodes, homes, size, tuple(remarks))
