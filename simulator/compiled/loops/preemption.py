"""Preemption to fit: the rules of `simulator/mechanisms/preemption.py`, on arrays.

Waiting jobs lie by GPU demand. What a decision would do is noted in `begun`: a job that starts as its number,
one that is preempted as its complement.
"""

from simulator.compiled.loops.jit import compiled, inlined
from simulator.compiled.loops.nodes import (
    catch_up,
    change_free,
    fits,
    free_later,
    give,
    later_at,
    partly_free,
    place,
    plan_later,
)
from simulator.compiled.loops.queues import drop_head, head
from simulator.compiled.loops.ranks import limit_of, renew_ranks
from simulator.compiled.loops.world import (
    COUNT_AT,
    EPOCH,
    EVICTED,
    NODE_AT,
    POOLS,
    ROW,
    SIZE,
    STARTING,
    World,
)

ANY_DEMAND = 1 << 62


@compiled
def first_waiting(world: World, pool: int, least: int, below: int) -> int:
    """Return the first job that asks for at least so many GPUs and for fewer than that; -1: none waits."""
    jobs, best = world.jobs, -1
    for kind in range(world.gaps.from_kind[pool], world.gaps.to_kind[pool]):
        gpus = world.demands.gpus[kind]
        if gpus >= below:
            break
        if gpus < least:
            continue
        job = head(world.queue, kind, jobs.state, jobs.entry)
        if job < 0:
            continue
        if (
            best < 0
            or jobs.rank[job] < jobs.rank[best]
            or (jobs.rank[job] == jobs.rank[best] and jobs.entry[job] < jobs.entry[best])
        ):
            best = job
    return best


@compiled
def serve_by_rank(world: World, pool: int, now_s: float, count: int) -> int:
    """Start jobs by rank, on free GPUs or on those of running jobs of lower rank.

    `count` actions are noted; returns how many are then.
    """
    row = world.counts[POOLS] + pool
    below = ANY_DEMAND
    job = first_waiting(world, pool, 0, below)
    if job >= 0:
        renew_ranks(world, pool, now_s)
    while job >= 0:
        gpus = world.held.gpus[job]
        with_room = count
        if fits(world.nodes, pool, gpus):
            place(world.nodes, world.held, pool, pool, row, job)
        else:
            limit = limit_of(world, job, now_s)
            if gpus <= world.nodes.rows[pool * ROW + SIZE]:
                with_room = _make_room(world, pool, job, limit, count)
            else:
                with_room = _make_room_on_many(world, pool, row, job, limit, count)
        if with_room < 0:
            below = gpus  # later jobs have no more victims
        else:
            drop_head(world.queue, world.queue.of[job])
            world.jobs.state[job] = STARTING
            world.pools.begun[with_room] = job
            count = with_room + 1
        job = first_waiting(world, pool, 0, below)
    return count


@inlined
def _evict(world: World, pool: int, job: int, count: int) -> int:
    give(world.nodes, world.held, pool, pool, job, 1)
    world.jobs.state[job] = EVICTED
    world.pools.begun[count] = ~job
    return count + 1


@inlined
def _release(world: World, pool: int, job: int, epoch: int, gpus: int) -> int:
    """Free a running job's GPUs in a look ahead; return the fullest of its nodes that has so many then."""
    nodes, held = world.nodes, world.held
    own_at, size = nodes.rows[pool * ROW + NODE_AT], nodes.rows[pool * ROW + SIZE]
    best, fewest = -1, 0
    node, left = held.first[job], held.whole[job]
    while left >= 0:
        freed = size
        if left == 0:
            node = held.rest[job]
            freed = held.gpus[job] - held.whole[job] * size
            if node < 0:
                break
        has = later_at(nodes, own_at + node, epoch) + freed
        nodes.later[own_at + node] = has
        if has >= gpus and (best < 0 or has < fewest or (has == fewest and node < best)):
            best, fewest = node, has
        node = nodes.chain[own_at + node]
        left -= 1
    return best


