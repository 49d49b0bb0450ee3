"""Consolidated gang placement: all GPUs of a job at once, on as few nodes as possible.

Rules (Lucid section 3.2, Helios section 4.2.2; the tie-breaks are those of the authors' simulators), where "a
node" is any of those that a job may use:

- a gang that one node could hold, were it idle, goes to one: of those with enough free GPUs the one with the
  fewest, the lowest index on ties. It is never split, and waits for such a node;
- a larger one takes whole idle nodes, the largest first and the lowest index on ties, until one further node
  holds the rest: no more nodes than it needs of those that are free now.

Nodes are kept by their number of free GPUs, all nodes of a number as one set (`node_bits`), and so are the
nodes of a placement: a gang takes its whole nodes at once, a pool of GPUs without nodes is a single number,
and a copy to plan on costs little. Nodes can leave and come back (drained, failed, lent): a withdrawn node is
not on offer.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, Self, overload

from simulator.cluster.node_bits import lowest, lowest_of, nodes_of
from simulator.cluster.nodes_by_free import NodesByFree

# GPUs, and the nodes that they may be on, bit *i* for node *i*; None: all.
Demand = tuple[int, int | None]

# Which node takes the remainder of a job larger than a node: the fullest that fits (keeps idle nodes whole),
# or the freest, as the Lucid artifact does (the placement fails if that one does not fit).
Remainder = Literal["fullest", "freest"]


class Placement(Sequence[tuple[int, int]]):
    """The GPUs of a job: a sequence of (node, GPUs on it), one pair a node.

    Kept as `blocks` of nodes with equally many GPUs, (nodes as a set, GPUs on each), in the order of the
    pairs, which are made when they are asked for. `gpus` is how many it has in all.
    """

    __slots__ = ("blocks", "gpus", "node")

    def __init__(self, blocks: tuple[tuple[int, int], ...], gpus: int) -> None:
        """Blocks as `of` makes them: those with equally many GPUs that follow in order of nodes are one."""
        self.blocks = blocks
        self.gpus = gpus
        # The node, where it is a single one.
        self.node = blocks[0][0].bit_length() - 1 if blocks and blocks[0][1] == gpus else None

    @classmethod
    def of(cls, pairs: Iterable[tuple[int, int]]) -> "Placement":
        """Return the placement that these pairs are."""
        if isinstance(pairs, Placement):
            return pairs
        blocks: list[tuple[int, int]] = []
        total = 0
        for node, gpus in pairs:
            add_block(blocks, 1 << node, gpus)
            total += gpus
        return cls(tuple(blocks), total)

    @property
    def nodes(self) -> int:
        """Its nodes, as a set."""
        if len(self.blocks) == 1:
            return self.blocks[0][0]
        nodes = 0
        for block, _ in self.blocks:
            nodes |= block
        return nodes

    def __iter__(self) -> Iterator[tuple[int, int]]:
        if self.node is not None:
            yield self.node, self.gpus
            return
        for nodes, gpus in self.blocks:
            for node in nodes_of(nodes):
                yield node, gpus

    def __len__(self) -> int:
        return sum([nodes.bit_count() for nodes, _ in self.blocks])

    def __bool__(self) -> bool:
        return bool(self.blocks)

    @overload
    def __getitem__(self, index: int) -> tuple[int, int]: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[tuple[int, int]]: ...

    def __getitem__(self, index: int | slice) -> tuple[int, int] | Sequence[tuple[int, int]]:
        return tuple(self)[index]

    def __eq__(self, other: object) -> bool:
        """Compare with another placement, or with a tuple of pairs."""
        if isinstance(other, Placement):
            return self.blocks == other.blocks
        return tuple(self) == other

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))


NOWHERE = Placement((), 0)


def add_block(blocks: list[tuple[int, int]], nodes: int, gpus: int) -> None:
    """Add nodes with so many GPUs each after the others."""
    if blocks and blocks[-1][1] == gpus and lowest(nodes) > blocks[-1][0]:
        blocks[-1] = (blocks[-1][0] | nodes, gpus)
    else:
        blocks.append((nodes, gpus))


def exchanged(before: Placement, after: Placement) -> tuple[Placement, Placement]:
    """Return the GPUs that are given up and those that are newly taken, going from one place to another."""
    return without(before, after), without(after, before)


def without(placement: Placement, other: Placement) -> Placement:
    """Return the GPUs of a placement that another does not have."""
    if not other or not placement:
        return placement
    held = dict(other)
    return Placement.of(
        [(node, gpus - held.get(node, 0)) for node, gpus in placement if gpus > held.get(node, 0)]
    )


def shrunk(placement: Placement, gpus: int) -> Placement:
    """Keep so many GPUs of a placement, where it holds most."""
    kept: dict[int, int] = {}
    for node, held in sorted(placement, key=lambda part: (-part[1], part[0])):
        take = min(held, gpus)
        if take:
            kept[node] = take
            gpus -= take
    return Placement.of((node, kept[node]) for node, _ in placement if node in kept)


def nodes_in(nodes: int | None, count: int) -> list[int]:
    """Return the nodes that an integer stands for, bit *i* for node *i*, of so many; None stands for all."""
    return list(range(count)) if nodes is None else nodes_of(nodes & ((1 << count) - 1))


def lies_within(placement: Placement, nodes: int | None) -> bool:
    """Whether a place is on these nodes only, given as `nodes_in` reads them."""
    return nodes is None or not placement.nodes & ~nodes


class FreeGpus:
    """The free GPUs of a set of nodes, of one size or of several; `gpus_per_node` is that of the largest.

    Sets of nodes are integers with bit *i* for node *i*.
    """

    __slots__ = ("_all", "_away", "_offered", "_sizes", "gains", "gpus_per_node", "remainder", "total")

    def __init__(self, nodes: int, gpus_per_node: int, remainder: Remainder = "fullest") -> None:
        """So many idle nodes of one size."""
        self.gpus_per_node = gpus_per_node
        self.remainder: Remainder = remainder
        self.total = nodes * gpus_per_node
        self.gains = 0  # how often GPUs have become free; what did not fit cannot fit before it grows
        self._all = (1 << nodes) - 1
        self._sizes = [(gpus_per_node, self._all)]  # (size, its nodes), the largest first; never changed
        self._offered = NodesByFree()
        self._away = NodesByFree()  # the withdrawn ones
        if nodes:
            self._offered.add(self._all, gpus_per_node)

    @classmethod
    def of_sizes(cls, sizes: Sequence[int], remainder: Remainder = "fullest") -> Self:
        """Return those of one idle node of each of these sizes, at least one."""
        made = cls(0, max(sizes), remainder)
        nodes_of_size = dict.fromkeys(sorted(set(sizes), reverse=True), 0)
        for node, size in enumerate(sizes):
            nodes_of_size[size] |= 1 << node
        made._sizes = list(nodes_of_size.items())
        made._all = (1 << len(sizes)) - 1
        made.total = sum(sizes)
        for size, nodes in made._sizes:
            made._offered.add(nodes, size)
        return made

    def copy(self) -> Self:
        """Return a copy to plan on."""
        other = type(self).__new__(type(self))
        other.gpus_per_node = self.gpus_per_node
        other.remainder = self.remainder
        other.total = self.total
        other.gains = self.gains
        other._all = self._all
        other._sizes = self._sizes
        other._offered = self._offered.copy()
        other._away = self._away.copy()
        return other

    # -- what nodes there are, on offer or not ---------------------------------------------------------------

    @property
    def nodes(self) -> int:
        """How many nodes there are, withdrawn ones included."""
        return self._all.bit_length()

    @property
    def present(self) -> int:
        """The nodes that are on offer, as a set."""
        present = self._all
        for _, nodes in self._away:
            present ^= nodes
        return present

    @property
    def has_equal_nodes(self) -> bool:
        """Whether all nodes have `gpus_per_node`."""
        return len(self._sizes) == 1

    def by_size(self) -> list[tuple[int, int]]:
        """Return the nodes by their GPUs, free or not, the largest first: (GPUs, nodes)."""
        return self._sizes

    def size_of(self, node: int) -> int:
        """Return the GPUs that a node has, free or not."""
        return next(size for size, nodes in self._sizes if len(self._sizes) == 1 or nodes >> node & 1)

    def largest(self, among: int | None = None) -> int:
        """Return the GPUs of the largest of these nodes (None: of all), on offer or not; 0 of none."""
        if among is None:
            return self.gpus_per_node
        return next((size for size, nodes in self._sizes if nodes & among), 0)

    def on_node(self, node: int) -> int:
        """Return the free GPUs of a node, withdrawn or not; raises IndexError when there is no such node."""
        free = self._offered.on(node)
        if free is None:
            free = self._away.on(node)
        if free is None:
            raise IndexError(f"there is no node {node}")
        return free

    def offer(self) -> tuple[list[int], list[int]]:
        """Return what is on offer, in lists that are equal if it is the same at another time."""
        return self._offered.free[:], self._offered.nodes[:]

    def per_node(self) -> list[int]:
        """Return each node's free GPUs; below zero for a withdrawn node."""
        listed = [-1] * self.nodes
        for free, nodes in self._offered:
            for node in nodes_of(nodes):
                listed[node] = free
        return listed

    # -- nodes that leave and come back ----------------------------------------------------------------------

    def is_present(self, node: int) -> bool:
        """Whether a node's free GPUs are on offer."""
        return self._offered.on(node) is not None

    def withdraw(self, node: int) -> None:
        """Offer a node's free GPUs no more; those in use come back to it unoffered. Idempotent."""
        self.withdraw_all(1 << node)

    def withdraw_all(self, nodes: int) -> int:
        """Do so with a set of nodes; return how many free GPUs they have that were on offer."""
        gone = self._offered.hand_over(nodes, self._away)
        self.total -= gone
        return gone

    def restore(self, node: int) -> None:
        """Offer a withdrawn node again. Idempotent."""
        if not self.is_present(node):
            self.total += self._away.hand_over(1 << node, self._offered)
            self.gains += 1

    def add_node(self) -> int:
        """Add an idle node as large as the largest, and return its index."""
        node = self.nodes
        largest, nodes = self._sizes[0]
        self._sizes = [(largest, nodes | 1 << node), *self._sizes[1:]]
        self._all |= 1 << node
        self._offered.add(1 << node, largest)
        self.total += largest
        self.gains += 1
        return node

    # -- where a gang goes -----------------------------------------------------------------------------------

    def find(self, gpus: int, nodes: int | None = None) -> Placement | None:
        """Return where a gang of `gpus` would go, or None when it does not fit now; takes nothing.

        `nodes`: on these only, as one integer with bit *i* for node *i* (`JobView.nodes`); None: on any.
        """
        if gpus > self.total:
            return None
        free, sets = self._offered.free, self._offered.nodes
        largest = self.gpus_per_node
        if nodes is not None:
            sets = [each & nodes for each in sets]
            largest = self.largest(nodes)
        if gpus <= largest:
            # No set is empty as it is kept, but any may be once it is cut to `nodes`: hence a loop.
            for at in range(bisect_left(free, gpus), len(free)):
                fitting = sets[at]
                if fitting:
                    return Placement(((lowest(fitting), gpus),), gpus)
            return None
        if len(self._sizes) == 1:
            return self._find_on_equal(gpus, free, sets)
        return self._find_on_unequal(gpus, free, sets)

    def _find_on_equal(self, gpus: int, free: list[int], sets: list[int]) -> Placement | None:
        """Find whole idle nodes and one for the rest, among sets of nodes with so many free GPUs."""
        size = self.gpus_per_node
        idle = sets[-1] if free[-1] == size else 0
        whole, rest = divmod(gpus, size)
        if idle.bit_count() < whole:
            return None
        taken = lowest_of(idle, whole)
        if not rest:
            return Placement(((taken, size),), gpus)
        # What is left of the idle nodes comes last: the rest goes to a node in use if one has room.
        sets = [*sets[:-1], idle ^ taken]
        ats = range(bisect_left(free, rest), len(free))
        for at in ats if self.remainder == "fullest" else reversed(ats):
            fitting = sets[at]
            if fitting:
                return Placement(((taken, size), (lowest(fitting), rest)), gpus)
        return None

    def _find_on_unequal(self, gpus: int, free: list[int], sets: list[int]) -> Placement | None:
        """The same on nodes of several sizes, the largest idle ones first."""
        blocks: list[tuple[int, int]] = []
        sets = sets[:]
        rest = gpus
        while True:
            ats = range(bisect_left(free, rest), len(free))
            for at in ats if self.remainder == "fullest" else reversed(ats):
                fitting = sets[at]
                if fitting:
                    add_block(blocks, lowest(fitting), rest)
                    return Placement(tuple(blocks), gpus)
            for size, of_size in self._sizes:
                at = bisect_left(free, size)
                idle = sets[at] & of_size if at < len(free) and free[at] == size else 0
                if idle:
                    break
            else:
                return None
            most = max(each for each, nodes in zip(free, sets, strict=True) if nodes)
            # So many before a further node can hold the rest.
            count = min(idle.bit_count(), -(-(rest - most) // size))
            taken = lowest_of(idle, count)
            sets[at] ^= taken
            add_block(blocks, taken, size)
            rest -= count * size

    def fits(self, gpus: int, nodes: int | None = None) -> bool:
        """Whether a gang fits now."""
        if nodes is None and gpus <= self.gpus_per_node:
            return gpus <= self._offered.most
        return self.find(gpus, nodes) is not None

    def place(self, gpus: int, nodes: int | None = None) -> Placement | None:
        """Find a place and occupy it; None when the gang does not fit now."""
        placement = self.find(gpus, nodes)
        if placement is not None:
            self.take(placement)
        return placement

    # -- some of the nodes -----------------------------------------------------------------------------------

    @property
    def idle_count(self) -> int:
        """How many nodes are present and wholly idle."""
        return self.idle(self._all).bit_count()

    def idle_nodes(self) -> list[int]:
        """Return the nodes that are present and wholly idle, lowest index first."""
        return nodes_of(self.idle(self._all))

    def idle(self, among: int) -> int:
        """Return those of these nodes that are present and wholly idle."""
        idle = 0
        for size, nodes in self._sizes:
            idle |= self._offered.having(size) & nodes
        return idle & among

    def fullest(self, gpus: int, among: int) -> int | None:
        """Return the fullest of these nodes with so many free GPUs, the lowest on ties."""
        for free, nodes in self._offered:
            fitting = nodes & among
            if fitting and free >= gpus:
                return lowest(fitting).bit_length() - 1
        return None

    def free_on(self, among: int) -> int:
        """Return the free GPUs of these nodes together."""
        return sum([free * (nodes & among).bit_count() for free, nodes in self._offered])

    def having(self, gpus: int, *, withdrawn: bool = False) -> int:
        """Return the nodes that offer so many free GPUs at least, or that have them and do not offer them."""
        having = 0
        for free, nodes in self._away if withdrawn else self._offered:
            if free >= gpus:
                having |= nodes
        return having

    def by_free(self, among: int) -> list[tuple[int, int]]:
        """Return these nodes by the free GPUs that each offers: (GPUs, nodes)."""
        return [(free, nodes & among) for free, nodes in self._offered if nodes & among]

    def limit(self, among: int, most: int) -> None:
        """Offer no more than so many GPUs of each of these nodes."""
        self.total -= self._offered.lower(among, most)

    # -- GPUs that come and go -------------------------------------------------------------------------------

    def take(self, placement: Iterable[tuple[int, int]]) -> None:
        """Occupy the GPUs of a placement; raises ValueError when a node has fewer free."""
        if not isinstance(placement, Placement):
            placement = Placement.of(placement)
        for nodes, gpus in placement.blocks:
            missing = self._offered.move(nodes, -gpus, self.gpus_per_node)
            if missing:
                node = nodes_of(missing)[0]
                has = self.on_node(node) if self.is_present(node) else "no"
                raise ValueError(f"node {node} has {has} free GPUs, not {gpus}")
        self.total -= placement.gpus

    def give(self, placement: Iterable[tuple[int, int]]) -> None:
        """Free the GPUs of a placement; raises ValueError when they were not occupied."""
        if not isinstance(placement, Placement):
            placement = Placement.of(placement)
        self.gains += 1
        # As if all were on offer: `_give_away` takes off what lies on withdrawn nodes.
        self.total += placement.gpus
        equal = len(self._sizes) == 1
        for nodes, gpus in placement.blocks:
            for size, of_size in self._sizes:
                missing = self._offered.move(nodes if equal else nodes & of_size, gpus, size)
                if missing:
                    self._give_away(missing, gpus, size)

    def _give_away(self, nodes: int, gpus: int, size: int) -> None:
        """Free GPUs of withdrawn nodes, which are not on offer."""
        missing = self._away.move(nodes, gpus, size)
        if missing:
            node = nodes_of(missing)[0]
            had = self.on_node(node)
            raise ValueError(f"node {node} has {had} free GPUs and cannot get {gpus} more")
        self.total -= nodes.bit_count() * gpus


def free_gpus(sizes: Sequence[int], gpus_per_node: int, remainder: Remainder = "fullest") -> FreeGpus:
    """Return the free GPUs of idle nodes of these sizes; nodes that come later have the largest size.

    Without nodes, those have `gpus_per_node`.
    """
    return FreeGpus.of_sizes(sizes, remainder) if sizes else FreeGpus(0, gpus_per_node, remainder)
