"""Which nodes sleep and which are woken, once it is known how many.

Numbers are the control's (`parts/node_sleep/replay/control.py`), for all nodes together; partitions are
evened out here: nodes sleep where most are idle, and are woken where jobs are short, then where fewest are
idle.
"""

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from live_scheduler.cluster_state import NaturalKey, PoweredNode, PowerState, natural_key


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
