"""Where Slurm's select/cons_tres puts a job on a partition's nodes.

A job asks for GPUs on as few nodes as possible: whole nodes, and a part of one more. Among the nodes that
have enough, those side by side form sets; the job goes to the smallest set that holds it whole (else to the
largest and on to others), and there to the first nodes. What else they run does not count. Nodes are bits of
an integer.
"""

from collections.abc import Iterator

from simulator.cluster.placement import FreeGpus, Placement


class NodeRoom:
    """The free GPUs of a pool's nodes, to plan on."""

    __slots__ = ("_having", "_sizes", "free", "nodes")

    def __init__(self, free: FreeGpus) -> None:
        self._sizes = [free.size_of(node) for node in range(free.nodes)]
        self.free = free.per_node()  # below zero: not on offer
        self._having: dict[int, int] = {}  # GPUs -> the nodes with so many free
        self.nodes = self.having(0)

    def copy(self) -> "NodeRoom":
        """Return a copy."""
        other = NodeRoom.__new__(NodeRoom)
        other._sizes, other.free, other._having = self._sizes, self.free[:], {}
        other.nodes = self.nodes
        return other

    def having(self, gpus: int) -> int:
        """Return the nodes with so many free GPUs."""
        nodes = self._having.get(gpus)
        if nodes is None:
            nodes = sum([1 << node for node, free in enumerate(self.free) if free >= gpus])
            self._having[gpus] = nodes
        return nodes

    def take(self, placement: Placement) -> None:
        """Occupy GPUs."""
        for node, gpus in placement:
            self.free[node] -= gpus
        self._having = {}

    def give(self, placement: Placement) -> None:
        """Free GPUs; those on nodes that are not on offer stay so."""
        for node, gpus in placement:
            if self.nodes >> node & 1:
                self.free[node] += gpus
        self._having = {}

    def find(self, gpus: int, among: int, *, whole: bool) -> Placement | None:
        """Return where a job goes on these nodes; None when it does not fit.

        A job that one node of its partition could hold goes to one (`whole`). A larger one takes whole nodes,
        the largest first, and a part of one more.
        """
        by_size = {} if whole else self._by_size(among)
        placement: list[tuple[int, int]] = []
        for size in sorted(by_size, reverse=True):
            idle = [node for node in each_bit(by_size[size]) if self.free[node] == size]
            count = min(gpus // size, len(idle))
            taken = smallest_sets(sum([1 << node for node in idle]), count)
            placement += [(node, size) for node in taken]
            for node in taken:
                among &= ~(1 << node)
            gpus -= count * size
            if not gpus:
                return Placement.of(placement)
            if self.having(gpus) & among:
                break
        nodes = self.having(gpus) & among
        if not nodes:
            return None
        return Placement.of([*placement, (smallest_sets(nodes, 1)[0], gpus)])

    def _by_size(self, among: int) -> dict[int, int]:
        by_size: dict[int, int] = {}
        for node in each_bit(among):
            by_size[self._sizes[node]] = by_size.get(self._sizes[node], 0) | 1 << node
        return by_size


def smallest_sets(nodes: int, count: int) -> list[int]:
    """Return so many of these nodes, from as few sets of neighbours as Slurm takes; there are enough."""
    if nodes.bit_count() == count:
        return list(each_bit(nodes))
    if count == 1:
        return [min(_neighbours(nodes), key=_length)[0]]
    sets = list(_neighbours(nodes))
    chosen: list[int] = []
    while len(chosen) < count:
        missing = count - len(chosen)
        enough = [found for found in sets if found[1] >= missing]
        found = min(enough, key=_length) if enough else max(sets, key=_length)
        first, length = found
        chosen += range(first, first + min(length, missing))
        sets.remove(found)
    return chosen


def mask_of(placement: Placement) -> int:
    """Return the nodes of a placement."""
    mask = 0
    for node, _ in placement:
        mask |= 1 << node
    return mask


def each_bit(mask: int) -> Iterator[int]:
    """Return the nodes, in order."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def _neighbours(nodes: int) -> Iterator[tuple[int, int]]:
    """Return sets of nodes side by side: the first, and how many."""
    at = 0
    while nodes:
        skip = (nodes & -nodes).bit_length() - 1
        at, nodes = at + skip, nodes >> skip
        length = (~nodes & (nodes + 1)).bit_length() - 1
        yield at, length
        at, nodes = at + length, nodes >> length


def _length(found: tuple[int, int]) -> int:
    return found[1]
