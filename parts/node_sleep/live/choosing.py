"""Which nodes sleep and which are woken, once it is known how many, and how many waiting jobs need.

Numbers are the control's (`parts/node_sleep/replay/control.py`), for all nodes together; partitions are
evened out here: nodes sleep where most are idle, and are woken where jobs are short, then where fewest are
idle.
"""

import math
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from live_scheduler.cluster_state import LiveJob, NaturalKey, PoweredNode, PowerState, natural_key

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

    A cluster like Slurm counts sleeping nodes as its own and wakes them for jobs that it gives them; those
    jobs lack nodes until the boot is over. What waits beyond that lacks what sleeps in its partition at most:
    waking more would not help it. Idle nodes that it needs stay awake: it may be waiting for the rest.
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


def choose_to_sleep(
    nodes: Collection[PoweredNode], count: int, needed: Mapping[str, int], awake_in: Mapping[str, int]
) -> list[str]:
    """Return `count` nodes to put to sleep, fewer where a partition would keep too few.

    Waiting jobs have `needed` idle nodes left to them, and `awake_in` nodes stay awake, by partition.
    """
    awake = _count(nodes, PowerState.AWAKE)
    idle = _count(nodes, PowerState.AWAKE, idle=True)
    # The last by name: what is woken first sleeps last.
    groups = _alike((node for node in nodes if node.may_sleep), last_first=True)
    to_sleep: list[str] = []
    while len(to_sleep) < count:
        free = [
            group
            for group in groups
            if all(awake[p] > awake_in.get(p, 0) and idle[p] > needed.get(p, 0) for p in group.partitions)
        ]
        if not free:
            break
        group = max(free, key=lambda each: (min(idle[p] for p in each.partitions), each.next_key))
        to_sleep.append(group.take(groups))
        awake.subtract(group.partitions)
        idle.subtract(group.partitions)
    return to_sleep


def choose_to_wake(
    nodes: Collection[PoweredNode],
    count: int,
    short: Mapping[str, int],
    awake_in: Mapping[str, int],
    resting: Collection[str] = (),
) -> list[str]:
    """Return `count` nodes to wake, and further ones where a partition has fewer than `awake_in` awake.

    `short` are the nodes that jobs lack by partition; nodes that rest are left alone.
    """
    groups = _alike(
        node
        for node in nodes
        if node.power is PowerState.ASLEEP and node.counts and not node.busy and node.name not in resting
    )
    coming = _count(nodes, PowerState.AWAKE) + _count(nodes, PowerState.BOOTING)
    idle = _count(nodes, PowerState.AWAKE, idle=True) + _count(nodes, PowerState.BOOTING, idle=True)
    lack = Counter(short)
    to_wake: list[str] = []
    while groups:
        below = [each for each in groups if any(coming[p] < awake_in.get(p, 0) for p in each.partitions)]
        if not below and len(to_wake) >= count:
            break
        group = min(
            below or groups,
            key=lambda each: (
                -max(lack[p] for p in each.partitions),
                min(idle[p] for p in each.partitions),
                each.next_key,
            ),
        )
        to_wake.append(group.take(groups))
        coming.update(group.partitions)
        idle.update(group.partitions)
        lack.subtract(group.partitions)
    return to_wake


@dataclass
class _Group:
    """Nodes of the same partitions, by name; one is as good as another."""

    partitions: tuple[str, ...]
    nodes: deque[tuple[NaturalKey, str]]

    @property
    def next_key(self) -> NaturalKey:
        return self.nodes[0][0]

    def take(self, groups: "list[_Group]") -> str:
        """Return the next node; the last one takes the group off `groups`."""
        _, name = self.nodes.popleft()
        if not self.nodes:
            groups.remove(self)
        return name


def _alike(nodes: Iterable[PoweredNode], *, last_first: bool = False) -> list[_Group]:
    groups: dict[tuple[str, ...], list[tuple[NaturalKey, str]]] = {}
    for node in nodes:
        groups.setdefault(node.partitions, []).append((natural_key(node.name), node.name))
    return [
        _Group(partitions, deque(sorted(names, reverse=last_first))) for partitions, names in groups.items()
    ]


def _count(nodes: Collection[PoweredNode], power: PowerState, *, idle: bool = False) -> Counter[str]:
    return Counter(
        partition
        for node in nodes
        if node.counts and node.power is power and not (idle and node.busy)
        for partition in node.partitions
    )
