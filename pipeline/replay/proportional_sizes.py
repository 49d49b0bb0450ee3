"""A cluster of another size: its nodes divided among virtual clusters in proportion to the present."""

from collections.abc import Mapping
from heapq import heapify, heappop, heapreplace


def in_proportion(
    total: int, present: Mapping[str, int], least: Mapping[str, int], most: Mapping[str, int]
) -> dict[str, int]:
    """Return `total` nodes divided as `present` are, each virtual cluster with at least its `least`.

    None gets more than its `most` unless it has more at present: further nodes are of no use to it. Nodes
    are handed out by Sainte-Lague's divisors, so that a cluster of one node more has every node of the
    smaller one; with largest remainders a virtual cluster may lose a node when the cluster gains one. At the
    present total it is the present division, where that has the least ones.
    """
    nodes = dict(least)
    # The next node goes where present / (2 x nodes + 1) is greatest; ties by name.
    queue = [
        (_rank(present[name], nodes[name]), name)
        for name in nodes
        if nodes[name] < max(most[name], present[name])
    ]
    heapify(queue)
    for _ in range(total - sum(nodes.values())):
        if not queue:
            break
        _, name = queue[0]
        nodes[name] += 1
        if nodes[name] < max(most[name], present[name]):
            heapreplace(queue, (_rank(present[name], nodes[name]), name))
        else:
            heappop(queue)
    return nodes


def _rank(present: int, nodes: int) -> float:
    return -present / (2 * nodes + 1)
