"""Consolidated gang placement: all GPUs of a job at once, on as few nodes as possible.

Rules (Lucid section 3.2, Helios section 4.2.2; the tie-breaks are those of the authors' simulators):

- up to a node's GPUs: the node with the fewest free GPUs that fits, the lowest index on ties;
- a multiple of a node's GPUs: wholly idle nodes, lowest index first;
- otherwise: whole idle nodes first, and the remainder on one further node.

A job may be bound to some of the nodes, as those of its partition are where partitions share nodes; the rules
then hold for these nodes alone. Nodes of several sizes: `unequal_nodes.py`.

Nodes are kept in buckets by their number of free GPUs; a bucket is one integer whose bit *i* stands for node
*i*. Finding the fullest node that fits looks at no more buckets than a node has GPUs, whatever the cluster's
size, and a copy to plan on costs little. Nodes can leave and come back (drained, failed, lent): a withdrawn
node is in no bucket.
"""

from typing import Literal, Self

# (node, GPUs on it), one pair a node.
Placement = tuple[tuple[int, int], ...]

# GPUs, and the nodes that they may be on, bit *i* for node *i*; None: all.
Demand = tuple[int, int | None]

# Which node takes the remainder of a job larger than a node: the fullest that fits (keeps idle nodes whole),
# or the freest, as the Lucid artifact does (the placement fails if that one does not fit).
Remainder = Literal["fullest", "freest"]


def exchanged(before: Placement, after: Placement) -> tuple[Placement, Placement]:
    """Return the GPUs that are given up and those that are newly taken, going from one place to another."""
    return without(before, after), without(after, before)


def without(placement: Placement, other: Placement) -> Placement:
    """Return the GPUs of a placement that another does not have."""
    held = dict(other)
    return tuple((node, gpus - held.get(node, 0)) for node, gpus in placement if gpus > held.get(node, 0))


def nodes_in(nodes: int | None, count: int) -> list[int]:
    """Return the nodes that an integer stands for, bit *i* for node *i*, of so many; None stands for all."""
    return [node for node in range(count) if nodes is None or nodes >> node & 1]


def lies_within(placement: Placement, nodes: int | None) -> bool:
    """Whether a place is on these nodes only, given as `nodes_in` reads them."""
    return nodes is None or all(nodes >> node & 1 for node, _ in placement)


