"""The loop from event to event: what `simulator.engine.Simulation` does for policies that go by columns.

At each moment everything happens that is due, in the order of `EventKind`, and then the pools in which
something happened are served.
"""

from math import inf

from simulator.compiled.loops.beliefs import believed_s, learn
from simulator.compiled.loops.demands import belief_of, put
from simulator.compiled.loops.gaps import fill
from simulator.compiled.loops.jit import compiled, inlined, trailing_zeros
from simulator.compiled.loops.nodes import fits, give, place, restore, withdraw
from simulator.compiled.loops.queues import add_end, drop_end, drop_head, enter, head
from simulator.compiled.loops.runs import begin_run, drop_run
from simulator.compiled.loops.world import (
    ARRIVALS,
    BACKFILLS,
    CANCEL_AT,
    CANCELLED,
    CANCELS,
    CHANGE_AT,
    CHANGES,
    COMPLETED,
    COMPLETED_JOBS,
    DECISIONS,
    ENDED,
    FILLING,
    HELD,
    IN_HELD,
    JOBS,
    NODES,
    PENDING,
    POOLS,
    ROW,
    RUNNING,
    RUNNING_JOBS,
    SIZE,
    STARTING,
    STARTS,
    SUBMITTED,
    SUBMITTED_JOBS,
    World,
)

MORE, OVER, ENDLESS = 0, 1, 2
MAX_DECISIONS_AT_ONE_MOMENT = 10_000


@inlined
def _mark(world: World, pool: int) -> None:
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
    key = (jobs.rank[job] << 32) | counts[ARRIVALS]
    enter(world.queue, jobs.pool[job], jobs.state, jobs.entry, key, job)
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
def _submit(world: World, job: int) -> None:
    jobs = world.jobs
    pool = jobs.pool[job]
    fit = world.pools.fit[pool]
    if 0 <= fit < world.held.gpus[job]:
        _hold(world, job)
        if world.counts[BACKFILLS]:
            _mark(world, pool)
        return
    _wait(world, job)
    if world.counts[BACKFILLS] or head(world.queue, pool, jobs.state, jobs.entry) == job:
        _mark(world, pool)


@inlined
def _complete(world: World, now_s: float) -> None:
    """Let the run end that ends first."""
    jobs, counts = world.jobs, world.counts
    job = world.ends.jobs[0]
    drop_end(world.ends, counts[RUNNING_JOBS])
    counts[RUNNING_JOBS] -= 1
    counts[ENDED] += 1
    counts[COMPLETED_JOBS] += 1
    pool = jobs.pool[job]
    jobs.state[job] = COMPLETED
    jobs.end_s[job] = now_s
    give(world.nodes, world.held, pool, job, 1)
    if counts[BACKFILLS]:
        drop_run(world, pool, job)
        learn(world.beliefs, job, jobs.duration_s[job])
    _mark(world, pool)


@compiled
def _cancel(world: World, job: int, now_s: float) -> None:
    """Let a withdrawn job leave; nothing happens to one that has left."""
    jobs = world.jobs
    state = jobs.state[job]
    if state == PENDING:
        _leave_queue(world, job)
        _mark(world, jobs.pool[job])
    elif state == HELD:
        _mark(world, jobs.pool[job])
    elif state != SUBMITTED and state != STARTING:
        return
    jobs.state[job] = CANCELLED
    jobs.end_s[job] = now_s
    world.counts[ENDED] += 1


@compiled
def _resize(world: World, pool: int, count: int) -> None:
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
    _mark(world, pool)


@compiled
def _set_aside(world: World, pool: int, fit: int) -> None:
    """Let queued jobs that no longer fit wait beside the queue, in its order."""
    jobs, queue = world.jobs, world.queue
    at, count = queue.at[pool], 0
    begun = world.pools.begun
    while True:
        job = head(queue, pool, jobs.state, jobs.entry)
        if job < 0:
            break
        drop_head(queue, pool)
        begun[count] = job
        count += 1
    kept = 0
    for i in range(count):
        job = begun[i]
        if world.held.gpus[job] > fit:
            _leave_queue(world, job)
            _hold(world, job)
        else:  # in order, they are a heap
            queue.keys[at + kept] = jobs.entry[job]
            queue.jobs[at + kept] = job
            kept += 1
    queue.length[pool] = kept


@inlined
def _serve(world: World, pool: int, now_s: float, count: int) -> int:
    """Start jobs from the front of a queue, then around the reservation of the first that does not fit."""
    jobs, nodes, held, queue = world.jobs, world.nodes, world.held, world.queue
    begun, backfills = world.pools.begun, world.counts[BACKFILLS]
    while True:
        job = head(queue, pool, jobs.state, jobs.entry)
        if job < 0:
            return count
        if not fits(nodes, pool, held.gpus[job]):
            break
        drop_head(queue, pool)
        place(nodes, held, pool, pool, pool, job)
        if backfills:
            begin_run(world, pool, job, belief_of(world.demands, job), now_s)
        jobs.state[job] = STARTING
        begun[count] = job
        count += 1
    if not backfills:
        return count
    filled = fill(world, pool, job, now_s, count)
    for i in range(count, filled):
        jobs.state[begun[i]] = FILLING
    return filled


