"""Waiting jobs in the order of a rank that stands still, and ends of runs in the order of time: two heaps.

A job that leaves a queue from its midst stays in the heap until it comes up, or until room is needed.
"""

from simulator.compiled.loops.jit import Pointer, compiled, inlined
from simulator.compiled.loops.world import PENDING, Ends, Queue


@inlined
def _waits(queue: Queue, state: Pointer, entry: Pointer, at: int) -> bool:
    job = queue.jobs[at]
    return state[job] == PENDING and entry[job] == queue.keys[at]


@compiled
def _sink(queue: Queue, at: int, length: int, hole: int, key: int, job: int) -> None:
    keys, jobs = queue.keys, queue.jobs
    while True:
        child = 2 * hole + 1
        if child >= length:
            break
        if child + 1 < length and keys[at + child + 1] < keys[at + child]:
            child += 1
        if keys[at + child] >= key:
            break
        keys[at + hole] = keys[at + child]
        jobs[at + hole] = jobs[at + child]
        hole = child
    keys[at + hole] = key
    jobs[at + hole] = job


@compiled
def _tidy(queue: Queue, pool: int, state: Pointer, entry: Pointer) -> None:
    """Leave out what waits no longer."""
    at, kept = queue.at[pool], 0
    for place in range(queue.length[pool]):
        if _waits(queue, state, entry, at + place):
            queue.keys[at + kept] = queue.keys[at + place]
            queue.jobs[at + kept] = queue.jobs[at + place]
            kept += 1
    queue.length[pool] = kept
    for hole in range(kept // 2 - 1, -1, -1):
        _sink(queue, at, kept, hole, queue.keys[at + hole], queue.jobs[at + hole])


@inlined
def enter(queue: Queue, pool: int, state: Pointer, entry: Pointer, key: int, job: int) -> None:
    """Add a job that waits, with a key that no other has."""
    entry[job] = key
    if queue.length[pool] == queue.room[pool]:
        _tidy(queue, pool, state, entry)
    keys, jobs, at = queue.keys, queue.jobs, queue.at[pool]
    hole = queue.length[pool]
    queue.length[pool] = hole + 1
    while hole > 0:
        above = (hole - 1) >> 1
        if keys[at + above] <= key:
            break
        keys[at + hole] = keys[at + above]
        jobs[at + hole] = jobs[at + above]
        hole = above
    keys[at + hole] = key
    jobs[at + hole] = job


@inlined
def drop_head(queue: Queue, pool: int) -> None:
    """Take out the first entry."""
    at = queue.at[pool]
    length = queue.length[pool] - 1
    queue.length[pool] = length
    if length > 0:
        _sink(queue, at, length, 0, queue.keys[at + length], queue.jobs[at + length])


@inlined
def head(queue: Queue, pool: int, state: Pointer, entry: Pointer) -> int:
    """Return the first job that waits; -1 when there is none."""
    at = queue.at[pool]
    while queue.length[pool] > 0:
        if _waits(queue, state, entry, at):
            return queue.jobs[at]
        drop_head(queue, pool)
    return -1


@compiled
def _ends_before(ends: Ends, end_s: float, job: int, place: int) -> bool:
    other_s = ends.at_s[place]
    return end_s < other_s or (end_s == other_s and ends.order[job] < ends.order[ends.jobs[place]])


@compiled
def add_end(ends: Ends, length: int, end_s: float, job: int) -> None:
    """Add the end of a run to a heap of so many; equal times go by `order`, the order of the starts."""
    hole = length
    while hole > 0:
        above = (hole - 1) >> 1
        if not _ends_before(ends, end_s, job, above):
            break
        ends.at_s[hole] = ends.at_s[above]
        ends.jobs[hole] = ends.jobs[above]
        hole = above
    ends.at_s[hole] = end_s
    ends.jobs[hole] = job


@compiled
def drop_end(ends: Ends, length: int) -> None:
    """Take out the first of so many ends."""
    length -= 1
    if length == 0:
        return
    end_s, job = ends.at_s[length], ends.jobs[length]
    hole = 0
    while True:
        child = 2 * hole + 1
        if child >= length:
            break
        if child + 1 < length and _ends_before(ends, ends.at_s[child + 1], ends.jobs[child + 1], child):
            child += 1
        if _ends_before(ends, end_s, job, child):
            break
        ends.at_s[hole] = ends.at_s[child]
        ends.jobs[hole] = ends.jobs[child]
        hole = child
    ends.at_s[hole] = end_s
    ends.jobs[hole] = job
