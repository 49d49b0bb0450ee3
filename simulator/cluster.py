"""The cluster that a workload runs on: virtual clusters of whole nodes, each with the same number of GPUs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from foundation.errors import BadInputError

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_GPUS_PER_NODE = 8


@dataclass(frozen=True)
class ClusterSpec:
    """Nodes per virtual cluster. A virtual cluster's nodes serve its own jobs only."""

    virtual_clusters: Mapping[str, int]
    gpus_per_node: int = DEFAULT_GPUS_PER_NODE
    # Nodes that a policy sets aside, by name (Lucid's profiler); not open to jobs of any virtual cluster.
    partitions: Mapping[str, int] = field(default_factory=dict)
    # CPU cores of each node that are set aside for CPU jobs; 0: CPU jobs are not replayed.
    cpu_cores_per_node: int = 0

    def __post_init__(self) -> None:
        if self.gpus_per_node < 1:
            raise BadInputError(f"gpus_per_node is {self.gpus_per_node}.", remedy="Use 1 or more.")
        if self.cpu_cores_per_node < 0:
            raise BadInputError(f"cpu_cores_per_node is {self.cpu_cores_per_node}.", remedy="Use 0 or more.")
        if not self.virtual_clusters:
            raise BadInputError("The cluster has no virtual cluster.", remedy="Name at least one.")
        for name, nodes in (*self.virtual_clusters.items(), *self.partitions.items()):
            if nodes < 0:
                raise BadInputError(f"Virtual cluster {name!r} has {nodes} nodes.", remedy="Use 0 or more.")
        both = set(self.virtual_clusters) & set(self.partitions)
        if both:
            raise BadInputError(f"{sorted(both)} are both virtual clusters and partitions.")

    @property
    def nodes(self) -> int:
        """All nodes, partitions included."""
        return sum(self.virtual_clusters.values()) + sum(self.partitions.values())

    @property
    def total_gpus(self) -> int:
        """All GPUs, partitions included."""
        return self.nodes * self.gpus_per_node

    @classmethod
    def from_nodes(cls, frame: "pd.DataFrame", *, gpus_per_node: int | None = None) -> "ClusterSpec":
        """Make a cluster from a table of nodes: virtual_cluster, nodes and, optionally, gpus_per_node.

        `gpus_per_node` replaces the table's own. A cluster whose nodes differ in size is refused.
        """
        for column in ("virtual_cluster", "nodes"):
            if column not in frame.columns:
                raise BadInputError(
                    f"The node table lacks {column}.", remedy=f"It has: {', '.join(map(str, frame.columns))}."
                )
        if gpus_per_node is None and "gpus_per_node" in frame.columns:
            gpus_per_node = common_size(frame)
        names = [str(name) for name in frame["virtual_cluster"]]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise BadInputError(f"The node table names {', '.join(twice)} more than once.")
        counts = {name: int(nodes) for name, nodes in zip(names, frame["nodes"], strict=True)}
        return cls(counts, gpus_per_node or DEFAULT_GPUS_PER_NODE)

    @classmethod
    def of_gpus(cls, gpus: int, *, virtual_cluster: str = "all") -> "ClusterSpec":
        """One node of `gpus` GPUs: a cluster without placement constraints."""
        return cls({virtual_cluster: 1}, gpus)


def common_size(nodes: "pd.DataFrame") -> int:
    """Return the GPUs that each node of a table has; raises BadInputError where they differ."""
    sizes = sorted({int(size) for size in nodes["gpus_per_node"]})
    if len(sizes) != 1:
        raise BadInputError(
            f"The nodes have {sizes} GPUs.", remedy="Give --gpus-per-node to treat all alike."
        )
    return sizes[0]
