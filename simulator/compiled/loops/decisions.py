"""Decisions: which jobs start and which are preempted, and what that does to them."""

from math import floor, inf

from simulator.compiled.loops.beliefs import believed_s
from simulator.compiled.loops.demands import belief_of, put
from simulator.compiled.loops.gaps import fill
from simulator.compiled.loops.jit import bits_of, compiled, inlined, trailing_zeros
from simulator.compiled.loops.nodes import fits, give, keep_chain, place
from simulator.compiled.loops.preemption import ANY_DEMAND, first_waiting, serve_by_rank
from simulator.compiled.loops.queues import add_end, drop_end, drop_head, enter, head
from simulator.compiled.loops.ranks import insert_run, next_expiry_s, remove_run, renew_ranks
from simulator.compiled.loops.runs import begin_run, drop_run
from simulator.compiled.loops.waiting import cancel, enqueue
from simulator.compiled.loops.world import (
    BACKFILLS,
    BY_ATTAINED,
    DECISIONS,
    FILLING,
    PENDING,
    POOLS,
    PREEMPTS,
    RUNNING,
    RUNNING_JOBS,
    STARTING,
    STARTS,
    VOID_UNTIL,
    World,
)


@compiled
def _rounded_up(at_s: float, round_s: float) -> float:
    """Return `-(-at_s // round_s) * round_s` as Python has it, for a time from 0 on."""
    rest_s = at_s % round_s
    times = (rest_s - at_s) / round_s
    if rest_s > 0:
        times -= 1.0
    whole = floor(times) * 1.0
    # As CPython divides floats: the quotient may have been rounded to just below a whole number.
    if times - whole > 0.5:
        whole += 1.0
    return -whole * round_s


@inlined
def _serve(world: World, pool: int, now_s: float, count: int) -> int:
    """Start jobs from the front of a queue, then around the reservation of the first that does not fit."""
    jobs, nodes, held, queue = world.jobs, world.nodes, world.held, world.queue
    begun, backfills = world.pools.begun, world.counts[BACKFILLS]
    if world.counts[PREEMPTS]:
        return serve_by_rank(world, pool, now_s, count)
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
    """Let the withdrawn jobs leave that were to start, and all others wait or run as before."""
    jobs, begun, queue = world.jobs, world.pools.begun, world.queue
    backfills, preempts = world.counts[BACKFILLS], world.counts[PREEMPTS]
    # Backwards: a job that was to start frees its GPUs before those take them again that made room for it.
    for i in range(count - 1, -1, -1):
        job = begun[i]
        if job < 0:
            job = ~job
            give(world.nodes, world.held, jobs.pool[job], jobs.pool[job], job, -1)
            jobs.state[job] = RUNNING
            continue
        pool = jobs.pool[job]
        give(world.nodes, world.held, pool, world.counts[POOLS] + pool if preempts else pool, job, 1)
        if backfills:
            drop_run(world, pool, job)
            if not jobs.leaves[job]:
                world.demands.waiting[world.demands.of[job]] += 1
                put(world.demands, job, believed_s(world.beliefs, job))
        from_front = jobs.state[job] == STARTING
        jobs.state[job] = STARTING if jobs.leaves[job] else PENDING
        if jobs.leaves[job]:
            cancel(world, job, now_s)
        elif from_front:
            enter(queue, queue.of[job], jobs.state, jobs.entry, jobs.rank[job], jobs.entry[job], job)


@inlined
def _begin(world: World, job: int, now_s: float) -> None:
    """Let a job run that has its GPUs."""
    jobs, counts, share = world.jobs, world.counts, world.share
    jobs.state[job] = RUNNING
    counts[STARTS] += 1
    world.ends.order[job] = counts[STARTS]
    if counts[PREEMPTS]:
        pool = jobs.pool[job]
        keep_chain(world.nodes, world.held, pool, counts[POOLS] + pool, job)
        share.delay_s[job] += now_s - share.since_s[job]
        share.since_s[job] = now_s
        if jobs.start_s[job] != jobs.start_s[job]:
            jobs.start_s[job] = now_s
        insert_run(world, pool, job)
        end_s = now_s + share.remaining_s[job] + share.completion_s
    else:
        jobs.start_s[job] = now_s
        end_s = now_s + jobs.duration_s[job]
    add_end(world.ends, counts[RUNNING_JOBS], end_s, job)
    counts[RUNNING_JOBS] += 1


