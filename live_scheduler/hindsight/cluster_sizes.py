"""A live cluster's nodes as the simulator counts them: whole nodes of one size, each of one virtual cluster.

Real partitions share nodes and mix sizes. So a node that several partitions offer is counted once, for the
one that has the fewest yet, and nodes are counted in the size that holds most of the GPUs.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class ClusterSizes:
    """Nodes of `gpus_per_node` GPUs by virtual cluster; `remarks` say what this simplifies."""

    nodes: Mapping[str, int]
    gpus_per_node: int
    remarks: tuple[str, ...] = ()


def count_nodes(
    nodes: Iterable[tuple[str, int, Collection[str]]],
    virtual_clusters: Collection[str],
    *,
    gpus_per_node: int | None = None,
) -> ClusterSizes | None:
    """Count nodes, given as (name, GPUs, partitions), for these virtual clusters; None when there are none.

    `gpus_per_node`: count in nodes of this size, whatever most of them are.
    """
    offered = [
        (name, gpus, sorted(set(partitions) & set(virtual_clusters)))
        for name, gpus, partitions in nodes
        if gpus > 0 and set(partitions) & set(virtual_clusters)
    ]
    if not offered:
        return None
    by_size: Counter[int] = Counter()
    for _, gpus, _ in offered:
        by_size[gpus] += gpus
    size = gpus_per_node or max(by_size, key=lambda gpus: (by_size[gpus], gpus))
    gpus_of: Counter[str] = Counter()
    for _, gpus, owners in sorted(offered, key=lambda node: (len(node[2]), node[0])):
        gpus_of[min(owners, key=lambda owner: (gpus_of[owner], owner))] += gpus
    remarks = []
    shared = sum(len(owners) > 1 for _, _, owners in offered)
    if shared:
        remarks.append(
            f"{shared} of {len(offered)} nodes are offered by several partitions; each is counted for one."
        )
    if set(by_size) != {size}:
        sizes = ", ".join(str(gpus) for gpus in sorted(by_size))
        remarks.append(f"Nodes have {sizes} GPUs; they are counted as nodes of {size}.")
    counts = {name: max(1, gpus_of[name] // size) for name in sorted(gpus_of) if gpus_of[name]}
    return ClusterSizes(counts, size, tuple(remarks))
