"""By which rules jobs are left out of a replay, and how many GPUs there are for a job at most."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simulator.cluster.changes import ClusterChange, SizeChange
from simulator.cluster.spec import ClusterSpec
from simulator.workload.columns import WorkloadColumns, objects_in

# Why a row is left out; the names are the keys of `Workload.skipped`.
CPU_JOB = "cpu_job"  # it asks for no GPU, so it never waits for one
UNKNOWN_DURATION = "unknown_duration"  # it had not ended, or its source does not say for how long it ran
NEGATIVE_DURATION = "negative_duration"
BIGGER_THAN_VIRTUAL_CLUSTER = "bigger_than_virtual_cluster"  # it could never start
UNKNOWN_VIRTUAL_CLUSTER = "unknown_virtual_cluster"  # the cluster has no node for it
SKIP_RULES = (
    CPU_JOB,
    UNKNOWN_DURATION,
    NEGATIVE_DURATION,
    BIGGER_THAN_VIRTUAL_CLUSTER,
    UNKNOWN_VIRTUAL_CLUSTER,
)


class LargestSizes:
    """The sizes of a cluster's virtual clusters, as it changes."""

    def __init__(self, cluster: ClusterSpec, changes: Sequence[ClusterChange] = ()) -> None:
        self.gpus_per_node = cluster.gpus_per_node
        self.cores_per_node = cluster.cpu_cores_per_node
        others = {
            name: cluster.open_sizes(name)
            for name in cluster.names
            if name in cluster.shared or name in cluster.node_gpus
        }
        # The GPUs of a node; of those with nodes that differ in size, which stay as they are, all GPUs.
        self._gpus_each = dict.fromkeys(cluster.names, self.gpus_per_node)
        self._gpus_each |= {name: max(sizes, default=0) for name, sizes in others.items()}
        self._gpus = {name: sum(sizes) for name, sizes in others.items() if len(set(sizes)) > 1}
        nodes = {**cluster.virtual_clusters, **{name: len(sizes) for name, sizes in others.items()}}
        # (from when, nodes) of each virtual cluster, in the order of time
        self._sizes = {name: [(-float("inf"), nodes[name])] for name in cluster.names}
        for change in sorted(changes, key=lambda change: change.at_s):
            if isinstance(change, SizeChange) and change.virtual_cluster in self._sizes:
                self._sizes[change.virtual_cluster].append((change.at_s, change.nodes))

    def knows(self, virtual_cluster: str) -> bool:
        """Whether the cluster has such a virtual cluster."""
        return virtual_cluster in self._sizes

    def gpus_from(self, virtual_cluster: str, since_s: ArrayLike) -> NDArray[np.int64]:
        """Return the most GPUs that a virtual cluster has at these moments or later, one a moment."""
        if virtual_cluster in self._gpus:
            return np.full(np.shape(since_s), self._gpus[virtual_cluster])
        return self._nodes_from(virtual_cluster, since_s) * self._gpus_each[virtual_cluster]

    def cores_from(self, virtual_cluster: str, since_s: ArrayLike) -> NDArray[np.int64]:
        """Return the most cores that a virtual cluster has at these moments or later, one a moment."""
        return self._nodes_from(virtual_cluster, since_s) * self.cores_per_node

    def _nodes_from(self, virtual_cluster: str, since_s: ArrayLike) -> NDArray[np.int64]:
        at_s, nodes = zip(*self._sizes[virtual_cluster], strict=True)
        most = np.maximum.accumulate(nodes[::-1])[::-1]  # from each change on
        return np.asarray(most[np.searchsorted(at_s, since_s, side="right") - 1])


def rules_against(jobs: WorkloadColumns, largest: LargestSizes) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Return which jobs could never start, by the rule that leaves them out; a job breaks one at most."""
    clusters = jobs.virtual_cluster
    known = np.zeros(len(jobs), dtype=bool)
    on_gpus = jobs.gpus > 0
    least, most = np.where(on_gpus, jobs.gpus, jobs.cpus), np.zeros(len(jobs), dtype=np.int64)
    for name, rows in clusters.groups():
        if largest.knows(name):
            known[rows] = True
            since_s = jobs.submit_time_s[rows]
            gpus, cores = largest.gpus_from(name, since_s), largest.cores_from(name, since_s)
            most[rows] = np.where(on_gpus[rows], gpus, cores)
    yield UNKNOWN_VIRTUAL_CLUSTER, ~known
    if not largest.cores_per_node:
        yield CPU_JOB, known & ~on_gpus
        known &= on_gpus
    for row, elasticity in objects_in(jobs.elasticity, on_gpus):
        least[row] = max(1, elasticity.min_gpus)
    for row, workers in objects_in(jobs.workers, on_gpus):  # a worker is on one node
        least[row] = workers.least
        most[row] = most[row] // largest.gpus_per_node * (largest.gpus_per_node // workers.gpus_each)
    yield BIGGER_THAN_VIRTUAL_CLUSTER, known & (least > most)