@compiled
def _is_on(world: World, pool: int, job: int, epoch: int) -> bool:
    """Whether a running job is on a node with this stamp."""
    nodes, held = world.nodes, world.held
    own_at = nodes.rows[pool * ROW + NODE_AT]
    node = held.first[job]
    for _ in range(held.whole[job]):
        if nodes.stamp[own_at + node] == epoch:
            return True
        node = nodes.chain[own_at + node]
    return held.rest[job] >= 0 and nodes.stamp[own_at + held.rest[job]] == epoch


@compiled
def _evict_from_stamped(world: World, pool: int, end: int, count: int) -> int:
    """Preempt the running jobs from the last in rank to the one at `end` that are on stamped nodes."""
    ranked, epoch = world.ranked, world.counts[EPOCH]
    for i in range(ranked.at[pool] + ranked.length[pool] - 1, end - 1, -1):
        victim = ranked.jobs[i]
        if world.jobs.state[victim] != EVICTED and _is_on(world, pool, victim, epoch):
            count = _evict(world, pool, victim, count)
    return count


@compiled
def _make_room(world: World, pool: int, job: int, limit: int, count: int) -> int:
    """Preempt for a job that one node takes; below zero: no running job of lower rank makes room."""
    nodes, held, ranked, counts = world.nodes, world.held, world.ranked, world.counts
    own_at = nodes.rows[pool * ROW + NODE_AT]
    gpus = held.gpus[job]
    counts[EPOCH] += 1
    epoch = counts[EPOCH]
    i = ranked.at[pool] + ranked.length[pool] - 1
    while i >= ranked.at[pool] and ranked.ranks[i] > limit:
        victim = ranked.jobs[i]
        if world.jobs.state[victim] != EVICTED:
            node = _release(world, pool, victim, epoch, gpus)
            if node >= 0:
                counts[EPOCH] += 1
                nodes.stamp[own_at + node] = counts[EPOCH]
                count = _evict_from_stamped(world, pool, i, count)
                held.whole[job] = 0
                held.rest[job] = node
                change_free(nodes, pool, node, nodes.free[own_at + node] - gpus)
                return count
        i -= 1
    return -1


@compiled
def _make_room_on_many(world: World, pool: int, row: int, job: int, limit: int, count: int) -> int:
    """The same for a job that needs more than one node."""
    nodes, held, ranked, counts = world.nodes, world.held, world.ranked, world.counts
    size = nodes.rows[pool * ROW + SIZE]
    whole, rest = held.gpus[job] // size, held.gpus[job] % size
    idle = nodes.count[nodes.rows[pool * ROW + COUNT_AT] + size]
    partly = partly_free(nodes, pool, rest)
    counts[EPOCH] += 1
    epoch = counts[EPOCH]
    i = ranked.at[pool] + ranked.length[pool] - 1
    while i >= ranked.at[pool] and ranked.ranks[i] > limit:
        victim = ranked.jobs[i]
        if world.jobs.state[victim] != EVICTED:
            more_idle, more_partly = free_later(nodes, held, pool, victim, epoch, rest)
            idle += more_idle
            partly += more_partly
            if idle > whole or (idle == whole and (rest == 0 or partly > 0)):
                return _take_many(world, pool, row, job, i, count)
        i -= 1
    return -1


@compiled
def _take_many(world: World, pool: int, row: int, job: int, end: int, count: int) -> int:
    """Place a job where it fits without the running jobs from the last in rank to the one at `end`."""
    nodes, held, ranked, counts = world.nodes, world.held, world.ranked, world.counts
    own_at, row_at = nodes.rows[pool * ROW + NODE_AT], nodes.rows[row * ROW + NODE_AT]
    catch_up(nodes, pool, row)
    for i in range(ranked.at[pool] + ranked.length[pool] - 1, end - 1, -1):
        victim = ranked.jobs[i]
        if world.jobs.state[victim] != EVICTED:
            plan_later(nodes, held, pool, row, victim)
    place(nodes, held, row, pool, row, job)
    counts[EPOCH] += 1
    node = held.first[job]
    for _ in range(held.whole[job]):
        nodes.stamp[own_at + node] = counts[EPOCH]
        node = nodes.chain[row_at + node]
    if held.rest[job] >= 0:
        nodes.stamp[own_at + held.rest[job]] = counts[EPOCH]
    count = _evict_from_stamped(world, pool, end, count)
    give(nodes, held, pool, row, job, -1)
    return count
