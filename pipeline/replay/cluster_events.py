"""What happens to the cluster of a replay: sizes over time from a file or the lake, failures of nodes."""

import csv
import gzip
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd

from cluster_logs.lake import Lake
from cluster_logs.readers.nodes_over_time import read_nodes_over_time
from foundation.errors import BadInputError
from foundation.site import Site
from simulator.cluster.changes import ClusterChange, NodeFailure
from simulator.cluster.spec import DEFAULT_GPUS_PER_NODE, ClusterSpec
from simulator.workload.cluster_sizes import changing_cluster
from simulator.workload.node_failures import DEFAULT_REPAIR_HOURS, longest_run_s, random_failures
from simulator.workload.workload import Workload

EVERYONE = "all"  # the one virtual cluster of `--gpus N`, and of sizes that name no other
FAILURE_COLUMNS = ("virtual_cluster", "node", "at", "down_s")


@dataclass(frozen=True)
class ClusterEvents:
    """What a replay's cluster is made of beside its GPUs, and what happens to it.

    - `site`: take the sizes, day by day, of this cluster in its lake.
    - `cpu_cores_per_node`: cores of each node set aside for CPU jobs; 0: CPU jobs are not replayed.
    - `failures_path`: failures of nodes, as `read_failures` reads them.
    - `failure_mtbf_hours`, `failure_repair_hours`: failures at random (`simulator.workload.node_failures`).
    """

    site: Site | None = None
    cpu_cores_per_node: int = 0
    failures_path: Path | None = None
    failure_mtbf_hours: float | None = None
    failure_repair_hours: float = DEFAULT_REPAIR_HOURS

    def cluster(
        self, sizes: pd.DataFrame, workload: Workload, origin: pd.Timestamp, zone: ZoneInfo, seed: int
    ) -> tuple[ClusterSpec, tuple[ClusterChange, ...]]:
        """Return the cluster as it is at `origin`, and all that happens to it from then on, by time."""
        spec, resized = changing_cluster(sizes, origin, cpu_cores_per_node=self.cpu_cores_per_node)
        changes: list[ClusterChange] = [*resized]
        if self.failures_path is not None:
            changes += read_failures(self.failures_path, origin=origin, zone=zone, cluster=spec)
        if self.failure_mtbf_hours is not None:
            changes += random_failures(
                spec,
                mtbf_hours=self.failure_mtbf_hours,
                repair_hours=self.failure_repair_hours,
                until_s=longest_run_s(workload, spec),
                seed=seed,
            )
        return spec, tuple(sorted(changes, key=lambda change: change.at_s))


