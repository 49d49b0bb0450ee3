"""Consolidated gang placement on nodes of several sizes.

The rules of `placement.py`, where "a node" is any of those that a job may use:

- a gang that one of them could hold, were it idle, goes to one node: of those with enough free GPUs the one
  with the fewest, the lowest index on ties. It is never split, and waits for such a node;
- a larger one takes whole idle nodes, the largest first, until one further node holds the rest: no more
  nodes than it needs of those that are free now.

On equal nodes this is the same placement, node for node.
"""

from collections.abc import Sequence
from typing import Self

from simulator.placement import FreeGpus, Placement, Remainder


class UnequalFreeGpus(FreeGpus):
    """The free GPUs of nodes of several sizes; `gpus_per_node` is the size of the largest."""

    __slots__ = ("_all", "_by_size", "_sizes")

    def __init__(self, sizes: Sequence[int], remainder: Remainder = "fullest") -> None:
        super().__init__(0, max(sizes), remainder)
        self._sizes: list[int] = []
        self._by_size: dict[int, int] = {}  # size -> its nodes; the largest first
        self._all = 0
        for size in sorted(set(sizes), reverse=True):
            self._by_size[size] = 0
        for size in sizes:
            self.add_node(size)
        self.gains = 0

    def copy(self) -> Self:
        """Return a copy to plan on."""
        other = super().copy()
        other._sizes = self._sizes[:]
        other._by_size = self._by_size.copy()
        other._all = self._all
        return other

    def on_node(self, node: int) -> int:
        """Return the free GPUs of a node, withdrawn or not."""
        free = self._free[node]
        return free if free >= 0 else free + self._sizes[node] + 1

    @property
    def has_equal_nodes(self) -> bool:
        """Whether all nodes have `gpus_per_node`."""
        return False

    def size_of(self, node: int) -> int:
        """Return the GPUs that a node has, free or not."""
        return self._sizes[node]

    def largest(self, among: int | None = None) -> int:
        """Return the GPUs of the largest of these nodes (None: of all), on offer or not; 0 of none."""
        if among is None:
            return self.gpus_per_node
        return next((size for size, nodes in self._by_size.items() if nodes & among), 0)

    @property
    def idle_count(self) -> int:
        """How many nodes are present and wholly idle."""
        return self.idle(self._all).bit_count()

    def idle_nodes(self) -> list[int]:
        """Return the nodes that are present and wholly idle, lowest index first."""
        idle = self.idle(self._all)
        return [node for node in range(len(self._free)) if idle >> node & 1]

    def idle(self, among: int) -> int:
        """Return those of these nodes that are present and wholly idle."""
        idle = 0
        for size, nodes in self._by_size.items():
            idle |= self._buckets[size] & nodes
        return idle & among

    def withdraw(self, node: int) -> None:
        """Offer a node's free GPUs no more; those in use come back to it unoffered. Idempotent."""
        free = self._free[node]
        if free >= 0:
            self._buckets[free] ^= 1 << node
            self.total -= free
            self._free[node] = free - self._sizes[node] - 1

    def add_node(self, size: int | None = None) -> int:
        """Add an idle node (None: as large as the largest), and return its index."""
        size = self.gpus_per_node if size is None else size
        self._by_size[size] |= 1 << len(self._free)
        self._all |= 1 << len(self._free)
        self._sizes.append(size)
        return super().add_node()

    def find(self, gpus: int, nodes: int | None = None) -> Placement | None:
        """Return where a gang of `gpus` would go, or None when it does not fit now; takes nothing."""
        if gpus > self.total:
            return None
        return self._find_among(gpus, self._all if nodes is None else nodes & self._all)

    def _largest_idle(self, among: int) -> tuple[int, int] | None:
        for size, nodes in self._by_size.items():
            idle = self._buckets[size] & nodes & among
            if idle:
                return (idle & -idle).bit_length() - 1, size
        return None

    def give(self, placement: Placement) -> None:
        """Free the GPUs of a placement; raises ValueError when they were not occupied."""
        for node, gpus in placement:
            had = self.on_node(node)
            if had + gpus > self._sizes[node]:
                raise ValueError(f"node {node} has {had} free GPUs and cannot get {gpus} more")
        super().give(placement)


def free_gpus(sizes: Sequence[int], gpus_per_node: int, remainder: Remainder = "fullest") -> FreeGpus:
    """Return the free GPUs of idle nodes of these sizes; nodes that come later have `gpus_per_node`."""
    if not sizes or min(sizes) == max(sizes):
        return FreeGpus(len(sizes), sizes[0] if sizes else gpus_per_node, remainder)
    return UnequalFreeGpus(sizes, remainder)