class FreeGpus:
    """The free GPUs of a set of equal nodes."""

    __slots__ = ("_buckets", "_free", "gains", "gpus_per_node", "remainder", "total")

    def __init__(self, nodes: int, gpus_per_node: int, remainder: Remainder = "fullest") -> None:
        self.gpus_per_node = gpus_per_node
        self.remainder: Remainder = remainder
        self.total = nodes * gpus_per_node
        self.gains = 0  # how often GPUs have become free; what did not fit cannot fit before it grows
        self._free = [gpus_per_node] * nodes
        self._buckets = [0] * gpus_per_node + [(1 << nodes) - 1]

    def copy(self) -> Self:
        """Return a copy to plan on."""
        other = type(self).__new__(type(self))
        other.gpus_per_node = self.gpus_per_node
        other.remainder = self.remainder
        other.total = self.total
        other.gains = self.gains
        other._free = self._free[:]
        other._buckets = self._buckets[:]
        return other

    def on_node(self, node: int) -> int:
        """Return the free GPUs of a node, withdrawn or not."""
        free = self._free[node]
        return free if free >= 0 else free + self.gpus_per_node + 1

    @property
    def has_equal_nodes(self) -> bool:
        """Whether all nodes have `gpus_per_node`."""
        return True

    def size_of(self, node: int) -> int:
        """Return the GPUs that a node has, free or not."""
        return self.gpus_per_node

    def largest(self, among: int | None = None) -> int:
        """Return the GPUs of the largest of these nodes (None: of all), on offer or not; 0 of none."""
        return self.gpus_per_node if among is None or among & ((1 << len(self._free)) - 1) else 0

    def per_node(self) -> list[int]:
        """Return a new list of each node's free GPUs; below zero for a withdrawn node."""
        return self._free[:]

    @property
    def nodes(self) -> int:
        """How many nodes there are, withdrawn ones included."""
        return len(self._free)

    @property
    def idle_count(self) -> int:
        """How many nodes are present and wholly idle."""
        return self._buckets[self.gpus_per_node].bit_count()

    def idle_nodes(self) -> list[int]:
        """Return the nodes that are present and wholly idle, lowest index first."""
        bucket = self._buckets[self.gpus_per_node]
        idle = []
        while bucket:
            lowest = bucket & -bucket
            idle.append(lowest.bit_length() - 1)
            bucket ^= lowest
        return idle

    # -- nodes that leave and come back ----------------------------------------------------------------------
    # A withdrawn node's count is kept below zero: -1 is idle, -1 - n has n GPUs in use.

    def is_present(self, node: int) -> bool:
        """Whether a node's free GPUs are on offer."""
        return self._free[node] >= 0

    def withdraw(self, node: int) -> None:
        """Offer a node's free GPUs no more; those in use come back to it unoffered. Idempotent."""
        free = self._free[node]
        if free >= 0:
            self._buckets[free] ^= 1 << node
            self.total -= free
            self._free[node] = free - self.gpus_per_node - 1

    def restore(self, node: int) -> None:
        """Offer a withdrawn node again. Idempotent."""
        if self._free[node] < 0:
            free = self.on_node(node)
            self._buckets[free] |= 1 << node
            self.total += free
            self.gains += 1
            self._free[node] = free

    def add_node(self) -> int:
        """Add an idle node, and return its index."""
        node = len(self._free)
        self._free.append(-1)
        self.restore(node)
        return node

    def find(self, gpus: int, nodes: int | None = None) -> Placement | None:
        """Return where a gang of `gpus` would go, or None when it does not fit now; takes nothing.

        `nodes`: on these only, as one integer with bit *i* for node *i* (`JobView.nodes`); None: on any.
        """
        if gpus > self.total:
            return None
        if nodes is not None:
            return self._find_among(gpus, nodes)
        size = self.gpus_per_node
        buckets = self._buckets
        if gpus <= size:
            for free in range(gpus, size + 1):
                bucket = buckets[free]
                if bucket:
                    return (((bucket & -bucket).bit_length() - 1, gpus),)
            return None
        whole, rest = divmod(gpus, size)
        idle = buckets[size]
        if idle.bit_count() < whole:
            return None
        taken = []
        for _ in range(whole):
            lowest = idle & -idle
            taken.append((lowest.bit_length() - 1, size))
            idle ^= lowest
        if rest:
            node = self._remainder_node(rest, idle)
            if node is None:
                return None
            taken.append((node, rest))
        return tuple(taken)

    def _remainder_node(self, gpus: int, idle: int) -> int | None:
        """Return the node for the remainder; `idle` are the idle nodes that the whole part left."""
        size = self.gpus_per_node
        fits = range(gpus, size + 1)
        for free in fits if self.remainder == "fullest" else reversed(fits):
            bucket = idle if free == size else self._buckets[free]
            if bucket:
                return (bucket & -bucket).bit_length() - 1
        return None

    def _find_among(self, gpus: int, nodes: int) -> Placement | None:
        """Find a place on these nodes: one that holds all, or whole idle nodes and one for the remainder.

        A gang that one of the nodes could hold, were it idle, is not split. What is larger takes whole idle
        nodes, the largest first, until one node holds the rest.
        """
        taken: list[tuple[int, int]] = []
        may_split = gpus > self.largest(nodes)
        while True:
            node = self.fullest(gpus, nodes, freest=bool(taken) and self.remainder == "freest")
            if node is not None:
                return (*taken, (node, gpus))
            whole = self._largest_idle(nodes) if may_split else None
            if whole is None:
                return None
            node, size = whole
            taken.append(whole)
            gpus -= size
            nodes &= ~(1 << node)

    def _largest_idle(self, among: int) -> tuple[int, int] | None:
        """Return the largest idle one of these nodes, the lowest index on ties, and its GPUs."""
        idle = self._buckets[self.gpus_per_node] & among
        return ((idle & -idle).bit_length() - 1, self.gpus_per_node) if idle else None

    # -- some of the nodes, as one integer with bit *i* for node *i* -----------------------------------------

    def fullest(self, gpus: int, among: int, *, freest: bool = False) -> int | None:
        """Return the fullest (or freest) of these nodes with so many free GPUs, the lowest on ties."""
        buckets = self._buckets[gpus:]
        for bucket in reversed(buckets) if freest else buckets:
            fitting = bucket & among
            if fitting:
                return (fitting & -fitting).bit_length() - 1
        return None

    def free_on(self, among: int) -> int:
        """Return the free GPUs of these nodes together."""
        return sum([free * (bucket & among).bit_count() for free, bucket in enumerate(self._buckets)])

    def idle(self, among: int) -> int:
        """Return those of these nodes that are present and wholly idle."""
        return self._buckets[self.gpus_per_node] & among

    def take(self, placement: Placement) -> None:
        """Occupy the GPUs of a placement; raises ValueError when a node has fewer free."""
        free, buckets = self._free, self._buckets
        for node, gpus in placement:
            had = free[node]
            if gpus > had:
                raise ValueError(f"node {node} has {had} free GPUs, not {gpus}")
            bit = 1 << node
            buckets[had] ^= bit
            buckets[had - gpus] |= bit
            free[node] = had - gpus
            self.total -= gpus

    def give(self, placement: Placement) -> None:
        """Free the GPUs of a placement; raises ValueError when they were not occupied."""
        free, buckets = self._free, self._buckets
        self.gains += 1
        for node, gpus in placement:
            had = free[node]
            if had < 0 and had + gpus < 0:  # withdrawn: not on offer
                free[node] = had + gpus
                continue
            if had < 0 or had + gpus > self.gpus_per_node:
                had = self.on_node(node)
                raise ValueError(f"node {node} has {had} free GPUs and cannot get {gpus} more")
            bit = 1 << node
            buckets[had] ^= bit
            buckets[had + gpus] |= bit
            free[node] = had + gpus
            self.total += gpus

    def place(self, gpus: int, nodes: int | None = None) -> Placement | None:
        """Find a place and occupy it; None when the gang does not fit now."""
        placement = self.find(gpus, nodes)
        if placement is not None:
            self.take(placement)
        return placement