@dataclass(frozen=True)
class ClusterSize:
    """A file of the nodes of each virtual cluster, which may change with time, or one pool of `gpus`, or of
    `servers` nodes.
    """

    nodes: str | None = None
    gpus: int | None = None
    gpus_per_node: int = DEFAULT_GPUS_PER_NODE
    servers: int | None = None

    @classmethod
    def asked(
        cls, nodes: str | None, gpus: int | None, gpus_per_node: int | None, servers: int | None = None
    ) -> "ClusterSize":
        """Return the size that is asked for: `gpus` are of nodes where it is said how large these are.

        Raises BadInputError for GPUs that are no whole number of nodes.
        """
        if gpus is None or gpus_per_node is None:
            return cls(nodes, gpus, gpus_per_node or DEFAULT_GPUS_PER_NODE, servers)
        if gpus % gpus_per_node:
            raise BadInputError(
                f"--gpus {gpus} is no whole number of nodes of {gpus_per_node} GPUs.",
                remedy="Give a multiple, or leave out --gpus-per-node: then no job is bound by nodes.",
            )
        return cls(gpus_per_node=gpus_per_node, servers=gpus // gpus_per_node)

    def read(self, zone: ZoneInfo) -> pd.DataFrame:
        """Return the sizes, as `changing_cluster` reads them; naive times are in `zone`."""
        if self.servers is not None:
            return one_pool(self.gpus_per_node, nodes=self.servers)
        if self.nodes is None:
            return one_pool(self.gpus or self.gpus_per_node)
        return read_nodes_over_time(self.nodes, gpus_per_node=self.gpus_per_node, time_zone=zone.key)


def one_pool(gpus: int, nodes: int = 1) -> pd.DataFrame:
    """The sizes of a cluster of nodes of so many GPUs, for all jobs; one node: no placement constraints."""
    always = pd.Series([pd.NaT], dtype="datetime64[us, UTC]")
    return pd.DataFrame(
        {"virtual_cluster": [EVERYONE], "from_time": always, "nodes": nodes, "gpus_per_node": gpus}
    )


def lake_sizes(site: Site, first: datetime, zone: ZoneInfo) -> pd.DataFrame:
    """The sizes of a cluster in the lake from the day of `first` on, as `changing_cluster` reads them.

    A day begins at midnight in `zone`. Raises NotFoundError when the lake has no nodes of the cluster.
    """
    lake = Lake(site.lake)
    dates = lake.node_dates(site.cluster)
    day = first.astimezone(zone).date()
    if lake.read_nodes(site.cluster, day).empty and dates:
        day = dates[0]  # the counts begin after the log
    tables: list[pd.DataFrame] = []
    per_node: dict[str, int] = {}
    for held in [day, *(date for date in dates if date > day)]:
        since = None if held == day else datetime.combine(held, time(), zone)
        nodes = lake.read_nodes(site.cluster, held)
        # A virtual cluster that the day's counts leave out has no nodes then.
        gone = [name for name in per_node if name not in set(nodes["virtual_cluster"])]
        absent = {"virtual_cluster": gone, "nodes": 0, "gpus_per_node": [per_node[name] for name in gone]}
        per_node |= dict(zip(nodes["virtual_cluster"], nodes["gpus_per_node"], strict=True))
        rows = pd.concat([nodes, pd.DataFrame(absent)]) if gone else nodes
        tables.append(rows.assign(from_time=since))
    frame = pd.concat(tables, ignore_index=True)
    return frame.assign(
        nodes=frame["nodes"].astype("int64"),
        gpus_per_node=frame["gpus_per_node"].astype("int64"),
        from_time=pd.to_datetime(frame["from_time"], utc=True),
    )


def read_failures(
    path: Path, *, origin: pd.Timestamp, zone: ZoneInfo, cluster: ClusterSpec
) -> tuple[NodeFailure, ...]:
    """Read a CSV virtual_cluster,node,at,down_s; `.gz` too.

    `node` counts from 0 in its virtual cluster; `at` is a time (naive: in `zone`) or seconds from `origin`,
    the first submission that is replayed; `down_s` is for how long. Failures before the origin count from
    there if they last. Raises BadInputError for a row that cannot be used.
    """
    failures = []
    opened: Callable[..., Any] = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, skipinitialspace=True)
        missing = [name for name in FAILURE_COLUMNS if name not in (rows.fieldnames or ())]
        if missing:
            raise BadInputError(
                f"{path} lacks {', '.join(missing)}.", remedy=f"It reads {','.join(FAILURE_COLUMNS)}."
            )
        for number, row in enumerate(rows, start=1):
            failures.append(_failure(row, f"{path}, row {number}", origin, zone, cluster))
    return tuple(
        sorted((failure for failure in failures if failure is not None), key=lambda failure: failure.at_s)
    )


def _failure(
    row: dict[str, str | None], where: str, origin: pd.Timestamp, zone: ZoneInfo, cluster: ClusterSpec
) -> NodeFailure | None:
    name = (row["virtual_cluster"] or "").strip()
    if name not in cluster.virtual_clusters:
        raise BadInputError(
            f"{where} names virtual cluster {name!r}.",
            remedy=f"The cluster has: {', '.join(sorted(cluster.virtual_clusters))}.",
        )
    try:
        node, down_s = int(row["node"] or ""), float(row["down_s"] or "")
        at_s = _seconds(row["at"] or "", origin, zone)
        failure = NodeFailure(at_s, name, node, down_s)
    except (ValueError, BadInputError) as error:
        raise BadInputError(
            f"{where} is no node failure: {error}", remedy=f"It reads {','.join(FAILURE_COLUMNS)}."
        ) from error
    if at_s >= 0:
        return failure
    left_s = at_s + down_s
    return NodeFailure(0.0, name, node, left_s) if left_s > 0 else None


def _seconds(text: str, origin: pd.Timestamp, zone: ZoneInfo) -> float:
    try:
        return float(text)
    except ValueError:
        moment = datetime.fromisoformat(text.strip())
    aware = moment if moment.tzinfo else moment.replace(tzinfo=zone)
    return (aware - origin.to_pydatetime()) / timedelta(seconds=1)
