"""Jobs that begin to wait, and those that leave without a start: withdrawn, or larger than their pool is."""

from math import inf

from simulator.compiled.loops.beliefs import believed_s
from simulator.compiled.loops.demands import put
from simulator.compiled.loops.jit import compiled, inlined
from simulator.compiled.loops.nodes import restore, withdraw
from simulator.compiled.loops.preemption import ANY_DEMAND, first_waiting
from simulator.compiled.loops.queues import drop_head, enter, head
from simulator.compiled.loops.ranks import waiting_rank
from simulator.compiled.loops.world import (
    ARRIVALS,
    BACKFILLS,
    CANCELLED,
    ENDED,
    HELD,
    IN_HELD,
    NODES,
    PENDING,
    PREEMPTS,
    ROW,
    SIZE,
    STARTING,
    SUBMITTED,
    World,
)


@inlined
def mark(world: World, pool: int) -> None:
    """Note that something has happened in a pool, which is to be served."""
    world.pools.changed[pool >> 6] |= 1 << (pool & 63)


@compiled
def _hold(world: World, job: int) -> None:
    """Let a job wait beside the queue, which is larger than its pool is at present."""
    world.jobs.state[job] = HELD
    world.pools.held_jobs[world.counts[IN_HELD]] = job
    world.counts[IN_HELD] += 1


@inlined
def _wait(world: World, job: int) -> None:
    """Let a job wait in its queue."""
    jobs, counts = world.jobs, world.counts
    jobs.state[job] = PENDING
    counts[ARRIVALS] += 1
    if counts[PREEMPTS]:
        jobs.rank[job] = waiting_rank(world, job)
    queue = world.queue
    enter(queue, queue.of[job], jobs.state, jobs.entry, jobs.rank[job], counts[ARRIVALS], job)
    if counts[BACKFILLS]:
        world.demands.waiting[world.demands.of[job]] += 1
        put(world.demands, job, believed_s(world.beliefs, job))


@compiled
def _leave_queue(world: World, job: int) -> None:
    """Let a job wait in its queue no longer, without a start."""
    if world.counts[BACKFILLS]:
        world.demands.waiting[world.demands.of[job]] -= 1
        put(world.demands, job, inf)
        world.gaps.shadow_s[world.jobs.pool[job]] = -1.0


@inlined
def enqueue(world: World, job: int) -> None:
    """A job begins to wait: in its queue, or beside it where its pool is too small for it."""
    fit = world.pools.fit[world.jobs.pool[job]]
    if 0 <= fit < world.held.gpus[job]:
        _hold(world, job)
    else:
        _wait(world, job)


@compiled
def cancel(world: World, job: int, now_s: float) -> None:
    """Let a withdrawn job leave; nothing happens to one that has left."""
    jobs = world.jobs
    state = jobs.state[job]
    if state == PENDING:
        _leave_queue(world, job)
        mark(world, jobs.pool[job])
    elif state == HELD:
        mark(world, jobs.pool[job])
    elif state != SUBMITTED and state != STARTING:
        return
    jobs.state[job] = CANCELLED
    jobs.end_s[job] = now_s
    world.counts[ENDED] += 1


@compiled
def resize(world: World, pool: int, count: int) -> None:
    """Let a pool have so many nodes; the highest leave, and jobs that are larger wait beside the queue."""
    nodes, rows, jobs, counts = world.nodes, world.nodes.rows, world.jobs, world.counts
    at = pool * ROW
    for node in range(max(rows[at + NODES], count)):
        if node < count:
            restore(nodes, pool, node)
        else:
            withdraw(nodes, pool, node)
    rows[at + NODES] = max(rows[at + NODES], count)
    fit = world.pools.fit[pool] = count * rows[at + SIZE]
    if counts[BACKFILLS]:
        world.gaps.shadow_s[pool] = -1.0
    _set_aside(world, pool, fit)
    held_jobs, kept = world.pools.held_jobs, 0
    for i in range(counts[IN_HELD]):
        job = held_jobs[i]
        if jobs.state[job] != HELD:
            continue
        if jobs.pool[job] == pool and world.held.gpus[job] <= fit:
            _wait(world, job)
        else:
            held_jobs[kept] = job
            kept += 1
    counts[IN_HELD] = kept
    mark(world, pool)


@compiled
def _set_aside(world: World, pool: int, fit: int) -> None:
    """Let queued jobs that no longer fit wait beside the queue, in its order."""
    if world.counts[PREEMPTS]:
        job = first_waiting(world, pool, fit + 1, ANY_DEMAND)
        while job >= 0:
            drop_head(world.queue, world.queue.of[job])
            _hold(world, job)
            job = first_waiting(world, pool, fit + 1, ANY_DEMAND)
        return
    jobs, queue, begun, count = world.jobs, world.queue, world.pools.begun, 0
    job = head(queue, pool, jobs.state, jobs.entry)
    while job >= 0:
        drop_head(queue, pool)
        begun[count] = job
        count += 1
        job = head(queue, pool, jobs.state, jobs.entry)
    for i in range(count):
        job = begun[i]
        if world.held.gpus[job] > fit:
            _leave_queue(world, job)
            _hold(world, job)
        else:
            enter(queue, pool, jobs.state, jobs.entry, jobs.rank[job], jobs.entry[job], job)
