"""By which rules jobs are left out of a replay, and how many GPUs there are for a job at most."""

from collections.abc import Sequence

from simulator.cluster import ClusterSpec
from simulator.cluster_changes import ClusterChange, SizeChange
from simulator.job import Job

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
        # The GPUs of a node, and of those whose nodes differ in size, which stay as they are, all GPUs.
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

    def gpus_from(self, virtual_cluster: str, since_s: float) -> int:
        """Return the most GPUs that a virtual cluster has at `since_s` or later."""
        if virtual_cluster in self._gpus:
            return self._gpus[virtual_cluster]
        return self._nodes_from(virtual_cluster, since_s) * self._gpus_each[virtual_cluster]

    def cores_from(self, virtual_cluster: str, since_s: float) -> int:
        """Return the most cores that a virtual cluster has at `since_s` or later."""
        return self._nodes_from(virtual_cluster, since_s) * self.cores_per_node

    def _nodes_from(self, virtual_cluster: str, since_s: float) -> int:
        sizes = self._sizes[virtual_cluster]
        if len(sizes) == 1:
            return sizes[0][1]
        most = 0
        for at_s, nodes in reversed(sizes):
            most = max(most, nodes)
            if at_s <= since_s:
                break
        return most


def rule_against(job: Job, largest: LargestSizes) -> str | None:
    """Return the rule by which a job that could never start is left out; None: it can start."""
    if not largest.knows(job.virtual_cluster):
        return UNKNOWN_VIRTUAL_CLUSTER
    if not job.gpus:
        if not largest.cores_per_node:
            return CPU_JOB
        least, most = job.cpus, largest.cores_from(job.virtual_cluster, job.submit_time_s)
    else:
        least = job.gpus if job.elasticity is None else max(1, job.elasticity.min_gpus)
        most = largest.gpus_from(job.virtual_cluster, job.submit_time_s)
        if job.workers is not None:  # a worker is on one node
            least = job.workers.least
            most = most // largest.gpus_per_node * (largest.gpus_per_node // job.workers.gpus_each)
    return BIGGER_THAN_VIRTUAL_CLUSTER if least > most else None
