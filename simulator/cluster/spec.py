"""The cluster that a workload runs on: virtual clusters of whole nodes.

A virtual cluster's nodes are its own, all of one size, unless the cluster says otherwise: nodes may differ in
size, and virtual clusters (Slurm's partitions) may share nodes. Nodes that are shared, directly or by way of
others, are one pool with one queue, so that each GPU counts once; a job is bound to those of its own virtual
cluster.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from foundation.errors import BadInputError
from simulator.cluster.shared_nodes import NodeShape, SharedNodes, share_nodes

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_GPUS_PER_NODE = 8
# No cluster has more; a number with a few digits too many would take all memory.
MOST_NODES = 100_000_000
MOST_GPUS_PER_NODE = 10**12  # a pool without nodes is one of these


@dataclass(frozen=True)
class ClusterSpec:
    """Nodes per virtual cluster, or per pool of nodes that several virtual clusters share."""

    virtual_clusters: Mapping[str, int]
    # Of each node; of the largest where they differ.
    gpus_per_node: int = DEFAULT_GPUS_PER_NODE
    # Nodes that a policy sets aside, by name (Lucid's profiler); not open to jobs of any virtual cluster.
    partitions: Mapping[str, int] = field(default_factory=dict)
    # CPU cores of each node that are set aside for CPU jobs; 0: CPU jobs are not replayed.
    cpu_cores_per_node: int = 0
    # The GPUs of each node, of the pools with nodes that are not all of `gpus_per_node`.
    node_gpus: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    # Virtual clusters that share nodes; the pool that has them stands in `virtual_clusters` in their place.
    shared: Mapping[str, SharedNodes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 1 <= self.gpus_per_node <= MOST_GPUS_PER_NODE:
            raise BadInputError(
                f"A node (or a pool) has {self.gpus_per_node} GPUs.",
                remedy=f"Use 1 to {MOST_GPUS_PER_NODE:,}.",
            )
        if self.cpu_cores_per_node < 0:
            raise BadInputError(f"cpu_cores_per_node is {self.cpu_cores_per_node}.", remedy="Use 0 or more.")
        if not self.virtual_clusters:
            raise BadInputError("The cluster has no virtual cluster.", remedy="Name at least one.")
        for name, nodes in (*self.virtual_clusters.items(), *self.partitions.items()):
            if nodes < 0:
                raise BadInputError(f"Virtual cluster {name!r} has {nodes} nodes.", remedy="Use 0 or more.")
        if self.nodes > MOST_NODES:
            raise BadInputError(
                f"The cluster has {self.nodes:,} nodes.", remedy=f"Use {MOST_NODES:,} at most."
            )
        both = set(self.virtual_clusters) & set(self.partitions)
        if both:
            raise BadInputError(f"{sorted(both)} are both virtual clusters and partitions.")
        for name, sizes in self.node_gpus.items():
            if len(sizes) != self._counts.get(name) or not all(
                0 < gpus <= self.gpus_per_node for gpus in sizes
            ):
                raise BadInputError(
                    f"{name!r} has {self._counts.get(name, 0)} nodes of at most {self.gpus_per_node} GPUs, "
                    f"not {len(sizes)} of {sorted(set(sizes))}."
                )
        for name, share in self.shared.items():
            if share.pool not in self.virtual_clusters or name in self.virtual_clusters:
                raise BadInputError(f"{name!r} shares nodes of {share.pool!r}, which is no pool of its own.")

    @property
    def _counts(self) -> Mapping[str, int]:
        return {**self.virtual_clusters, **self.partitions}

    @property
    def nodes(self) -> int:
        """All nodes, partitions included."""
        return sum(self.virtual_clusters.values()) + sum(self.partitions.values())

    @property
    def total_gpus(self) -> int:
        """All GPUs, partitions included."""
        return sum(map(self.gpus_of, self._counts))

    @property
    def has_equal_nodes(self) -> bool:
        """Whether all nodes have the same number of GPUs, and none is shared by virtual clusters."""
        return not self.node_gpus and not self.shared

    @property
    def names(self) -> tuple[str, ...]:
        """The virtual clusters that jobs belong to."""
        pools = {share.pool for share in self.shared.values()}
        return (*(name for name in self.virtual_clusters if name not in pools), *self.shared)

    def sizes(self, pool: str) -> tuple[int, ...]:
        """Return the GPUs of each node of a pool or partition."""
        return self.node_gpus.get(pool) or (self.gpus_per_node,) * self._counts[pool]

    def gpus_of(self, pool: str) -> int:
        """Return the GPUs of a pool or partition."""
        sizes = self.node_gpus.get(pool)
        return self._counts[pool] * self.gpus_per_node if sizes is None else sum(sizes)

    def largest_node(self, pool: str) -> int:
        """Return the GPUs of the largest node of a pool or partition."""
        return max(self.node_gpus.get(pool, (self.gpus_per_node,)))

    def gpus_with(self, nodes: Mapping[str, int]) -> int:
        """Return the GPUs of pools with so many nodes each; where nodes differ in size, of all of them."""
        return sum(
            self.gpus_of(name) if len(set(self.sizes(name))) > 1 else count * self.largest_node(name)
            for name, count in nodes.items()
        )

    def home_of(self, virtual_cluster: str) -> str:
        """Return the pool that serves a virtual cluster's jobs: itself, unless it shares nodes."""
        share = self.shared.get(virtual_cluster)
        return virtual_cluster if share is None else share.pool

    def open_sizes(self, virtual_cluster: str) -> tuple[int, ...]:
        """Return the GPUs of each node that a virtual cluster's jobs may use; none for an unknown one."""
        share = self.shared.get(virtual_cluster)
        if share is not None:
            sizes = enumerate(self.sizes(share.pool))
            return tuple(gpus for node, gpus in sizes if share.nodes >> node & 1)
        return self.sizes(virtual_cluster) if virtual_cluster in self.virtual_clusters else ()

    def masks(self, pool: str) -> dict[str, int]:
        """Return which of a pool's nodes each virtual cluster may use, if several share them.

        One integer each, with bit *i* for node *i*.
        """
        return {name: share.nodes for name, share in self.shared.items() if share.pool == pool}

    def setting_aside(self, partition: str, nodes: Mapping[str, int]) -> "ClusterSpec":
        """Return the cluster with a new partition, made of the last so many nodes of each of these pools."""
        kept = {name: count - nodes.get(name, 0) for name, count in self.virtual_clusters.items()}
        sizes = dict(self.node_gpus)
        aside: list[int] = []
        for name in nodes:
            aside += self.sizes(name)[kept[name] :]
            if name in sizes:
                sizes[name] = sizes[name][: kept[name]]
        if any(gpus != self.gpus_per_node for gpus in aside):
            sizes[partition] = tuple(aside)
        return replace(
            self,
            virtual_clusters=kept,
            partitions={**self.partitions, partition: sum(nodes.values())},
            node_gpus=sizes,
        )

    @classmethod
    def from_nodes(cls, frame: "pd.DataFrame", *, gpus_per_node: int | None = None) -> "ClusterSpec":
        """Make a cluster from a table of nodes: virtual_cluster, nodes and, optionally, gpus_per_node and
        partitions (as text, separated by commas: all that may use the row's nodes).

        `gpus_per_node` replaces the table's own.
        """
        for column in ("virtual_cluster", "nodes"):
            if column not in frame.columns:
                raise BadInputError(
                    f"The node table lacks {column}.", remedy=f"It has: {', '.join(map(str, frame.columns))}."
                )
        if gpus_per_node is not None or "gpus_per_node" not in frame.columns:
            frame = frame.assign(gpus_per_node=gpus_per_node or DEFAULT_GPUS_PER_NODE)
        shapes = node_shapes(frame)
        if all(shape.gpus == shapes[0].gpus and len(shape.owners) == 1 for shape in shapes):
            totals: Counter[str] = Counter()
            for shape in shapes:
                totals[shape.owners[0]] += shape.nodes
            return cls(dict(totals), shapes[0].gpus if shapes else DEFAULT_GPUS_PER_NODE)
        pools, shared = share_nodes(shapes)
        counts = {name: len(sizes) for name, sizes in pools.items()}
        largest = max((shape.gpus for shape in shapes if shape.nodes), default=DEFAULT_GPUS_PER_NODE)
        unequal = {name: sizes for name, sizes in pools.items() if any(gpus != largest for gpus in sizes)}
        return cls(counts, largest, node_gpus=unequal, shared=shared)

    @classmethod
    def of_gpus(cls, gpus: int, *, virtual_cluster: str = "all") -> "ClusterSpec":
        """One node of `gpus` GPUs: a cluster without placement constraints."""
        return cls({virtual_cluster: 1}, gpus)


