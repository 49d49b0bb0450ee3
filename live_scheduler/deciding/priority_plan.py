"""The fewest changes of priority that put a queue into an order.

A cluster serves the highest priority first. The jobs that may keep theirs are a longest strictly falling run
of the wanted order; the others get numbers in the gaps between. Where a gap is too narrow, those next to it
give theirs up too, until there is room: in a range that is nearly full little is moved.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace

from live_scheduler.adapter import PriorityRange, SetPriority
from live_scheduler.cluster_state import ClusterState, Kept
from live_scheduler.deciding.decision import Decision

# Beyond the first and the last job numbers are this part of the range apart: many can still come.
_STEPS = 1 << 15
# So many numbers are left free where jobs had to make room.
_SPARE = 64


def priority_changes(
    decision: Decision, cluster: ClusterState, profiler: str, allowed: PriorityRange
) -> list[SetPriority]:
    """Return the fewest changes that give each queue its order, the front of all queues first.

    `profiler` is the profiling partition (empty: there is none).
    """
    jobs = cluster.by_id
    fences = _fences(cluster, allowed)
    queues: dict[str, list[tuple[str, int | None]]] = {}
    to_be_profiled = []
    for place in decision.ranked:
        job = jobs[place.job_id]
        if place.pool == profiler != job.partition:
            to_be_profiled.append(job)
        else:
            queues.setdefault(place.pool, []).append((job.job_id, job.priority))
    # They wait at home until there is room, behind those that are to run there.
    for job in to_be_profiled:
        queues.setdefault(job.partition, []).append((job.job_id, job.priority))
    places = decision.places
    changes = [
        (places[job_id], job_id, priority)
        for name, queue in sorted(queues.items())
        for job_id, priority in plan_priorities(queue, _behind(fences.get(name, ()), queue, allowed))
    ]
    return [SetPriority(job_id, priority) for _, job_id, priority in sorted(changes)]


def _fences(cluster: ClusterState, allowed: PriorityRange) -> dict[str, list[int]]:
    """Return the priorities in our range that people gave to waiting jobs, by partition."""
    fences: dict[str, list[int]] = {}
    for job in cluster.jobs:
        if Kept.ORDER in job.kept and job.waiting and allowed.ours(job.priority):
            fences.setdefault(job.partition, []).append(job.priority or 0)
    return fences


def _behind(
    fences: Sequence[int], queue: Sequence[tuple[str, int | None]], allowed: PriorityRange
) -> PriorityRange:
    """Return the priorities below those that a person put in front of all of a queue, while there is room."""
    highest = max((priority for _, priority in queue if priority and allowed.ours(priority)), default=0)
    ahead = [fence for fence in fences if fence >= highest and fence - allowed.least >= 2 * len(queue)]
    return replace(allowed, most=min(ahead) - 1) if ahead else allowed


def plan_priorities(order: Sequence[tuple[str, int | None]], allowed: PriorityRange) -> list[tuple[str, int]]:
    """Return (job, priority) for the jobs of `order` whose priority has to change, first served first.

    `order` is (job, its present priority or None), the job to be served first at the front. Afterwards the
    priorities fall strictly along `order`, all within `allowed`. Raises ValueError when there are more jobs
    than priorities.
    """
    if len(order) > allowed.most - allowed.least + 1:
        raise ValueError(f"{len(order)} jobs, and priorities from {allowed.least} to {allowed.most}")
    kept = _with_room(order, _falling_run([priority for _, priority in order], allowed), allowed)
    targets = _fill(order, kept, allowed)
    return [(job, new) for (job, old), new in zip(order, targets, strict=True) if old != new]


def _with_room(
    order: Sequence[tuple[str, int | None]], run: Sequence[int], allowed: PriorityRange
) -> list[int]:
    """Return those of a falling run that leave room for all others in the gaps between them."""

    def priority_at(position: int) -> int:
        if position < 0:
            return allowed.most + 1
        present = order[position][1] if position < len(order) else allowed.least - 1
        assert present is not None  # noqa: S101  (those of the run have a priority)
        return present

    kept = [-1]
    for position in (*run, len(order)):
        dropped = False
        while True:
            between = position - kept[-1] - 1
            # Whoever has to move makes room for more than one to come.
            wanted = between + dropped * min(between, _SPARE)
            if priority_at(kept[-1]) - priority_at(position) - 1 >= wanted:
                kept.append(position)
                break
            if kept[-1] < 0:
                if position == len(order):  # all of the range, and just enough of it
                    kept.append(position)
                break
            kept.pop()
            dropped = True
    return kept[1:-1]


def _falling_run(present: Sequence[int | None], allowed: PriorityRange) -> list[int]:
    """Positions of a longest strictly falling run of usable priorities (patience sorting)."""
    tails: list[int] = []  # of the best run of each length: its last priority, negated
    last: list[int] = []  # and its position
    before: list[int] = [-1] * len(present)
    for at, priority in enumerate(present):
        if priority is None or not allowed.least <= priority <= allowed.most:
            continue
        length = bisect_left(tails, -priority)
        before[at] = last[length - 1] if length else -1
        if length == len(tails):
            tails.append(-priority)
            last.append(at)
        else:
            tails[length], last[length] = -priority, at
    run = []
    at = last[-1] if last else -1
    while at >= 0:
        run.append(at)
        at = before[at]
    return run[::-1]


def _fill(order: Sequence[tuple[str, int | None]], kept: Sequence[int], allowed: PriorityRange) -> list[int]:
    """Return the priorities of all, with those at `kept` unchanged."""
    if not kept:
        return _even(len(order), allowed)
    targets: list[int] = []
    step = max(1, (allowed.most - allowed.least) // _STEPS)
    above = allowed.most + 1
    start = 0
    for edge in (*kept, len(order)):
        below = order[edge][1] if edge < len(order) else allowed.least - 1
        assert below is not None  # noqa: S101  (kept jobs have a priority)
        jobs = edge - start
        gap = above - below
        near = min(step, gap // (jobs + 1))
        if edge == len(order):  # behind the last
            targets += [above - near * (1 + at) for at in range(jobs)]
        elif start == 0:  # before the first
            targets += [below + near * (jobs - at) for at in range(jobs)]
        else:
            targets += [above - gap * (1 + at) // (jobs + 1) for at in range(jobs)]
        if edge < len(order):
            targets.append(below)
        above, start = below, edge + 1
    return targets


def _even(jobs: int, allowed: PriorityRange) -> list[int]:
    margin = max(0, min((allowed.most - allowed.least) // 4, (allowed.most - allowed.least + 1 - jobs) // 2))
    least, most = allowed.least + margin, allowed.most - margin
    return [most + 1 - (most - least + 2) * (1 + at) // (jobs + 1) for at in range(jobs)]
