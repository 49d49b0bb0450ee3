"""Waiting jobs in the order of a rank that stands still, and ends of runs in the order of time: two heaps.

A job that leaves a queue from its midst stays in the heap until it comes up, or until room is needed.
"""

from simulator.compiled.loops.jit import Pointer, compiled, inlined
from simulator.compiled.loops.world import PENDING, Ends, Queue


@inlined
def _waits(queue: Queue, state: Pointer, entry: Pointer, at: int) -> bool:
    job = queue.jobs[at]
    # A job that left and queues again has a newer arrival: its older entry is a husk.
    return state[job] == PENDING and entry[job] == queue.arrivals[at]


@inlined
def _put(queue: Queue, place: int, rank: int, arrival: int, job: int) -> None:
    queue.ranks[place] = rank
    queue.arrivals[place] = arrival
    queue.jobs[place] = job


@inlined
def _move(queue: Queue, place: int, other: int) -> None:
    _put(queue, place, queue.ranks[other], queue.arrivals[other], queue.jobs[other])


@inlined
def _before(queue: Queue, rank: int, arrival: int, other: int) -> bool:
    return rank < queue.ranks[other] or (rank == queue.ranks[other] and arrival < queue.arrivals[other])


@compiled
def _sink(queue: Queue, at: int, length: int, hole: int, last: int) -> None:
    """Put the entry at `last` into a hole, below all that come before it."""
    rank, arrival, job = queue.ranks[at + last], queue.arrivals[at + last], queue.jobs[at + last]
    while True:
        child = 2 * hole + 1
        if child >= length:
            break
        other = at + child + 1
        if child + 1 < length and _before(queue, queue.ranks[other], queue.arrivals[other], other - 1):
            child += 1
        if _before(queue, rank, arrival, at + child):
            break
        _move(queue, at + hole, at + child)
        hole = child
    _put(queue, at + hole, rank, arrival, job)


@compiled
def _tidy(queue: Queue, which: int, state: Pointer, entry: Pointer) -> None:
    """Leave out what waits no longer."""
    at, kept = queue.at[which], 0
    for place in range(queue.length[which]):
        if _waits(queue, state, entry, at + place):
            _move(queue, at + kept, at + place)
            kept += 1
    queue.length[which] = kept
    for hole in range(kept // 2 - 1, -1, -1):
        _sink(queue, at, kept, hole, hole)


@inlined
def enter(
    queue: Queue, which: int, state: Pointer, entry: Pointer, rank: int, arrival: int, job: int
) -> None:
    """Add a job that waits to a queue, by its rank, and of equals by its arrival, which no other has."""
    entry[job] = arrival
    if queue.length[which] == queue.room[which]:
        _tidy(queue, which, state, entry)
    at, hole = queue.at[which], queue.length[which]
    queue.length[which] = hole + 1
    while hole > 0:
        above = (hole - 1) >> 1
        if not _before(queue, rank, arrival, at + above):
            break
        _move(queue, at + hole, at + above)
        hole = above
    _put(queue, at + hole, rank, arrival, job)


@inlined
def drop_head(queue: Queue, which: int) -> None:
    """Take out the first entry."""
    length = queue.length[which] - 1
    queue.length[which] = length
    if length > 0:
        _sink(queue, queue.at[which], length, 0, length)


@inlined
def head(queue: Queue, which: int, state: Pointer, entry: Pointer) -> int:
    """Return the first job that waits; -1 when there is none."""
    at = queue.at[which]
    while queue.length[which] > 0:
        if _waits(queue, state, entry, at):
            return queue.jobs[at]
        drop_head(queue, which)
    return -1


@inlined
def _put_end(ends: Ends, place: int, end_s: float, job: int) -> None:
    ends.at_s[place] = end_s
    ends.jobs[place] = job
    ends.place[job] = place


@inlined
def _ends_before(ends: Ends, end_s: float, job: int, place: int) -> bool:
    other_s = ends.at_s[place]
    return end_s < other_s or (end_s == other_s and ends.order[job] < ends.order[ends.jobs[place]])


@compiled
def _rise(ends: Ends, hole: int, end_s: float, job: int) -> None:
    while hole > 0:
        above = (hole - 1) >> 1
        if not _ends_before(ends, end_s, job, above):
            break
        _put_end(ends, hole, ends.at_s[above], ends.jobs[above])
        hole = above
    _put_end(ends, hole, end_s, job)


@inlined
def add_end(ends: Ends, length: int, end_s: float, job: int) -> None:
    """Add the end of a run to a heap of so many; equal times go by `order`, the order of the starts."""
    _rise(ends, length, end_s, job)


@compiled
def drop_end(ends: Ends, length: int, hole: int) -> None:
    """Take out the end at a place of so many."""
    length -= 1
    if hole == length:
        return
    end_s, job = ends.at_s[length], ends.jobs[length]
    # The last end fills the hole. It comes from another branch of the heap, so it may have to rise.
    if hole > 0 and _ends_before(ends, end_s, job, (hole - 1) >> 1):
        _rise(ends, hole, end_s, job)
        return
    while True:
        child = 2 * hole + 1
        if child >= length:
            break
        if child + 1 < length and _ends_before(ends, ends.at_s[child + 1], ends.jobs[child + 1], child):
            child += 1
        if _ends_before(ends, end_s, job, child):
            break
        _put_end(ends, hole, ends.at_s[child], ends.jobs[child])
        hole = child
    _put_end(ends, hole, end_s, job)
