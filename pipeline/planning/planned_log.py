"""What a plan replays: the jobs of a log, the cluster's nodes at present, and how few and many are of use."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil

import numpy as np
import pandas as pd

from foundation.errors import BadInputError
from foundation.progress import Progress, silent
from pipeline.replay.cluster_events import EVERYONE
from pipeline.replay.log_scenario import LogToReplay, read_scenario
from simulator.cluster.shared_nodes import SharedNodes
from simulator.cluster.spec import ClusterSpec
from simulator.scenario.scenario import Scenario
from simulator.workload.cluster_sizes import last_of_each
from simulator.workload.job import Job


@dataclass(frozen=True)
class EqualNodes:
    """Nodes of `gpus_per_node` GPUs by pool, the pool of each virtual cluster, and what this simplifies."""

    nodes: Mapping[str, int]
    homes: Mapping[str, str]
    gpus_per_node: int
    remarks: tuple[str, ...] = ()


def as_equal_nodes(cluster: ClusterSpec) -> EqualNodes:
    """Count nodes of several sizes in the size that holds most GPUs, rounded down, at least one a pool.

    Virtual clusters that share nodes are one pool: its nodes count once and serve all of them.
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


DAY_S = 86_400.0
_ROOM_NODES = 1_000_000  # room for any job, so that none is left out before it is known what is planned


@dataclass(frozen=True)
class PlannedLog:
    """Jobs, and the nodes of each virtual cluster at present.

    - `scenario`: what every replay starts from; its cluster has room for any job.
    - `least`: nodes that a virtual cluster's largest job needs; fewer would leave it out. `most`: nodes that
      all its jobs would take if none ever waited and none shared a node: with so many, no job waits for GPUs.
    - `homes`: the pool of each virtual cluster: itself, or one of several that share nodes, which `present`,
      `least` and `most` then count once.
    - `one_pool`: all nodes are one pool of GPUs without borders, as of `lucid simulate --gpus`.
    - `days`: from second 0, or the end of warm-up, to the last submission.
    - `command`: options of `lucid simulate` that name the log.
    """

    scenario: Scenario
    origin: pd.Timestamp
    present: Mapping[str, int]
    least: Mapping[str, int]
    most: Mapping[str, int]
    homes: Mapping[str, str]
    gpus_per_node: int
    one_pool: bool
    days: float
    command: tuple[str, ...]
    remarks: tuple[str, ...] = ()

    @cached_property
    def jobs(self) -> list[Job]:
        """The jobs that waits and figures are of: neither warm-up nor withdrawn."""
        return [job for job in self.scenario.counted_jobs if not job.withdrawn]

    def cluster_of(self, nodes: Mapping[str, int]) -> ClusterSpec:
        """Return the cluster with so many nodes in each virtual cluster."""
        if self.one_pool:
            return ClusterSpec.of_gpus(nodes[EVERYONE] * self.gpus_per_node, virtual_cluster=EVERYONE)
        shared = {
            name: SharedNodes(pool, (1 << nodes[pool]) - 1)
            for name, pool in self.homes.items()
            if name != pool
        }
        return ClusterSpec(dict(nodes), self.gpus_per_node, shared=shared)

    def jobs_left_out(self, nodes: Mapping[str, int]) -> int:
        """Count the jobs that could never start on so many nodes."""
        size = self.gpus_per_node
        return sum(_least_gpus(job) > nodes[self.homes[job.virtual_cluster]] * size for job in self.jobs)


