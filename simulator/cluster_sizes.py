"""A cluster whose virtual clusters grow and shrink: its size at the start, and the changes from then on."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pandas as pd

from simulator.cluster import ClusterSpec, common_size
from simulator.cluster_changes import ClusterChange, SizeChange
from simulator.job import Job


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
    by_time = sizes.sort_values("from_time", kind="stable", na_position="first")
    begins = by_time["from_time"]
    at_start = by_time[begins.isna() | (begins <= origin)]
    if at_start.empty:
        at_start = by_time[begins == begins.min()]
    names = list(dict.fromkeys(sizes["virtual_cluster"].astype(str)))
    if gpus_per_node is None:
        gpus_per_node = common_size(sizes)
    nodes = dict.fromkeys(names, 0)
    for name, count in zip(at_start["virtual_cluster"].astype(str), at_start["nodes"], strict=True):
        nodes[name] = int(count)
    spec = ClusterSpec(dict(nodes), gpus_per_node, partitions or {}, cpu_cores_per_node)
    changes = []
    later = by_time.drop(at_start.index)
    for name, since, count in zip(
        later["virtual_cluster"].astype(str), later["from_time"], later["nodes"], strict=True
    ):
        if nodes[name] != int(count):
            nodes[name] = int(count)
            changes.append(SizeChange((since - origin).total_seconds(), name, int(count)))
    return spec, tuple(changes)


def with_room_for(
    jobs: Iterable[Job], cluster: ClusterSpec, changes: Sequence[ClusterChange], *, spare_nodes: int = 2
) -> tuple[ClusterChange, ...]:
    """Return the changes, none of which leaves a job behind that is larger than what stays.

    A virtual cluster keeps as many of its nodes as the largest job needs that was submitted to it before, and
    `spare_nodes` that a policy may have set aside of them. Where every policy must complete the same jobs, as
    in a comparison, none can be left waiting for ever.
    """
    largest: dict[str, list[tuple[float, int]]] = {}
    for job in jobs:
        records = largest.setdefault(job.virtual_cluster, [])
        if not records or job.gpus > records[-1][1]:
            records.append((job.submit_time_s, job.gpus))
    nodes = dict(cluster.virtual_clusters)
    kept: list[ClusterChange] = []
    for change in sorted(changes, key=lambda change: change.at_s):
        if isinstance(change, SizeChange):
            name = change.virtual_cluster
            gpus = max((gpus for at_s, gpus in largest.get(name, ()) if at_s <= change.at_s), default=0)
            needed = -(-gpus // cluster.gpus_per_node) + spare_nodes if gpus else 0
            nodes[name] = max(change.nodes, min(nodes[name], needed))
            kept.append(replace(change, nodes=nodes[name]))
        else:
            kept.append(change)
    return tuple(kept)


def mean_gpus(cluster: ClusterSpec, changes: Sequence[ClusterChange], start_s: float, end_s: float) -> float:
    """Return the GPUs that there were on average from `start_s` to `end_s`; failures are left out."""
    nodes = dict(cluster.virtual_clusters)
    others = sum(cluster.partitions.values())
    sizes = sorted((change for change in changes if isinstance(change, SizeChange)), key=lambda c: c.at_s)
    node_s, since_s = 0.0, start_s
    for change in sizes:
        until_s = min(max(change.at_s, start_s), end_s)
        node_s += (sum(nodes.values()) + others) * (until_s - since_s)
        since_s = until_s
        nodes[change.virtual_cluster] = change.nodes
    node_s += (sum(nodes.values()) + others) * (end_s - since_s)
    if end_s <= start_s:
        return float(cluster.total_gpus)
    return node_s * cluster.gpus_per_node / (end_s - start_s)
