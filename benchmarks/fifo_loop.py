"""A yardstick: FIFO on one virtual cluster in plain Python, without policies, checks or results.

It is what an event loop costs at least on the machine at hand; the simulator is measured beside it. Placement
as in `simulator.cluster.placement`: up to a node's GPUs the fullest node that fits, else idle nodes first.
"""

from collections.abc import Sequence
from heapq import heappop, heappush


def fifo_starts(jobs: Sequence[tuple[float, int, float]], nodes: int, size: int) -> list[float]:
    """Return each job's start (s); `jobs` are (submit_s, gpus, duration_s), sorted by submission."""
    free = [size] * nodes
    with_free = [0] * size + [(1 << nodes) - 1]  # bit i of with_free[k]: node i has k free GPUs
    starts = [0.0] * len(jobs)
    ends: list[tuple[float, int, list[tuple[int, int]]]] = []
    head = arrived = 0
    now = 0.0

    def find(gpus: int) -> list[tuple[int, int]] | None:
        whole, rest = divmod(gpus, size)
        idle, taken = with_free[size], []
        for _ in range(whole):
            if not idle:
                return None
            taken.append(((idle & -idle).bit_length() - 1, size))
            idle &= idle - 1
        if rest:
            for k in range(rest, size + 1):
                found = idle if k == size else with_free[k]
                if found:
                    taken.append(((found & -found).bit_length() - 1, rest))
                    break
            else:
                return None
        return taken

    def move(node: int, gpus: int) -> None:
        with_free[free[node]] ^= 1 << node
        free[node] += gpus
        with_free[free[node]] |= 1 << node

    while head < len(jobs):
        now = jobs[arrived][0] if arrived < len(jobs) else ends[0][0]
        if ends and ends[0][0] <= now:
            now = ends[0][0]
        while ends and ends[0][0] == now:
            for node, gpus in heappop(ends)[2]:
                move(node, gpus)
        while arrived < len(jobs) and jobs[arrived][0] == now:
            arrived += 1
        while head < arrived:
            placement = find(jobs[head][1])
            if placement is None:
                break
            for node, gpus in placement:
                move(node, -gpus)
            starts[head] = now
            heappush(ends, (now + jobs[head][2], head, placement))
            head += 1
    return starts
