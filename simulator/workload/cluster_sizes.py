"""A cluster of virtual clusters that grow and shrink: its size at the start, and the changes after."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pandas as pd

from foundation.errors import BadInputError
from simulator.cluster.changes import ClusterChange, SizeChange
from simulator.cluster.spec import ClusterSpec
from simulator.workload.job import Job


def changing_cluster(
    sizes: pd.DataFrame,
    origin: pd.Timestamp,
    *,
    gpus_per_node: int | None = None,
    partitions: Mapping[str, int] | None = None,
    cpu_cores_per_node: int = 0,
) -> tuple[ClusterSpec, tuple[SizeChange, ...]]:
    """Make a cluster of a table of sizes: virtual_cluster, from_time (UTC or NaT), nodes, gpus_per_node, and
    what else `ClusterSpec.from_nodes` reads.

    A row holds from its moment until the virtual cluster's next one; NaT is from the beginning. What holds
    at `origin`, second 0 of the simulation, is the ClusterSpec; what comes later are changes, in the order
    of time. Where the table begins after `origin`, what it says first holds before. A virtual cluster that
    only comes later has no nodes until then.
    """
    if gpus_per_node is not None:
        sizes = sizes.assign(gpus_per_node=gpus_per_node)
    begins = sizes["from_time"]
    moments = sorted(begins.dropna().unique())
    past = sizes[begins.isna() | (begins <= origin)]
    if past.empty:
        past = sizes[begins == begins.min()]
    at_start = last_of_each(past)
    names = sizes["virtual_cluster"].astype(str)
    absent = sizes[~names.isin(at_start["virtual_cluster"])].drop_duplicates("virtual_cluster")
    spec = ClusterSpec.from_nodes(pd.concat([at_start, absent.assign(nodes=0)]).sort_index())
    spec = replace(spec, partitions=partitions or {}, cpu_cores_per_node=cpu_cores_per_node)
    changes = []
    nodes, held = dict(spec.virtual_clusters), at_start
    for since in moments:
        if since <= origin or since in past["from_time"].unique():
            continue
        rows = sizes[begins == since]
        for name in rows["virtual_cluster"].unique():
            new, old = (_nodes_of(table, name) for table in (rows, held))
            if new == old:
                continue
            count = sum(count for count, *_ in new)
            if name not in nodes or len(new) > 1 or new[0][1:] != (spec.largest_node(name), None):
                raise BadInputError(
                    f"The nodes of {name!r} change at {since}, and they are shared or differ in size.",
                    remedy="Replay a stretch of time with one table of nodes.",
                )
            if nodes[name] != count:
                nodes[name] = count
                changes.append(SizeChange((since - origin).total_seconds(), str(name), count))
        held = pd.concat([held[~held["virtual_cluster"].isin(rows["virtual_cluster"])], rows])
    return spec, tuple(changes)


def last_of_each(rows: pd.DataFrame) -> pd.DataFrame:
    """Return each virtual cluster's rows of its last moment (`from_time`; NaT is the first)."""
    since = rows["from_time"]
    at = since.fillna(since.min() if since.notna().any() else pd.Timestamp(0, tz="UTC"))
    at = at.mask(since.isna(), at - pd.Timedelta(days=1))
    return rows[at == at.groupby(rows["virtual_cluster"]).transform("max")]


def _nodes_of(rows: pd.DataFrame, name: str) -> list[tuple[int, int, str | None]]:
    """Return (nodes, GPUs of each, their virtual clusters) of a virtual cluster."""
    own = rows[rows["virtual_cluster"] == name]
    texts = own["partitions"] if "partitions" in own else pd.Series(None, index=own.index, dtype=object)
    return sorted(
        (int(nodes), int(gpus), None if pd.isna(text) else str(text))
        for nodes, gpus, text in zip(own["nodes"], own["gpus_per_node"], texts, strict=True)
    )


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
            needed = -(-gpus // cluster.largest_node(name)) + spare_nodes if gpus else 0
            nodes[name] = max(change.nodes, min(nodes[name], needed))
            kept.append(replace(change, nodes=nodes[name]))
        else:
            kept.append(change)
    return tuple(kept)


def mean_gpus(cluster: ClusterSpec, changes: Sequence[ClusterChange], start_s: float, end_s: float) -> float:
    """Return the GPUs that there were on average from `start_s` to `end_s`; failures are left out."""
    nodes = dict(cluster.virtual_clusters)
    others = sum(map(cluster.gpus_of, cluster.partitions))
    sizes = sorted((change for change in changes if isinstance(change, SizeChange)), key=lambda c: c.at_s)
    gpu_s, since_s = 0.0, start_s
    for change in sizes:
        until_s = min(max(change.at_s, start_s), end_s)
        gpu_s += (cluster.gpus_with(nodes) + others) * (until_s - since_s)
        since_s = until_s
        nodes[change.virtual_cluster] = change.nodes
    gpu_s += (cluster.gpus_with(nodes) + others) * (end_s - since_s)
    if end_s <= start_s:
        return float(cluster.total_gpus)
    return gpu_s / (end_s - start_s)
