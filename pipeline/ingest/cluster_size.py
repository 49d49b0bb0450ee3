"""How large a cluster is: what its lake says, what its log states, and what must be asked for.

A release is proven on the cluster's own nodes, so they are asked for when its log is read. Only one statement
of a log is taken for its size: SWF's header (MaxNodes, MaxProcs) of a cluster with one virtual cluster. What
jobs show - the most GPUs in use at once, the machines that are named - is the least that there must have
been, and no size: it fills in the file that is asked for, for a person to correct. Slurm's partitions may
share nodes, and the simulator's virtual clusters do not: a machine that jobs of several name is counted once.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cluster_logs.lake import Lake
from cluster_logs.node_table import nodes_of_each
from cluster_logs.readers.base import EVERY_CLUSTER, ReadOptions, StatedSize, load_reader
from cluster_logs.readers.source import TextSource
from foundation.errors import BadInputError, NotFoundError

SIZE_COLUMNS = ("virtual_cluster", "gpus", "nodes", "start_time", "end_time", "duration_s")
_SHOWN = 20

_Codes = NDArray[np.intp]
_Numbers = NDArray[Any]


class NodesNeededError(BadInputError):
    """A cluster's log is in the lake, and its size is not."""


@dataclass
class ShownSize:
    """What the jobs of one virtual cluster show: their number, the most GPUs at once, of one job that ran and
    of one on one of its nodes, the machines that jobs with GPUs name.
    """

    jobs: int = 0
    most_gpus: int = 0
    largest_job_gpus: int = 0
    gpus_on_a_node: int = 0
    machines: dict[str, int] = field(default_factory=dict)  # name -> most GPUs of one job