def node_shapes(frame: "pd.DataFrame") -> list[NodeShape]:
    """Return the rows of a table of nodes: virtual_cluster, nodes, gpus_per_node; perhaps node, partitions.

    Nodes without GPUs serve no job that is replayed: only the names of their virtual clusters are kept.
    Raises BadInputError for a virtual cluster that is named twice, but for nodes of other GPUs or names.
    """
    names = frame["virtual_cluster"].astype(str).tolist()
    texts: list[str | None] = [None] * len(names)
    if "partitions" in frame.columns:
        texts = frame["partitions"].astype(object).where(frame["partitions"].notna(), None).tolist()
    shapes = []
    for name, text, gpus, nodes in zip(names, texts, frame["gpus_per_node"], frame["nodes"], strict=True):
        if nodes < 0:
            raise BadInputError(f"Virtual cluster {name!r} has {nodes} nodes.", remedy="Use 0 or more.")
        owners = tuple(text.split(",")) if text else (name,)
        if gpus > 0:
            shapes.append(NodeShape(owners, int(gpus), int(nodes)))
        else:
            shapes += [NodeShape((owner,), 1, 0) for owner in owners]
    if "node" not in frame.columns or frame["node"].isna().any():
        seen = Counter((shape.owners, shape.gpus) for shape in shapes)
        twice = sorted(",".join(owners) for (owners, _), rows in seen.items() if rows > 1)
        if twice:
            raise BadInputError(f"The node table names {'; '.join(twice)} more than once.")
    return shapes
