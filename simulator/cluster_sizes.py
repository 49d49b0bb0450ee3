"""A cluster whose virtual clusters grow and shrink: its size at the start, and the changes from then on."""

from collections.abc import Mapping

import pandas as pd

from cluster_logs.errors import BadInputError
from simulator.cluster import ClusterSpec
from simulator.cluster_changes import SizeChange


def changing_cluster(
    sizes: pd.DataFrame,
    origin: pd.Timestamp,
    *,
    gpus_per_node: int | None = None,
    partitions: Mapping[str, int] | None = None,
    cpu_cores_per_node: int = 0,
) -> tuple[ClusterSpec, tuple[SizeChange, ...]]:
    """Make a cluster of a table of sizes: virtual_cluster, from_time (UTC or NaT), nodes, gpus_per_node.

    A row holds from its moment until the virtual cluster's next one; NaT is from the beginning. What holds
    at `origin`, second 0 of the simulation, is the ClusterSpec; what comes later are changes, in the order
    of time. Where the table begins after `origin`, what it says first holds before. A virtual cluster that
    only comes later has no nodes until then.
    """
    known = sizes.sort_values("from_time", kind="stable", na_position="first")
    begins = known["from_time"]
    at_start = known[begins.isna() | (begins <= origin)]
    if at_start.empty:
        at_start = known[begins == begins.min()]
    names = list(dict.fromkeys(sizes["virtual_cluster"].astype(str)))
    if gpus_per_node is None:
        per_node = sorted({int(size) for size in sizes["gpus_per_node"]})
        if len(per_node) != 1:
            raise BadInputError(
                f"The nodes have {per_node} GPUs.", remedy="Give --gpus-per-node to treat all alike."
            )
        gpus_per_node = per_node[0]
    nodes = dict.fromkeys(names, 0)
    for name, count in zip(at_start["virtual_cluster"].astype(str), at_start["nodes"], strict=True):
        nodes[name] = int(count)
    spec = ClusterSpec(dict(nodes), gpus_per_node, partitions or {}, cpu_cores_per_node)
    changes = []
    later = known.drop(at_start.index)
    for name, since, count in zip(
        later["virtual_cluster"].astype(str), later["from_time"], later["nodes"], strict=True
    ):
        if nodes[name] != int(count):
            nodes[name] = int(count)
            changes.append(SizeChange((since - origin).total_seconds(), name, int(count)))
    return spec, tuple(changes)
