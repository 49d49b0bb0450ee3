"""Consolidated placement on equal nodes: the rules of `simulator/cluster/placement.py`, on bits.

A *row* is a set of nodes: those of a pool, or a second set of them to plan on. For each number of free GPUs
it has the set of nodes with so many, and the set of these numbers. A job holds whole nodes, as a chain from
node to node, and the rest of its GPUs on one more node.
"""

from simulator.compiled.loops.bitsets import highest_below, insert, lowest, lowest_from, remove
from simulator.compiled.loops.jit import compiled, inlined
from simulator.compiled.loops.world import (
    BITS_AT,
    COUNT_AT,
    INDEX_AT,
    INDEX_WORDS,
    JOURNAL,
    JOURNAL_AT,
    NODE_AT,
    ROW,
    SIZE,
    STRIDE,
    TOTAL,
    WORDS,
    Held,
    Nodes,
)


@compiled
def set_free(nodes: Nodes, row: int, node: int, gpus: int) -> None:
    """Let a node have so many free GPUs; below zero it is not on offer: `-1 - n` has n GPUs in use."""
    at = row * ROW
    rows, bits, count = nodes.rows, nodes.bits, nodes.count
    place = rows[at + NODE_AT] + node
    had = nodes.free[place]
    if had == gpus:
        return
    nodes.free[place] = gpus
    words, stride, sets = rows[at + WORDS], rows[at + STRIDE], rows[at + BITS_AT]
    counts, index, index_words = rows[at + COUNT_AT], rows[at + INDEX_AT], rows[at + INDEX_WORDS]
    if had >= 0:
        remove(bits, sets + had * stride, words, node)
        count[counts + had] -= 1
        if count[counts + had] == 0:
            remove(bits, index, index_words, had)
        rows[at + TOTAL] -= had
    if gpus >= 0:
        insert(bits, sets + gpus * stride, words, node)
        if count[counts + gpus] == 0:
            insert(bits, index, index_words, gpus)
        count[counts + gpus] += 1
        rows[at + TOTAL] += gpus


@inlined
def change_free(nodes: Nodes, row: int, node: int, gpus: int) -> None:
    """Let a pool's node have so many free GPUs, and note that the row to plan on is not up to date."""
    set_free(nodes, row, node, gpus)
    note(nodes, row, node)


@inlined
def note(nodes: Nodes, row: int, node: int) -> None:
    """Note that the row to plan on may differ from a pool's own at a node."""
    at = row * ROW
    place = nodes.rows[at + NODE_AT] + node
    if nodes.dirty[place] == 0:
        nodes.dirty[place] = 1
        nodes.journal[nodes.rows[at + JOURNAL_AT] + nodes.rows[at + JOURNAL]] = node
        nodes.rows[at + JOURNAL] += 1


@inlined
def room(nodes: Nodes, row: int) -> int:
    """Return the largest gang that fits: all smaller ones fit, too."""
    at = row * ROW
    rows = nodes.rows
    size = rows[at + SIZE]
    idle = nodes.count[rows[at + COUNT_AT] + size]
    fullest = highest_below(nodes.bits, rows[at + INDEX_AT], rows[at + INDEX_WORDS], size)
    return idle * size + max(0, fullest)


@inlined
def fits(nodes: Nodes, row: int, gpus: int) -> bool:
    """Whether a gang fits now."""
    at = row * ROW
    rows = nodes.rows
    if gpus > rows[at + TOTAL]:
        return False
    size = rows[at + SIZE]
    if gpus <= size:
        return lowest_from(nodes.bits, rows[at + INDEX_AT], rows[at + INDEX_WORDS], gpus) >= 0
    whole, rest = gpus // size, gpus % size
    idle = nodes.count[rows[at + COUNT_AT] + size]
    if idle < whole:
        return False
    if rest == 0 or idle > whole:
        return True
    free = lowest_from(nodes.bits, rows[at + INDEX_AT], rows[at + INDEX_WORDS], rest)
    return 0 <= free < size


@inlined
def _node_for(nodes: Nodes, row: int, gpus: int, freest: bool) -> int:
    """Return the fullest (or freest) node with so many free GPUs, the lowest on ties; there is one."""
    at = row * ROW
    rows = nodes.rows
    index, index_words = rows[at + INDEX_AT], rows[at + INDEX_WORDS]
    if freest:
        free = highest_below(nodes.bits, index, index_words, rows[at + SIZE] + 1)
    else:
        free = lowest_from(nodes.bits, index, index_words, gpus)
    return lowest(nodes.bits, rows[at + BITS_AT] + free * rows[at + STRIDE], rows[at + WORDS])


@compiled
def place(nodes: Nodes, held: Held, row: int, pool: int, chained: int, job: int) -> None:
    """Let a job that fits hold GPUs of a row, and write down which, in the chain of the row `chained`.

    `pool` is the row that jobs run on.
    """
    at = row * ROW
    rows = nodes.rows
    size = rows[at + SIZE]
    gpus = held.gpus[job]
    whole, rest = 0, gpus
    if gpus > size:
        whole, rest = gpus // size, gpus % size
    held.whole[job] = whole
    chain_at = rows[chained * ROW + NODE_AT]
    idle_at = rows[at + BITS_AT] + size * rows[at + STRIDE]
    last = -1
    for _ in range(whole):
        node = lowest(nodes.bits, idle_at, rows[at + WORDS])
        set_free(nodes, row, node, 0)
        note(nodes, pool, node)
        if last < 0:
            held.first[job] = node
        else:
            nodes.chain[chain_at + last] = node
        last = node
    held.rest[job] = -1
    if rest:
        node = _node_for(nodes, row, rest, nodes.freest != 0 and whole > 0)
        held.rest[job] = node
        set_free(nodes, row, node, nodes.free[rows[at + NODE_AT] + node] - rest)
        note(nodes, pool, node)