def read_planned_log(
    request: LogToReplay,
    *,
    needs_estimates: bool,
    needs_profiles: bool = True,
    command: Sequence[str],
    sizes: pd.DataFrame | None = None,
    progress: Progress = silent,
) -> PlannedLog:
    """Read a log to plan for. `sizes` are those of the cluster where no file says them (the lake's).

    What changes with time in a file of nodes is planned for as it is last. Raises BadInputError for what
    cannot be planned for.
    """
    size, zone = request.size, request.log.zone
    gpus_per_node = size.gpus_per_node
    if size.gpus is not None and size.gpus % gpus_per_node:
        raise BadInputError(
            f"--gpus {size.gpus} is no whole number of nodes of {gpus_per_node} GPUs.",
            remedy="Give a multiple, or another --gpus-per-node: the step by which the plan adds GPUs.",
        )
    sizes_over_time = size.read(zone) if sizes is None else sizes
    newest = newest_sizes(sizes_over_time)
    one_pool = sizes is None and size.nodes is None
    equal_remarks: tuple[str, ...] = ()
    if one_pool:
        present = {EVERYONE: (size.gpus or gpus_per_node) // gpus_per_node}
        homes: Mapping[str, str] = {EVERYONE: EVERYONE}
        room = newest.assign(nodes=_ROOM_NODES)
    else:
        equal = as_equal_nodes(ClusterSpec.from_nodes(newest))
        present, homes, gpus_per_node = dict(equal.nodes), equal.homes, equal.gpus_per_node
        equal_remarks = equal.remarks
        room = pd.DataFrame(
            {"virtual_cluster": list(homes), "nodes": _ROOM_NODES, "gpus_per_node": gpus_per_node}
        ).assign(from_time=pd.Series(pd.NaT, index=range(len(homes)), dtype="datetime64[us, UTC]"))
    logged = read_scenario(
        request,
        needs_estimates=needs_estimates,
        needs_profiles=needs_profiles,
        sizes=room,
        progress=progress,
    )
    remarks = [*logged.remarks, *equal_remarks]
    if len(sizes_over_time) > len(newest):
        remarks.append("The nodes change with time: the plan is for the cluster as it is last.")
    # A withdrawn job holds no GPU: no node is needed for it.
    jobs = [job for job in logged.scenario.workload.jobs if not job.withdrawn]
    if not jobs:
        raise BadInputError(
            "Every job of the log was withdrawn while it waited: none needs a node.",
            remedy="Choose other days.",
        )
    counted_from_s = logged.scenario.counted_from_s or 0.0
    return PlannedLog(
        logged.scenario,
        logged.origin,
        present,
        least=_by_pool(jobs, homes, lambda own: _largest(own, gpus_per_node)),
        most=_by_pool(jobs, homes, lambda own: _unshared_peak(own, gpus_per_node)),
        homes=homes,
        gpus_per_node=gpus_per_node,
        one_pool=one_pool,
        days=(max(job.submit_time_s for job in jobs) - counted_from_s) / DAY_S,
        command=tuple(command),
        remarks=tuple(remarks),
    )


def newest_sizes(sizes: pd.DataFrame) -> pd.DataFrame:
    """Return the last rows of each virtual cluster, without the time from which on they hold."""
    last = last_of_each(sizes)
    return last.assign(from_time=pd.Series(pd.NaT, index=last.index, dtype="datetime64[us, UTC]"))


def _by_pool(
    jobs: Iterable[Job], homes: Mapping[str, str], measure: Callable[[Sequence[Job]], int]
) -> dict[str, int]:
    own: dict[str, list[Job]] = {pool: [] for pool in homes.values()}
    for job in jobs:
        own[homes[job.virtual_cluster]].append(job)
    return {name: measure(its_jobs) for name, its_jobs in own.items()}


def _largest(jobs: Iterable[Job], gpus_per_node: int) -> int:
    return max((ceil(_least_gpus(job) / gpus_per_node) for job in jobs), default=0)


def _least_gpus(job: Job) -> int:
    """Return how many GPUs a job must have to start."""
    if job.workers is not None:
        return job.workers.base_gpus
    return job.gpus if job.elasticity is None else max(1, job.elasticity.min_gpus)


def _unshared_peak(jobs: Sequence[Job], gpus_per_node: int) -> int:
    """Return the most nodes in use at once if every job starts at its submission on nodes of its own."""
    nodes = np.array([ceil(job.gpus / gpus_per_node) for job in jobs], dtype=np.int64)
    begins = np.array([job.submit_time_s for job in jobs])
    ends = begins + np.array([job.duration_s for job in jobs])
    times, changes = np.concatenate((begins, ends)), np.concatenate((nodes, -nodes))
    by_time = np.lexsort((-changes, times))  # at one moment those that begin first: rather more than fewer
    return int(np.cumsum(changes[by_time]).max(initial=0))
