"""EASY backfilling: the rules of `simulator/mechanisms/backfill.py`, on arrays.

A pool's second row of nodes has what the head will not need; between two decisions it lags behind the pool's
own, and the nodes that may differ are in its journal.
"""

from simulator.compiled.loops.demands import belief_of, first, shortest
from simulator.compiled.loops.jit import compiled, inlined
from simulator.compiled.loops.nodes import catch_up, give, place, room, set_free
from simulator.compiled.loops.reservation import reserve
from simulator.compiled.loops.runs import begin_run, follow
from simulator.compiled.loops.world import JOURNAL, JOURNAL_AT, NODE_AT, POOLS, ROW, SIZE, Nodes, World

ANY_LENGTH_S = 1.7976931348623157e308  # every belief is finite


@inlined
def _withhold_noted(nodes: Nodes, pool: int, row: int) -> None:
    """Leave in the row to plan on what is free now and will be to spare, at all nodes that may differ."""
    rows = nodes.rows
    journal_at = rows[pool * ROW + JOURNAL_AT]
    for i in range(rows[pool * ROW + JOURNAL]):
        _withhold(nodes, pool, row, nodes.journal[journal_at + i])


@inlined
def _withhold(nodes: Nodes, pool: int, row: int, node: int) -> None:
    """Let a node have what is free now, and of a reserved one no more than will be to spare."""
    at = nodes.rows[pool * ROW + NODE_AT] + node
    free, spare = nodes.free[at], nodes.spare[at]
    set_free(nodes, row, node, spare if 0 <= spare < free else free)


@inlined
def _settle(world: World, pool: int, row: int, job: int, lasting: bool) -> None:
    """Let a job hold what was found for it, of the spare of reserved nodes if it outlasts the shadow time."""
    nodes, held = world.nodes, world.held
    own_at, size = nodes.rows[pool * ROW + NODE_AT], nodes.rows[pool * ROW + SIZE]
    node = held.first[job]
    for _ in range(held.whole[job]):
        if lasting and nodes.spare[own_at + node] >= 0:
            nodes.spare[own_at + node] -= size
        _withhold(nodes, pool, row, node)
        node = nodes.chain[own_at + node]
    node = held.rest[job]
    if node >= 0:
        if lasting and nodes.spare[own_at + node] >= 0:
            nodes.spare[own_at + node] -= held.gpus[job] - held.whole[job] * size
        _withhold(nodes, pool, row, node)


@inlined
def _candidate(world: World, pool: int, row: int, window_s: float) -> int:
    """Return the job that fills a gap next; -1: none can."""
    demands, by_length = world.demands, world.gaps.shortest_first
    free, unneeded = room(world.nodes, pool), room(world.nodes, row)
    best, best_s = -1, 0.0
    for kind in range(world.gaps.from_kind[pool], world.gaps.to_kind[pool]):
        gpus = demands.gpus[kind]
        if gpus > free:
            break
        if demands.waiting[kind] == 0:
            continue
        limit_s = ANY_LENGTH_S if gpus <= unneeded else window_s
        job = shortest(demands, kind, limit_s) if by_length else first(demands, kind, limit_s)
        if job < 0:
            continue
        belief_s = belief_of(demands, job) if by_length else 0.0
        if best < 0 or belief_s < best_s or (belief_s == best_s and job < best):
            best, best_s = job, belief_s
    return best


@inlined
def _any_fits(world: World, pool: int) -> bool:
    """Whether GPUs are free for any job that waits."""
    kind, last = world.gaps.from_kind[pool], world.gaps.to_kind[pool]
    while kind < last and world.demands.waiting[kind] == 0:
        kind += 1
    return kind < last and world.demands.gpus[kind] <= room(world.nodes, pool)


@compiled
def fill(world: World, pool: int, head: int, now_s: float, count: int) -> int:
    """Start what fits around the reservation of a head.

    `count` jobs have begun at this decision; returns how many have then.
    """
    nodes, runs, shadow_s = world.nodes, world.runs, world.gaps.shadow_s
    if not _any_fits(world, pool):
        return count
    row = world.counts[POOLS] + pool
    # The reservation stands while nothing has voided it (below 0) and no belief was outlived.
    late = runs.length[pool] > 0 and runs.end_s[runs.at[pool]] <= now_s
    if late or shadow_s[pool] < 0:
        follow(world, pool, now_s)
        catch_up(nodes, pool, row)
        shadow_s[pool] = reserve(world, pool, row, head)
        _withhold_noted(nodes, pool, row)
    window_s = shadow_s[pool] - now_s
    while True:
        job = _candidate(world, pool, row, window_s)
        if job < 0:
            return count
        belief_s = belief_of(world.demands, job)
        lasting = belief_s > window_s
        if lasting:
            # Found among what the head will not need, then taken from the pool's own nodes.
            place(nodes, world.held, row, pool, pool, job)
            give(nodes, world.held, pool, pool, job, -1)
        else:
            place(nodes, world.held, pool, pool, pool, job)
        _settle(world, pool, row, job, lasting)
        begin_run(world, pool, job, belief_s, now_s)
        world.pools.begun[count] = job
        count += 1
