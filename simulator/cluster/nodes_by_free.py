"""Nodes by how many free GPUs each has."""

from bisect import bisect_left
from collections.abc import Iterator


class NodesByFree:
    """Sets of nodes (`node_bits`), by free GPUs: two lists side by side, fewest GPUs first."""

    __slots__ = ("free", "nodes")

    def __init__(self) -> None:
        self.free: list[int] = []
        self.nodes: list[int] = []  # none of them is empty

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Iterate over (free GPUs, nodes)."""
        return zip(self.free, self.nodes, strict=True)

    def copy(self) -> "NodesByFree":
        """Return a copy."""
        other = NodesByFree.__new__(NodesByFree)
        other.free = self.free[:]
        other.nodes = self.nodes[:]
        return other

    @property
    def most(self) -> int:
        """How many free GPUs the freest node has; 0 without nodes."""
        return self.free[-1] if self.free else 0

    def having(self, free: int) -> int:
        """Return the nodes with exactly so many free GPUs."""
        at = bisect_left(self.free, free)
        return self.nodes[at] if at < len(self.free) and self.free[at] == free else 0

    def on(self, node: int) -> int | None:
        """Return the free GPUs of a node; None where it is not here."""
        bit = 1 << node
        for free, nodes in zip(self.free, self.nodes, strict=True):
            if nodes & bit:
                return free
        return None

    def add(self, nodes: int, free: int) -> None:
        """Put nodes here that are not here yet."""
        at = bisect_left(self.free, free)
        if at < len(self.free) and self.free[at] == free:
            self.nodes[at] |= nodes
        else:
            self.free.insert(at, free)
            self.nodes.insert(at, nodes)

    def drop(self, nodes: int, free: int) -> None:
        """Take out nodes that have so many free GPUs."""
        at = bisect_left(self.free, free)
        left = self.nodes[at] ^ nodes
        if left:
            self.nodes[at] = left
        else:
            del self.free[at], self.nodes[at]

    def move(self, nodes: int, gpus: int, most: int) -> int:
        """Have these nodes so many more free GPUs each, below zero fewer.

        Returns those that are not here, or would have more than `most` or fewer than none: they stay.
        """
        free, sets = self.free, self.nodes
        count = len(free)
        if not gpus:
            return 0
        # Nodes with fewer free GPUs than are taken cannot be the ones: the search begins behind them.
        at = bisect_left(free, -gpus) if gpus < 0 else 0
        while at < count:
            found = sets[at] & nodes
            if found:
                break
            at += 1
        else:
            return nodes
        if found != nodes:
            return self._move_each(nodes, gpus, most)
        new = free[at] + gpus
        if new > most:
            return nodes
        left = sets[at] ^ nodes
        to = bisect_left(free, new)
        if to < count and free[to] == new:
            sets[to] |= nodes
        elif not left and at <= to <= at + 1:
            free[at] = new  # the set stays what and where it is
            return 0
        else:
            free.insert(to, new)
            sets.insert(to, nodes)
            # The insertion has pushed the old entry up by one.
            at += to <= at
        if left:
            sets[at] = left
        else:
            del free[at], sets[at]
        return 0

    def _move_each(self, nodes: int, gpus: int, most: int) -> int:
        moved = []
        for free, there in self:
            found = there & nodes
            if found and 0 <= free + gpus <= most:
                moved.append((found, free))
                nodes ^= found
        # All come out before any goes back: nodes that have moved would be found again in the next set.
        for found, free in moved:
            self.drop(found, free)
        for found, free in moved:
            self.add(found, free + gpus)
        return nodes

    def lower(self, nodes: int, most: int) -> int:
        """Leave no more free GPUs on these nodes; return how many that takes away."""
        lowered = [
            (nodes & there, free)
            for free, there in zip(self.free, self.nodes, strict=True)
            if free > most and nodes & there
        ]
        for found, free in lowered:
            self.drop(found, free)
            self.add(found, most)
        return sum([(free - most) * found.bit_count() for found, free in lowered])

    def hand_over(self, nodes: int, taker: "NodesByFree") -> int:
        """Move those of these nodes that are here elsewhere; return their free GPUs."""
        gone = [(nodes & there, free) for free, there in self if nodes & there]
        for found, free in gone:
            self.drop(found, free)
            taker.add(found, free)
        return sum([free * found.bit_count() for found, free in gone])
