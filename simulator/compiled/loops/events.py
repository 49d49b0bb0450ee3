"""The loop from event to event: what `Simulation` does for policies that go by columns.

At each moment everything happens that is due, in the order of `EventKind`, and then the pools in which
something happened are served.
"""

from math import inf

from simulator.compiled.loops.beliefs import learn
from simulator.compiled.loops.decisions import decide
from simulator.compiled.loops.jit import bits_of, compiled, inlined
from simulator.compiled.loops.nodes import give
from simulator.compiled.loops.queues import drop_end, head
from simulator.compiled.loops.ranks import remove_run
from simulator.compiled.loops.runs import drop_run
from simulator.compiled.loops.waiting import cancel, enqueue, mark, resize
from simulator.compiled.loops.world import (
    BACKFILLS,
    BY_ATTAINED,
    CANCEL_AT,
    CANCELS,
    CHANGE_AT,
    CHANGES,
    COMPLETED,
    COMPLETED_JOBS,
    ENDED,
    HELD,
    IN_HELD,
    JOBS,
    POOLS,
    PREEMPTS,
    RUNNING_JOBS,
    SUBMITTED,
    SUBMITTED_JOBS,
    VOID_UNTIL,
    World,
)

MORE, OVER, ENDLESS = 0, 1, 2
MAX_DECISIONS_AT_ONE_MOMENT = 10_000


@inlined
def _submit(world: World, job: int) -> None:
    jobs, counts, queue = world.jobs, world.counts, world.queue
    pool = jobs.pool[job]
    enqueue(world, job)
    # Where jobs only start in order, nothing changes behind the first.
    in_order = counts[BACKFILLS] == 0 and counts[PREEMPTS] == 0
    if not in_order or head(queue, queue.of[job], jobs.state, jobs.entry) == job:
        mark(world, pool)


@inlined
def _complete(world: World, now_s: float) -> None:
    """Let the run end that ends first."""
    jobs, counts = world.jobs, world.counts
    job = world.ends.jobs[0]
    drop_end(world.ends, counts[RUNNING_JOBS], 0)
    counts[RUNNING_JOBS] -= 1
    counts[ENDED] += 1
    counts[COMPLETED_JOBS] += 1
    pool = jobs.pool[job]
    jobs.state[job] = COMPLETED
    jobs.end_s[job] = now_s
    give(world.nodes, world.held, pool, pool, job, 1)
    if counts[BACKFILLS]:
        drop_run(world, pool, job)
        learn(world.beliefs, job, jobs.duration_s[job])
    if counts[PREEMPTS]:
        remove_run(world, pool, job)
        world.share.attained_s[job] += now_s - world.share.since_s[job]
        world.share.overhead_s[job] += world.share.completion_s
    mark(world, pool)


@inlined
def _happen(world: World, now_s: float) -> None:
    """Let everything happen that is due."""
    jobs, given, counts, ends = world.jobs, world.given, world.counts, world.ends
    while counts[RUNNING_JOBS] > 0 and ends.at_s[0] == now_s:
        _complete(world, now_s)
    while counts[CANCEL_AT] < counts[CANCELS] and given.cancel_s[counts[CANCEL_AT]] == now_s:
        counts[CANCEL_AT] += 1
        cancel(world, given.cancel_job[counts[CANCEL_AT] - 1], now_s)
    while counts[CHANGE_AT] < counts[CHANGES] and given.change_s[counts[CHANGE_AT]] == now_s:
        at = counts[CHANGE_AT]
        counts[CHANGE_AT] = at + 1
        resize(world, given.change_pool[at], given.change_nodes[at])
    if counts[PREEMPTS] == BY_ATTAINED:
        for pool in range(counts[POOLS]):
            if world.share.wake_s[pool] == now_s:
                world.share.wake_s[pool] = inf
                mark(world, pool)
    while counts[SUBMITTED_JOBS] < counts[JOBS] and jobs.submit_s[counts[SUBMITTED_JOBS]] == now_s:
        job = counts[SUBMITTED_JOBS]
        counts[SUBMITTED_JOBS] = job + 1
        if jobs.state[job] == SUBMITTED:
            _submit(world, job)


@compiled
def _all_are_held(world: World) -> bool:
    """Whether no job is left but those that wait beside their queue."""
    held = 0
    for i in range(world.counts[IN_HELD]):
        held += world.jobs.state[world.pools.held_jobs[i]] == HELD
    return world.counts[ENDED] + held == world.counts[JOBS]


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
    if counts[PREEMPTS] == BY_ATTAINED:
        nothing_else = at_s == inf
        for pool in range(counts[POOLS]):
            at_s = min(at_s, world.share.wake_s[pool])
        # The engine stops here, unless an end that was foreseen in vain is still to come.
        if nothing_else and at_s < inf and bits_of(at_s) > counts[VOID_UNTIL] and _all_are_held(world):
            return inf
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
            decide(world, now_s)
            if counts[RUNNING_JOBS] == 0 or world.ends.at_s[0] != now_s:
                break
        else:
            return ENDLESS
    return MORE