@compiled
def give(nodes: Nodes, held: Held, pool: int, chained: int, job: int, sign: int) -> None:
    """Free the GPUs that a job holds in its pool (`sign` 1), or take them again (-1)."""
    rows = nodes.rows
    chain_at = rows[chained * ROW + NODE_AT]
    node_at, size = rows[pool * ROW + NODE_AT], rows[pool * ROW + SIZE]
    node = held.first[job]
    for _ in range(held.whole[job]):
        change_free(nodes, pool, node, nodes.free[node_at + node] + sign * size)
        node = nodes.chain[chain_at + node]
    node = held.rest[job]
    if node >= 0:
        rest = held.gpus[job] - held.whole[job] * size
        change_free(nodes, pool, node, nodes.free[node_at + node] + sign * rest)


@compiled
def keep_chain(nodes: Nodes, held: Held, pool: int, chained: int, job: int) -> None:
    """Let a job's whole nodes be chained in its pool, and no longer in the row `chained`."""
    to_at, from_at = nodes.rows[pool * ROW + NODE_AT], nodes.rows[chained * ROW + NODE_AT]
    node = held.first[job]
    for _ in range(held.whole[job] - 1):
        following = nodes.chain[from_at + node]
        nodes.chain[to_at + node] = following
        node = following


@compiled
def catch_up(nodes: Nodes, pool: int, row: int) -> None:
    """Let a row to plan on be as the pool's own, and reserve nothing."""
    at = pool * ROW
    rows = nodes.rows
    journal_at, own_at = rows[at + JOURNAL_AT], rows[at + NODE_AT]
    for i in range(rows[at + JOURNAL]):
        node = nodes.journal[journal_at + i]
        set_free(nodes, row, node, nodes.free[own_at + node])
        nodes.dirty[own_at + node] = 0
        nodes.spare[own_at + node] = -1
    rows[at + JOURNAL] = 0


@inlined
def later_at(nodes: Nodes, at: int, epoch: int) -> int:
    """Return the free GPUs of a node at the moment that a look ahead has come to; `at`: its place."""
    if nodes.stamp[at] != epoch:
        nodes.stamp[at] = epoch
        nodes.later[at] = nodes.free[at]
    return nodes.later[at]


@inlined
def partly_free(nodes: Nodes, pool: int, gpus: int) -> int:
    """Return how many nodes that are not idle have so many free GPUs."""
    counts_at, found = nodes.rows[pool * ROW + COUNT_AT], 0
    for free in range(gpus, nodes.rows[pool * ROW + SIZE]):
        found += nodes.count[counts_at + free]
    return found


@inlined
def free_later(nodes: Nodes, held: Held, pool: int, job: int, epoch: int, gpus: int) -> tuple[int, int]:
    """Free a job's GPUs in a look ahead; return how many more nodes are idle then, and how many more that
    are not have so many free GPUs.
    """
    own_at, size = nodes.rows[pool * ROW + NODE_AT], nodes.rows[pool * ROW + SIZE]
    idle, partly = 0, 0
    node = held.first[job]
    for _ in range(held.whole[job]):
        nodes.later[own_at + node] = later_at(nodes, own_at + node, epoch) + size
        idle += nodes.later[own_at + node] == size
        node = nodes.chain[own_at + node]
    node = held.rest[job]
    if node >= 0:
        had = later_at(nodes, own_at + node, epoch)
        has = had + held.gpus[job] - held.whole[job] * size
        nodes.later[own_at + node] = has
        idle += has == size
        # A node on which a job ends was not idle: `had` is below `size`.
        partly += (gpus <= has and has < size) - (gpus <= had)
    return idle, partly


@inlined
def plan_later(nodes: Nodes, held: Held, pool: int, row: int, job: int) -> None:
    """Let a row to plan on have at a job's nodes what the look ahead has come to."""
    own_at = nodes.rows[pool * ROW + NODE_AT]
    node = held.first[job]
    for _ in range(held.whole[job]):
        note(nodes, pool, node)
        set_free(nodes, row, node, nodes.later[own_at + node])
        node = nodes.chain[own_at + node]
    node = held.rest[job]
    if node >= 0:
        note(nodes, pool, node)
        set_free(nodes, row, node, nodes.later[own_at + node])


@compiled
def withdraw(nodes: Nodes, pool: int, node: int) -> None:
    """Offer a node's free GPUs no more; those in use come back to it unoffered."""
    free = nodes.free[nodes.rows[pool * ROW + NODE_AT] + node]
    if free >= 0:
        change_free(nodes, pool, node, free - nodes.rows[pool * ROW + SIZE] - 1)


@compiled
def restore(nodes: Nodes, pool: int, node: int) -> None:
    """Offer a withdrawn node again."""
    free = nodes.free[nodes.rows[pool * ROW + NODE_AT] + node]
    if free < 0:
        change_free(nodes, pool, node, free + nodes.rows[pool * ROW + SIZE] + 1)
