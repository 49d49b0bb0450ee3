"""Start times under first in, first out: what the published clusters run (Helios, Section 2.1).

Each virtual cluster has a queue of its own, in order of submission; the head waits until its whole gang fits
and nothing overtakes it. Placement is consolidated: a job of at most one node's GPUs takes the fullest node
that still fits it; a larger one takes idle nodes and puts its remainder on the fullest node that still fits.
"""

import heapq
from collections.abc import Sequence

from foundation.errors import BadInputError


def start_times(
    submit_s: Sequence[int],
    duration_s: Sequence[int],
    gpus: Sequence[int],
    *,
    nodes: int,
    gpus_per_node: int,
    patience_s: Sequence[float] | None = None,
) -> list[int | None]:
    """Return the start of each job of one virtual cluster, in whole seconds.

    Jobs are given in the order of submission. GPUs that are freed at an instant serve jobs at that instant. A
    job is held back (None) when the job ahead of it waits for longer than its user's patience, counted from
    now on. Raises BadInputError for a job that can never fit.
    """
    free = [gpus_per_node] * nodes
    running: list[tuple[int, int, list[tuple[int, int]]]] = []
    starts: list[int | None] = []
    now = 0
    for index, (submitted, lasts, wanted) in enumerate(zip(submit_s, duration_s, gpus, strict=True)):
        if wanted > nodes * gpus_per_node:
            raise BadInputError(
                f"Job {index} wants {wanted} GPUs; its virtual cluster has {nodes * gpus_per_node}.",
                remedy="Give the virtual cluster more nodes.",
            )
        if patience_s is not None and now - submitted > patience_s[index]:
            starts.append(None)
            continue
        now = max(now, submitted)
        while running and running[0][0] <= now:
            _release(free, heapq.heappop(running)[2])
        while (taken := _place(free, wanted, gpus_per_node)) is None:
            now = running[0][0]
            while running and running[0][0] <= now:
                _release(free, heapq.heappop(running)[2])
        starts.append(now)
        heapq.heappush(running, (now + lasts, index, taken))
    return starts


def _release(free: list[int], taken: list[tuple[int, int]]) -> None:
    for node, count in taken:
        free[node] += count


def _place(free: list[int], wanted: int, gpus_per_node: int) -> list[tuple[int, int]] | None:
    """Take GPUs and return (node, count) pairs, or take nothing and return None."""
    whole, rest = divmod(wanted, gpus_per_node)
    taken: list[tuple[int, int]] = []
    if whole:
        idle = [node for node, left in enumerate(free) if left == gpus_per_node][:whole]
        if len(idle) < whole:
            return None
        taken = [(node, gpus_per_node) for node in idle]
    if rest:
        used = {node for node, _ in taken}
        best, least = -1, gpus_per_node + 1
        for node, left in enumerate(free):
            if rest <= left < least and node not in used:
                best, least = node, left
        if best < 0:
            return None
        taken.append((best, rest))
    for node, count in taken:
        free[node] -= count
    return taken
