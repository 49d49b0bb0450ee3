"""When whole nodes will be idle, if the runs on them end when they are believed to.

Kept from one decision to the next: a run changes it by its own nodes, and a job that needs so many whole
nodes looks at those that come free first, not at all that runs.
"""

from bisect import bisect_left, insort

from simulator.cluster.node_bits import nodes_of
from simulator.cluster.placement import FreeGpus, Placement


class IdleTimes:
    """The nodes of one size that are in use, by when they will be idle (s)."""

    def __init__(self, gpus_per_node: int) -> None:
        self._size = gpus_per_node
        self._by_time: list[tuple[float, int]] = []  # (s, nodes as a set)
        self._ends: dict[int, list[float]] = {}  # node in use in part -> when its runs end, in order
        self._held: dict[int, int] = {}  # node in use in part -> GPUs that they hold

    def add(self, placement: Placement, end_s: float) -> None:
        """Take note of a run."""
        for nodes, gpus in placement.blocks:
            if gpus == self._size:
                insort(self._by_time, (end_s, nodes))
            else:
                for node in nodes_of(nodes):
                    self._add_part(node, gpus, end_s)

    def discard(self, placement: Placement, end_s: float) -> None:
        """Forget a run that was noted."""
        for nodes, gpus in placement.blocks:
            if gpus == self._size:
                self._drop(end_s, nodes)
            else:
                for node in nodes_of(nodes):
                    self._discard_part(node, gpus, end_s)

    def first(self, count: int, plan: FreeGpus) -> tuple[float, int] | None:
        """Return when there will be so many idle nodes, and which nodes are idle then; None: never.

        `plan` is what is free now, too little.
        """
        present = plan.present
        idle = plan.idle(present)
        missing = count - idle.bit_count()
        at_s = -1.0
        for idle_s, nodes in self._by_time:
            # All nodes that come free at this moment count: the lowest are taken, not the first found.
            if missing <= 0 and idle_s != at_s:
                break
            at_s = idle_s
            nodes &= present
            if nodes and self._will_be_idle(nodes, plan):
                idle |= nodes
                missing -= nodes.bit_count()
        return None if missing > 0 else (at_s, idle)

    def _will_be_idle(self, nodes: int, plan: FreeGpus) -> bool:
        """Whether the end of all that holds GPUs of these nodes is known."""
        node = nodes.bit_length() - 1
        held = self._held.get(node)
        return held is None or held + plan.on_node(node) == self._size

    def _add_part(self, node: int, gpus: int, end_s: float) -> None:
        ends = self._ends.get(node)
        if ends is None:
            self._ends[node] = [end_s]
            self._held[node] = gpus
            insort(self._by_time, (end_s, 1 << node))
            return
        # A node that is in use in part comes free with its last run: only that end is in `_by_time`.
        self._held[node] += gpus
        if end_s > ends[-1]:
            self._drop(ends[-1], 1 << node)
            insort(self._by_time, (end_s, 1 << node))
            ends.append(end_s)
        else:
            insort(ends, end_s)

    def _discard_part(self, node: int, gpus: int, end_s: float) -> None:
        ends = self._ends[node]
        if len(ends) == 1:
            del self._ends[node], self._held[node]
            self._drop(end_s, 1 << node)
            return
        self._held[node] -= gpus
        at = bisect_left(ends, end_s)
        del ends[at]
        if at == len(ends) and ends[-1] != end_s:
            self._drop(end_s, 1 << node)
            insort(self._by_time, (ends[-1], 1 << node))

    def _drop(self, idle_s: float, nodes: int) -> None:
        del self._by_time[bisect_left(self._by_time, (idle_s, nodes))]
