"""How many nodes waiting jobs need, and how many of them could be woken.

A cluster like Slurm counts sleeping nodes as its own and wakes them for jobs that it gives them; those jobs
lack nodes until the boot is over. What waits beyond that lacks what sleeps in its partition at most: waking
more would not help it. Idle nodes that it needs stay awake: it may be waiting for the rest of them.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from live_scheduler.cluster_state import LiveJob, PoweredNode, PowerState

# Slurm has looked at the job and lacks nodes for it, or has not looked yet.
_LACKS_NODES = frozenset({"", "Resources"})


def nodes_needed(nodes: Collection[PoweredNode], jobs: Iterable[LiveJob]) -> dict[str, int]:
    """Return, by partition, how many nodes waiting jobs need."""
    needed: dict[str, float] = {}
    gpus = {
        partition: max(node.gpus for node in nodes if partition in node.partitions)
        for partition in {name for node in nodes for name in node.partitions}
    }
    for job in jobs:
        if job.eligible and job.reason in _LACKS_NODES and job.partition in gpus:
            needed[job.partition] = needed.get(job.partition, 0.0) + _nodes_of(job, gpus[job.partition])
    # A sum of shares of nodes may lie a rounding error above a whole number.
    return {partition: math.ceil(count - 1e-9) for partition, count in needed.items()}


def nodes_short(
    nodes: Collection[PoweredNode], needed: Mapping[str, int], just_given: Collection[str] = ()
) -> dict[str, int]:
    """Return, by partition, how many of the needed nodes are neither idle nor awake, and could be.

    Jobs are read before nodes: nodes `just_given` to jobs may be those of jobs that were waiting then.
    """
    short = {}
    given = Counter(p for node in nodes if node.name in just_given for p in node.partitions)
    for partition, count in needed.items():
        own = [node for node in nodes if partition in node.partitions and node.counts and not node.busy]
        idle = sum(node.power is PowerState.AWAKE for node in own)
        wakeable = sum(node.power in (PowerState.ASLEEP, PowerState.BOOTING) for node in own)
        if (lack := min(count - idle - given[partition], wakeable)) > 0:
            short[partition] = lack
    return short


def boots_for_jobs(nodes: Iterable[PoweredNode]) -> int:
    """Return how many nodes have jobs that wait for them to boot."""
    return sum(node.counts and node.busy and node.power is not PowerState.AWAKE for node in nodes)


def _nodes_of(job: LiveJob, gpus_of_a_node: int) -> float:
    """Return a job's nodes; jobs of one node share nodes by their GPUs, those without GPUs are one node."""
    nodes = job.nodes or 1
    if nodes > 1 or not job.gpus or not gpus_of_a_node:
        return float(nodes)
    return min(1.0, job.gpus / gpus_of_a_node) * job.tasks
