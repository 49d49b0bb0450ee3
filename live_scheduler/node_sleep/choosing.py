"""Which nodes sleep and which are woken, once it is known how many.

Numbers are the control's (`simulator/node_sleep/control.py`), for all nodes together; partitions are evened
out here: nodes sleep where most are idle, and are woken where jobs are short, then where fewest are idle.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping

from live_scheduler.node_sleep.node_power import PoweredNode, PowerState


def choose_to_sleep(
    nodes: Collection[PoweredNode], count: int, needed: Mapping[str, int], awake_in: Mapping[str, int]
) -> list[str]:
    """Return `count` nodes to put to sleep, fewer where a partition would keep too few.

    Waiting jobs have `needed` idle nodes left to them, and `awake_in` nodes stay awake, by partition.
    """
    awake = _count(nodes, PowerState.AWAKE)
    idle = _count(nodes, PowerState.AWAKE, idle=True)
    candidates = [node for node in nodes if node.may_sleep]
    chosen: list[str] = []
    while len(chosen) < count:
        free = [
            node
            for node in candidates
            if all(awake[p] > awake_in.get(p, 0) and idle[p] > needed.get(p, 0) for p in node.partitions)
        ]
        if not free:
            break
        # The last by name: what is woken first sleeps last.
        node = max(free, key=lambda each: (min(map(idle.__getitem__, each.partitions)), _natural(each.name)))
        candidates.remove(node)
        awake.subtract(node.partitions)
        idle.subtract(node.partitions)
        chosen.append(node.name)
    return chosen


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
    candidates = [
        node
        for node in nodes
        if node.power is PowerState.ASLEEP and node.counts and not node.busy and node.name not in resting
    ]
    coming = _count(nodes, PowerState.AWAKE) + _count(nodes, PowerState.BOOTING)
    idle = _count(nodes, PowerState.AWAKE, idle=True) + _count(nodes, PowerState.BOOTING, idle=True)
    lack = Counter(short)
    chosen: list[str] = []
    while candidates:
        below = [node for node in candidates if any(coming[p] < awake_in.get(p, 0) for p in node.partitions)]
        if not below and len(chosen) >= count:
            break
        node = min(
            below or candidates,
            key=lambda each: (
                -max(lack[p] for p in each.partitions),
                min(idle[p] for p in each.partitions),
                _natural(each.name),
            ),
        )
        candidates.remove(node)
        coming.update(node.partitions)
        idle.update(node.partitions)
        lack.subtract(node.partitions)
        chosen.append(node.name)
    return chosen


def _count(nodes: Collection[PoweredNode], power: PowerState, *, idle: bool = False) -> Counter[str]:
    return Counter(
        partition
        for node in nodes
        if node.counts and node.power is power and not (idle and node.busy)
        for partition in node.partitions
    )


def _natural(name: str) -> tuple[tuple[int, int, str], ...]:
    words = re.findall(r"\d+|\D+", name)
    return tuple((0, int(word), "") if word.isdigit() else (1, 0, word) for word in words)
