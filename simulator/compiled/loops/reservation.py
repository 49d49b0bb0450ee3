"""When and where the head of a queue will start, if runs end when they are believed to."""

from math import inf

from simulator.compiled.loops.jit import compiled, inlined
from simulator.compiled.loops.nodes import free_later, later_at, note, partly_free, place, plan_later
from simulator.compiled.loops.world import COUNT_AT, EPOCH, NODE_AT, ROW, SIZE, World


@inlined
def reserve(world: World, pool: int, row: int, head: int) -> float:
    """Reserve nodes for a head that does not fit, and return when it will start (s); infinite: never.

    What reserved nodes will have to spare is written down, and that they may differ in the row to plan on.
    """
    counts, rows = world.counts, world.nodes.rows
    counts[EPOCH] += 1
    if world.held.gpus[head] > rows[pool * ROW + SIZE]:
        return _reserve_nodes(world, pool, row, head, counts[EPOCH])
    return _reserve_on_node(world, pool, head, counts[EPOCH])


@compiled
def _reserve_on_node(world: World, pool: int, head: int, epoch: int) -> float:
    """Do so for a head that one node can take: of those that can first the fullest, the lowest on ties."""
    nodes, held, runs = world.nodes, world.held, world.runs
    own_at, size = nodes.rows[pool * ROW + NODE_AT], nodes.rows[pool * ROW + SIZE]
    gpus = held.gpus[head]
    i, last = runs.at[pool], runs.at[pool] + runs.length[pool]
    while i < last:
        begin, end_s, fits = i, runs.end_s[i], False
        while i < last and runs.end_s[i] == end_s:
            job = runs.jobs[i]
            i += 1
            node = held.first[job]
            for _ in range(held.whole[job]):
                later = later_at(nodes, own_at + node, epoch) + size
                nodes.later[own_at + node] = later
                fits = fits or later >= gpus
                node = nodes.chain[own_at + node]
            node = held.rest[job]
            if node >= 0:
                later = later_at(nodes, own_at + node, epoch) + held.gpus[job] - held.whole[job] * size
                nodes.later[own_at + node] = later
                fits = fits or later >= gpus
        if fits:
            node = _fullest_of(world, pool, begin, i, gpus)
            nodes.spare[own_at + node] = nodes.later[own_at + node] - gpus
            note(nodes, pool, node)
            return end_s
    return inf


@compiled
def _fullest_of(world: World, pool: int, begin: int, end: int, gpus: int) -> int:
    """Return the fullest node with so many free GPUs of those on which these runs end."""
    nodes, held = world.nodes, world.held
    own_at = nodes.rows[pool * ROW + NODE_AT]
    best, fewest = -1, 0
    for i in range(begin, end):
        job = world.runs.jobs[i]
        node = held.first[job]
        left = held.whole[job]
        while left >= 0:
            if left == 0:
                node = held.rest[job]
                if node < 0:
                    break
            later = nodes.later[own_at + node]
            if later >= gpus and (best < 0 or later < fewest or (later == fewest and node < best)):
                best, fewest = node, later
            node = nodes.chain[own_at + node]
            left -= 1
    return best


@compiled
def _reserve_nodes(world: World, pool: int, row: int, head: int, epoch: int) -> float:
    """Do so for a head that takes whole nodes, and the rest of its GPUs on one more."""
    nodes, held, runs = world.nodes, world.held, world.runs
    size = nodes.rows[pool * ROW + SIZE]
    whole, rest = held.gpus[head] // size, held.gpus[head] % size
    idle = nodes.count[nodes.rows[pool * ROW + COUNT_AT] + size]
    partly = partly_free(nodes, pool, rest)
    i, last = runs.at[pool], runs.at[pool] + runs.length[pool]
    while i < last:
        end_s = runs.end_s[i]
        # All ends of a moment before a look at what is free, as `simulator/mechanisms/backfill.py` has it.
        while i < last and runs.end_s[i] == end_s:
            job = runs.jobs[i]
            i += 1
            more_idle, more_partly = free_later(nodes, held, pool, job, epoch, rest)
            idle += more_idle
            partly += more_partly
        if idle > whole or (idle == whole and (rest == 0 or partly > 0)):
            _reserve_then(world, pool, row, head, i)
            return end_s
    return inf


@compiled
def _reserve_then(world: World, pool: int, row: int, head: int, end: int) -> None:
    """Reserve where the head will be placed when the runs before the one at `end` have ended."""
    nodes, held, runs = world.nodes, world.held, world.runs
    rows = nodes.rows
    own_at, row_at = rows[pool * ROW + NODE_AT], rows[row * ROW + NODE_AT]
    for i in range(runs.at[pool], end):
        plan_later(nodes, held, pool, row, runs.jobs[i])
    place(nodes, held, row, pool, row, head)
    node = held.first[head]
    for _ in range(held.whole[head]):
        nodes.spare[own_at + node] = nodes.free[row_at + node]
        node = nodes.chain[row_at + node]
    if held.rest[head] >= 0:
        nodes.spare[own_at + held.rest[head]] = nodes.free[row_at + held.rest[head]]