@dataclass(frozen=True)
class LeastSize:
    """The fewest nodes of a virtual cluster that its jobs allow: they hold its `machines` and `gpus`."""

    gpus_per_node: int
    machines: int
    gpus: int

    @property
    def nodes(self) -> int:
        """At least one."""
        return max(1, self.machines, -(-self.gpus // self.gpus_per_node))


def settle_nodes(
    *, lake_uri: str, cluster: str, source_format: str, input_uri: str, gpus_per_node: int = 8
) -> list[str]:
    """See to it that the lake knows the nodes of an ingested cluster; returns sentences for people.

    Writes the size that the log states, where there is one and the lake has none. Raises NodesNeededError,
    with the file to write, when no size is known or when it names none of the log's virtual clusters.
    """
    lake = Lake(lake_uri)
    if load_reader(source_format).table != "jobs" or not lake.dates(cluster):
        return []
    seen = shown_sizes(lake.iter_jobs(cluster, columns=SIZE_COLUMNS))
    try:
        with_nodes = set(nodes_of_each(lake.read_nodes(cluster)).index)
    except NotFoundError:
        stated = load_reader(source_format).stated_size(TextSource(input_uri))
        if stated is not None and len(seen) == 1:
            return [_write_stated(lake, cluster, next(iter(seen)), stated)]
        count_machines(seen, source_format, input_uri)
        sentence = _described(seen)
        if stated is not None:
            sentence += (
                f" The log states {stated.nodes:,} nodes of {stated.gpus_per_node} for all of them together."
            )
        raise NodesNeededError(
            f"The jobs of {cluster!r} are in the lake, but not how many nodes it has: without them nothing "
            f"can be proven on it. {sentence}",
            remedy=_remedy(seen, gpus_per_node),
        ) from None
    missing = {name: what for name, what in seen.items() if name not in with_nodes}
    if len(missing) == len(seen):
        raise NodesNeededError(
            f"The nodes of {cluster!r} name none of the virtual clusters of its jobs: they name "
            f"{_listed(with_nodes)}. {_described(seen)}",
            remedy=_remedy(seen, gpus_per_node),
        )
    if not missing:
        return []
    jobs = sum(what.jobs for what in missing.values())
    return [f"No nodes are known of {_listed(missing)}: its {jobs:,} jobs are left out of every replay."]


def _write_stated(lake: Lake, cluster: str, virtual_cluster: str, stated: StatedSize) -> str:
    size = {"nodes": stated.nodes, "gpus_per_node": stated.gpus_per_node}
    lake.write_nodes(cluster, pd.DataFrame([{"virtual_cluster": virtual_cluster, **size}]))
    return (
        f"The log states the cluster's size ({stated.source}): virtual cluster {virtual_cluster!r} has "
        f"{stated.nodes:,} nodes with {stated.nodes * stated.gpus_per_node:,} GPUs in all. "
        "Give its nodes at ingest if they are others."
    )


def shown_sizes(tables: Iterable[pa.Table]) -> dict[str, ShownSize]:
    """What jobs (SIZE_COLUMNS) show of each virtual cluster, by its number of jobs, the largest first, and by
    name.

    A job that never ran shows nothing but itself: Slurm accounts for submissions, too, that it refused since
    no node is large enough.
    """
    parts = [table.select(SIZE_COLUMNS) for table in tables]
    if not parts:
        return {}
    jobs = pa.concat_tables(parts)
    jobs = jobs.filter(jobs.column("virtual_cluster").is_valid())
    codes = jobs.column("virtual_cluster").cast(pa.string()).dictionary_encode().combine_chunks()
    of, names = codes.indices.to_numpy(), codes.dictionary.to_pylist()
    gpus = jobs.column("gpus").cast(pa.int64()).fill_null(0).to_numpy()
    nodes = jobs.column("nodes").cast(pa.float64()).fill_null(0.0).to_numpy()
    start, end = jobs.column("start_time"), jobs.column("end_time")
    ran = pc.or_(start.is_valid(), jobs.column("duration_s").is_valid()).to_numpy()
    on_nodes = ran & (nodes > 0)
    times = pc.and_(start.is_valid(), end.is_valid()).to_numpy()
    starts, ends = (moment.cast(pa.int64()).fill_null(0).to_numpy()[times] for moment in (start, end))
    largest = _largest(of[ran], gpus[ran], len(names))
    on_a_node = _largest(of[on_nodes], np.ceil(gpus[on_nodes] / nodes[on_nodes]), len(names))
    at_once = np.maximum(largest, _most_at_once(of[times], gpus[times], starts, ends, len(names)))
    counts = np.bincount(of, minlength=len(names))
    columns = (column.astype(np.int64).tolist() for column in (counts, at_once, largest, on_a_node))
    seen = {name: ShownSize(*row) for name, *row in zip(names, *columns, strict=True)}
    return dict(sorted(seen.items(), key=lambda item: (-item[1].jobs, item[0])))


def _largest(of: _Codes, values: _Numbers, groups: int) -> _Numbers:
    """The largest of the values of each group, at least 0, shape (groups,)."""
    largest = np.zeros(groups, dtype=values.dtype)
    np.maximum.at(largest, of, values)
    return largest


def _most_at_once(of: _Codes, gpus: _Numbers, starts: _Numbers, ends: _Numbers, groups: int) -> _Numbers:
    """The most GPUs that each group held at one time, shape (groups,); a job that ends when another starts
    has given its GPUs back.
    """
    group, change = np.tile(of, 2), np.concatenate([-gpus, gpus])
    order = np.lexsort((np.concatenate([ends, starts]), group))
    # A group gives back all that it took: the next one's sum begins at nothing.
    return _largest(group[order], np.cumsum(change[order]), groups)


def count_machines(
    seen: Mapping[str, ShownSize], source_format: str, input_uri: str, *, most_bytes: int | None = None
) -> None:
    """Add the machines that a log names, if its format does; `most_bytes`: of about so many first bytes."""
    reader = load_reader(source_format)
    if reader.machines is None:
        return
    for chunk in reader.chunks(TextSource(input_uri, most_bytes=most_bytes), ReadOptions(EVERY_CLUSTER)):
        for virtual_cluster, machine, gpus in reader.machines(chunk):
            if virtual_cluster in seen and gpus > 0:
                named = seen[virtual_cluster].machines
                named[machine] = max(named.get(machine, 0), gpus)


def least_sizes(seen: Mapping[str, ShownSize], gpus_per_node: int) -> dict[str, LeastSize]:
    """The least nodes of each virtual cluster, each machine counted once; and the GPUs of a node.

    These are what the machines of its jobs hold, else what any job held on one node (one says nothing), else
    `gpus_per_node`.
    """
    held = max((what.gpus_on_a_node for what in seen.values()), default=0)
    usual = held if held > 1 else gpus_per_node
    counted = _counted_once(seen)
    sizes = {}
    for name, what in seen.items():
        named = len(what.machines)
        per_node = max(-(-what.most_gpus // named), *what.machines.values()) if named else usual
        # Of shared machines jobs may have had more at once than are counted here; the largest must fit.
        gpus = what.most_gpus if counted[name] == named else what.largest_job_gpus
        sizes[name] = LeastSize(per_node, counted[name], gpus)
    return sizes


def _counted_once(seen: Mapping[str, ShownSize]) -> dict[str, int]:
    """How many machines are counted for each virtual cluster: a shared one for that which has the least of
    what its jobs held at once.
    """
    counted = dict.fromkeys(seen, 0)
    owners = _owners(seen)
    for machine in sorted(owners, key=lambda machine: (len(owners[machine]), machine)):
        counted[
            min(owners[machine], key=lambda name: ((counted[name] + 1) / max(1, seen[name].most_gpus), name))
        ] += 1
    return counted


def _owners(seen: Mapping[str, ShownSize]) -> dict[str, list[str]]:
    """Machine -> the virtual clusters with jobs that name it."""
    owners: dict[str, list[str]] = defaultdict(list)
    for name, what in seen.items():
        for machine in what.machines:
            owners[machine].append(name)
    return owners


def on_shared_machines(seen: Mapping[str, ShownSize]) -> str:
    """Say that virtual clusters share machines, and how they are counted; empty: they share none."""
    owners = _owners(seen)
    shared = sum(len(names) > 1 for names in owners.values())
    if not shared:
        return ""
    return (
        f"{shared:,} of {len(owners):,} machines are named by jobs of several virtual clusters, since "
        "partitions share nodes: each is counted once, for one of them."
    )


def _remedy(seen: Mapping[str, ShownSize], gpus_per_node: int) -> str:
    rows = [
        f"{_cell(name)},{size.nodes},{size.gpus_per_node}"
        for name, size in least_sizes(seen, gpus_per_node).items()
    ]
    says = "Give a file like this with --nodes, its counts corrected (the jobs need at least these):"
    return "\n".join([says, "virtual_cluster,nodes,gpus_per_node", *rows])


def _cell(name: str) -> str:
    return '"' + name.replace('"', '""') + '"' if any(mark in name for mark in ',"\n\r') else name


def _described(seen: Mapping[str, ShownSize]) -> str:
    parts = []
    for name, what in list(seen.items())[:_SHOWN]:
        machines = f", {len(what.machines):,} machines named" if what.machines else ""
        parts.append(f"{name!r} ({what.jobs:,} jobs, {what.most_gpus:,} GPUs at once{machines})")
    more = f" and {len(seen) - _SHOWN} more" if len(seen) > _SHOWN else ""
    count = "virtual cluster" if len(seen) == 1 else f"{len(seen)} virtual clusters"
    shared = on_shared_machines(seen)
    return f"Its jobs belong to {count}: {', '.join(parts)}{more}.{shared and f' {shared}'}"


def _listed(names: Iterable[str]) -> str:
    shown = sorted(names)
    more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    return ", ".join(map(repr, shown[:_SHOWN])) + more