@compiled
def _take_back(world: World, count: int, now_s: float) -> None:
    """Let the withdrawn jobs leave that were to start, and all others wait as before."""
    jobs, begun, backfills = world.jobs, world.pools.begun, world.counts[BACKFILLS]
    for i in range(count):
        job = begun[i]
        pool = jobs.pool[job]
        give(world.nodes, world.held, pool, job, 1)
        if backfills:
            drop_run(world, pool, job)
            if not jobs.leaves[job]:
                world.demands.waiting[world.demands.of[job]] += 1
                put(world.demands, job, believed_s(world.beliefs, job))
        from_front = jobs.state[job] == STARTING
        jobs.state[job] = STARTING if jobs.leaves[job] else PENDING
        if jobs.leaves[job]:
            _cancel(world, job, now_s)
        elif from_front:
            enter(world.queue, pool, jobs.state, jobs.entry, jobs.entry[job], job)


@inlined
def _begin(world: World, job: int, now_s: float) -> None:
    """Let a job run that has its GPUs."""
    jobs, counts = world.jobs, world.counts
    jobs.state[job] = RUNNING
    jobs.start_s[job] = now_s
    counts[STARTS] += 1
    world.ends.order[job] = counts[STARTS]
    add_end(world.ends, counts[RUNNING_JOBS], now_s + jobs.duration_s[job], job)
    counts[RUNNING_JOBS] += 1


@inlined
def _decide(world: World, now_s: float) -> None:
    """Serve the pools in which something happened, until no withdrawn job was to start."""
    jobs, pools, counts = world.jobs, world.pools, world.counts
    words = (counts[POOLS] + 63) >> 6
    changed = False
    for word in range(words):
        changed = changed or pools.changed[word] != 0
    while changed:
        counts[DECISIONS] += 1
        count = 0
        for word in range(words):
            left = pools.changed[word]
            while left:
                count = _serve(world, (word << 6) + trailing_zeros(left), now_s, count)
                left &= left - 1
        changed = False
        for i in range(count):
            changed = changed or jobs.leaves[pools.begun[i]] != 0
        if changed:
            _take_back(world, count, now_s)
        else:
            for i in range(count):
                _begin(world, pools.begun[i], now_s)
    for word in range(words):
        pools.changed[word] = 0


@inlined
def _happen(world: World, now_s: float) -> None:
    """Let everything happen that is due."""
    jobs, given, counts, ends = world.jobs, world.given, world.counts, world.ends
    while counts[RUNNING_JOBS] > 0 and ends.at_s[0] == now_s:
        _complete(world, now_s)
    while counts[CANCEL_AT] < counts[CANCELS] and given.cancel_s[counts[CANCEL_AT]] == now_s:
        counts[CANCEL_AT] += 1
        _cancel(world, given.cancel_job[counts[CANCEL_AT] - 1], now_s)
    while counts[CHANGE_AT] < counts[CHANGES] and given.change_s[counts[CHANGE_AT]] == now_s:
        at = counts[CHANGE_AT]
        counts[CHANGE_AT] = at + 1
        _resize(world, given.change_pool[at], given.change_nodes[at])
    while counts[SUBMITTED_JOBS] < counts[JOBS] and jobs.submit_s[counts[SUBMITTED_JOBS]] == now_s:
        job = counts[SUBMITTED_JOBS]
        counts[SUBMITTED_JOBS] = job + 1
        if jobs.state[job] == SUBMITTED:
            _submit(world, job)


@inlined
def _next_s(world: World) -> float:
    """Return when something happens next; infinite: nothing does."""
    counts, given = world.counts, world.given
    at_s = inf
    if counts[SUBMITTED_JOBS] < counts[JOBS]:
        at_s = world.jobs.submit_s[counts[SUBMITTED_JOBS]]
    if counts[RUNNING_JOBS] > 0 and world.ends.at_s[0] < at_s:
        at_s = world.ends.at_s[0]
    if counts[CANCEL_AT] < counts[CANCELS] and given.cancel_s[counts[CANCEL_AT]] < at_s:
        at_s = given.cancel_s[counts[CANCEL_AT]]
    if counts[CHANGE_AT] < counts[CHANGES] and given.change_s[counts[CHANGE_AT]] < at_s:
        at_s = given.change_s[counts[CHANGE_AT]]
    return at_s


@compiled
def advance(world: World, moments: int) -> int:
    """Take so many moments, and return whether there may be MORE, all is OVER, or one is ENDLESS."""
    counts = world.counts
    for _ in range(moments):
        if counts[ENDED] == counts[JOBS]:
            return OVER
        now_s = _next_s(world)
        if now_s == inf:
            return OVER
        for _ in range(MAX_DECISIONS_AT_ONE_MOMENT):
            _happen(world, now_s)
            _decide(world, now_s)
            if counts[RUNNING_JOBS] == 0 or world.ends.at_s[0] != now_s:
                break
        else:
            return ENDLESS
    return MORE