@compiled
def _preempt(world: World, job: int, now_s: float) -> None:
    """Let a job wait again that has given up its GPUs; it keeps its progress."""
    counts, share = world.counts, world.share
    # The Python engine keeps a void end on its agenda, and goes on until it has come: so must this one.
    void_until = bits_of(world.ends.at_s[world.ends.place[job]])
    if void_until > counts[VOID_UNTIL]:
        counts[VOID_UNTIL] = void_until
    drop_end(world.ends, counts[RUNNING_JOBS], world.ends.place[job])
    counts[RUNNING_JOBS] -= 1
    remove_run(world, world.jobs.pool[job], job)
    elapsed_s = now_s - share.since_s[job]
    if elapsed_s != 0:
        remaining_s = share.remaining_s[job] - elapsed_s
        share.remaining_s[job] = remaining_s if remaining_s > 0 else 0.0
        share.attained_s[job] += elapsed_s
    share.remaining_s[job] += share.cost_s[job]
    share.overhead_s[job] += share.cost_s[job]
    share.preemptions[job] += 1
    share.since_s[job] = now_s
    enqueue(world, job)


@compiled
def _wake(world: World, pool: int, at_s: float, now_s: float) -> None:
    """Decide again in a pool at a time, or at the first round from then on, but later than now."""
    share = world.share
    if share.round_s > 0:
        at_s = _rounded_up(at_s, share.round_s)
        if at_s <= now_s:
            at_s += share.round_s
    elif at_s <= now_s:
        return
    if at_s < share.wake_s[pool]:
        share.wake_s[pool] = at_s


@inlined
def _act(world: World, count: int, now_s: float) -> None:
    """Do what was decided."""
    for i in range(count):
        job = world.pools.begun[i]
        if job < 0:
            _preempt(world, ~job, now_s)
        else:
            _begin(world, job, now_s)


@compiled
def _plan_wakes(world: World, now_s: float, any_time: bool) -> None:
    """Let the pools in which something happened be served when a rank changes, or at the next round."""
    pools = world.pools
    for word in range((world.counts[POOLS] + 63) >> 6):
        left = pools.changed[word]
        while left:
            pool = (word << 6) + trailing_zeros(left)
            left &= left - 1
            if not any_time:
                _wake(world, pool, now_s, now_s)
            elif first_waiting(world, pool, 0, ANY_DEMAND) >= 0:
                renew_ranks(world, pool, now_s)
                later_s = next_expiry_s(world, pool)
                if later_s < inf:
                    _wake(world, pool, later_s, now_s)


@inlined
def decide(world: World, now_s: float) -> None:
    """Serve the pools in which something happened, until no withdrawn job was to start."""
    jobs, pools, counts = world.jobs, world.pools, world.counts
    words = (counts[POOLS] + 63) >> 6
    any_time = world.share.round_s <= 0 or now_s % world.share.round_s == 0
    changed = False
    for word in range(words):
        changed = changed or pools.changed[word] != 0
    if not changed:
        return
    while changed and any_time:
        counts[DECISIONS] += 1
        count = 0
        for word in range(words):
            left = pools.changed[word]
            while left:
                count = _serve(world, (word << 6) + trailing_zeros(left), now_s, count)
                left &= left - 1
        changed = False
        for i in range(count):
            job = pools.begun[i]
            changed = changed or (job >= 0 and jobs.leaves[job] != 0)
        if changed:
            _take_back(world, count, now_s)
        else:
            _act(world, count, now_s)
    if counts[PREEMPTS] == BY_ATTAINED:
        _plan_wakes(world, now_s, any_time)
    for word in range(words):
        pools.changed[word] = 0
