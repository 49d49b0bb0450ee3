"""Ranks that change as jobs run: least remaining run time first, or least attained service (Tiresias).

A rank is one integer, lower first. That of a time is its bits, which are in the order of the numbers; jobs of
Tiresias' upper queue have a rank below zero.
"""

from math import inf

from simulator.compiled.loops.jit import bits_of, compiled, inlined
from simulator.compiled.loops.world import BY_REMAINING, PREEMPTS, Ranked, World

LOWEST = -(1 << 63)


@inlined
def waiting_rank(world: World, job: int) -> int:
    """Return the rank of a job that begins to wait."""
    if world.counts[PREEMPTS] == BY_REMAINING:
        return bits_of(world.share.remaining_s[job])
    return _queue_rank(world, job, world.share.attained_s[job])


@inlined
def _queue_rank(world: World, job: int, attained_s: float) -> int:
    """Return the rank of a job that has attained so much: by queue, then by submission."""
    rank = bits_of(world.jobs.submit_s[job])
    if attained_s * world.held.gpus[job] > world.share.threshold_gpu_s:
        return rank
    return rank + LOWEST


@inlined
def limit_of(world: World, job: int, now_s: float) -> int:
    """Return the rank of running jobs above which a job that waits may preempt."""
    if world.counts[PREEMPTS] == BY_REMAINING:
        return bits_of(now_s + world.share.remaining_s[job])
    return world.jobs.rank[job]


@compiled
def _place_of(ranked: Ranked, pool: int, rank: int, start: int) -> int:
    low = ranked.at[pool]
    high = low + ranked.length[pool]
    while low < high:
        middle = (low + high) >> 1
        other = ranked.ranks[middle]
        if other < rank or (other == rank and ranked.starts[middle] < start):
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def _insert(world: World, pool: int, job: int, rank: int) -> None:
    ranked, start = world.ranked, world.ends.order[job]
    here = _place_of(ranked, pool, rank, start)
    last = ranked.at[pool] + ranked.length[pool]
    ranked.length[pool] += 1
    for i in range(last, here, -1):
        ranked.ranks[i] = ranked.ranks[i - 1]
    for i in range(last, here, -1):
        ranked.starts[i] = ranked.starts[i - 1]
    for i in range(last, here, -1):
        ranked.jobs[i] = ranked.jobs[i - 1]
    ranked.ranks[here] = rank
    ranked.starts[here] = start
    ranked.jobs[here] = job
    world.jobs.rank[job] = rank


@compiled
def remove_run(world: World, pool: int, job: int) -> None:
    """Take a job that stops out of the order of running ones."""
    ranked, share = world.ranked, world.share
    here = _place_of(ranked, pool, world.jobs.rank[job], world.ends.order[job])
    ranked.length[pool] -= 1
    last = ranked.at[pool] + ranked.length[pool]
    for i in range(here, last):
        ranked.ranks[i] = ranked.ranks[i + 1]
    for i in range(here, last):
        ranked.starts[i] = ranked.starts[i + 1]
    for i in range(here, last):
        ranked.jobs[i] = ranked.jobs[i + 1]
    # It may have been the next to expire; -inf: all have to be looked at for the one that is now.
    if share.expiry_s[job] <= share.next_expiry_s[pool]:
        share.next_expiry_s[pool] = -inf


@compiled
def insert_run(world: World, pool: int, job: int) -> None:
    """Put a job that starts among the running ones; `order` is the number of its start."""
    share = world.share
    share.expiry_s[job] = inf
    if world.counts[PREEMPTS] == BY_REMAINING:
        _insert(world, pool, job, bits_of(share.since_s[job] + share.remaining_s[job]))
        return
    rank = _queue_rank(world, job, share.attained_s[job])
    if rank < 0:
        expiry_s = share.since_s[job] + share.threshold_gpu_s / world.held.gpus[job] - share.attained_s[job]
        share.expiry_s[job] = expiry_s
        if expiry_s < share.next_expiry_s[pool]:
            share.next_expiry_s[pool] = expiry_s
    _insert(world, pool, job, rank)


@compiled
def next_expiry_s(world: World, pool: int) -> float:
    """Return when the rank of a running job changes next (s); infinite: none does."""
    share, ranked = world.share, world.ranked
    if share.next_expiry_s[pool] == -inf:
        found = inf
        for i in range(ranked.at[pool], ranked.at[pool] + ranked.length[pool]):
            if ranked.ranks[i] >= 0:
                break
            found = min(found, share.expiry_s[ranked.jobs[i]])
        share.next_expiry_s[pool] = found
    return share.next_expiry_s[pool]


@compiled
def renew_ranks(world: World, pool: int, now_s: float) -> None:
    """Let the running jobs that have used up their service move to the lower queue."""
    share, ranked = world.share, world.ranked
    if world.counts[PREEMPTS] == BY_REMAINING or not next_expiry_s(world, pool) < now_s:
        return
    i, last = ranked.at[pool], ranked.at[pool] + ranked.length[pool]
    while i < last and ranked.ranks[i] < 0:
        job = ranked.jobs[i]
        i += 1
        if share.expiry_s[job] < now_s:
            rank = _queue_rank(world, job, share.attained_s[job] + (now_s - share.since_s[job]))
            if rank >= 0:
                remove_run(world, pool, job)
                share.expiry_s[job] = inf
                _insert(world, pool, job, rank)
                # The following one has moved into its place.
                i -= 1
    share.next_expiry_s[pool] = -inf
