"""How rules of allocation hand out whole GPUs to jobs that need a minimum of them.

In fractions every share can be met to the letter. Whole GPUs, and jobs that run on all of theirs or not at
all, leave choices. These are ours, and why:

1. **What runs keeps its minimum.** FIFO and PCS preempt no job: a rigid job (its minimum is its demand) runs
   to its end, an elastic one shrinks to its minimum at most. Rules that preempt by nature (SRSF, Themis, AFS)
   serve all jobs from zero at each event and do not come here.
2. **Shares of classes are rounded by largest remainder**, so that they sum to the pool. Where rule 1 has a
   class hold more than that, the classes that are least below their share give way.
3. **A class that runs nothing is furthest below its share**, however small that is: its first job starts
   before others grow, as soon as its minimum is there once all that runs has shrunk. Several such classes
   go by the earliest submission. So a class with a share below the minimum of its jobs runs one of them
   at a time: more than its share while that job runs, never nothing for good. Without a record of the past no
   rule can do better: what a class has had before shows in no job that is still there.
4. **Within a class jobs start in the order of submission**, and none in it overtakes the first that waits:
   what runs ends in time, and makes room.
5. **What is left over is used** (work conservation): by waiting jobs with a minimum that fits, the class
   first that holds least of its share, then by jobs that can grow.
6. **No job starves of rule 5.** A first job that rule 3 would start, and that does not fit because others run
   on their minimum, is overtaken for no longer than its class' share would take to do its work, as far as it
   can use it. From then on no job starts that was submitted after it.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import floor, inf
from typing import Protocol

from parts.elastic.active_job import ActiveJob


class Claimant(Protocol):
    """A job that waits, as classes are weighed against each other."""

    @property
    def index(self) -> int:
        """Its position in the order of submission."""

    @property
    def min_gpus(self) -> int:
        """The fewest GPUs that it is content with."""


def least_gpus(job: Claimant) -> int:
    """Return the fewest GPUs that a job runs on."""
    return max(1, job.min_gpus)


def in_turn(jobs: Sequence[ActiveJob], gpus: int) -> list[float]:
    """Serve jobs in their order, strictly: none starts before the first that waits has its minimum.

    So a later job never delays an earlier one. What runs keeps its minimum all the same: a job that lost its
    node may wait while later ones run.
    """
    free_gpus = gpus - sum(least_gpus(job) for job in jobs if job.gpus)
    given, _ = _serve(jobs, free_gpus, [job.demand for job in jobs])
    return given


def whole_shares(
    queues: Sequence[Sequence[ActiveJob]], shares: Sequence[float], gpus: int, now_s: float
) -> dict[ActiveJob, float]:
    """Hand out a pool to classes of jobs; each queue is in the order of submission.

    `shares` are the classes' parts of the pool, in fractions (water-filling). `ActiveJob.caps` are the most
    GPUs that a job is given, level by level, until its class' share is used.
    """
    held = [sum([job.min_gpus or 1 for job in queue if job.gpus]) for queue in queues]
    heads = [next((job for job in queue if not job.gpus), None) for queue in queues]
    budgets, kept_out = class_budgets(tuple(shares), tuple(held), idle_heads(held, heads), gpus)
    barrier = min(
        (
            head.index
            for at, (head, share) in enumerate(zip(heads, shares, strict=True))
            if head is not None
            and at in kept_out
            and (now_s - head.submit_time_s) * min(share, head.demand) >= head.service_s
        ),
        default=inf,
    )
    given: dict[ActiveJob, float] = {}
    for queue, budget, own in zip(queues, budgets, held, strict=True):
        given.update(zip(queue, _within(queue, budget - own, barrier), strict=True))
    _use_up(queues, shares, given, gpus - round(sum(given.values())), barrier)
    return given


def rounded(shares: Sequence[float], gpus: int) -> list[int]:
    """Round shares to whole GPUs by largest remainder; ties go to the first."""
    whole = [floor(share + 1e-9) for share in shares]
    free_gpus = min(gpus, round(sum(shares))) - sum(whole)
    by_remainder = sorted(range(len(shares)), key=lambda at: (whole[at] - shares[at], at))
    for at in by_remainder[: max(0, free_gpus)]:
        whole[at] += 1
    return whole


def idle_heads(held: Sequence[int], heads: Sequence[Claimant | None]) -> tuple[tuple[int, int], ...]:
    """Return the classes that run nothing and have a job wait, by their first: (class, minimum)."""
    idle = [(head.index, at, least_gpus(head)) for at, head in enumerate(heads) if head and not held[at]]
    idle.sort()
    return tuple((at, least) for _, at, least in idle)


@lru_cache(maxsize=100_000)  # forward plays meet the same classes again and again
def class_budgets(
    shares: tuple[float, ...], held: tuple[int, ...], idle: tuple[tuple[int, int], ...], gpus: int
) -> tuple[tuple[int, ...], frozenset[int]]:
    """Return each class' GPUs (rules 1 to 3), and the classes with a first job that rule 3 cannot start.

    `idle` is what `idle_heads` says.
    """
    budgets = [max(own, target) for own, target in zip(held, rounded(shares, gpus), strict=True)]
    floors = list(held)
    kept_out = set()
    for at, least in idle:
        if sum(floors) + least <= gpus:
            floors[at] = least
            budgets[at] = max(budgets[at], least)
        else:
            kept_out.add(at)
    over = sum(budgets) - gpus
    while over > 0:
        givers = [at for at in range(len(budgets)) if budgets[at] > floors[at]]
        over_share = sorted(((budgets[at] - shares[at], -at) for at in givers), reverse=True)
        at = -over_share[0][1]
        # One after the other, all at once as long as no other is further above its share.
        alone = int(over_share[0][0] - over_share[1][0]) if len(givers) > 1 else over
        given = min(over, budgets[at] - floors[at], max(1, alone))
        budgets[at] -= given
        over -= given
    return tuple(budgets), frozenset(kept_out)


def _within(queue: Sequence[ActiveJob], free_gpus: int, barrier: float) -> list[float]:
    """Serve a class from the front, capped; relax the caps until its GPUs are used (rule 4).

    `free_gpus` is what its running jobs leave on their minimum.
    """
    given: list[float] = []
    for level in range(len(queue[0].caps) if queue else 0):
        given, unused = _serve(queue, free_gpus, [job.caps[level] for job in queue], barrier)
        if not unused:
            break
    return given


def _serve(
    jobs: Sequence[ActiveJob], free_gpus: int, caps: Sequence[float], barrier: float = inf
) -> tuple[list[float], int]:
    """Serve jobs in their order, those that run from their minimum on; return what is left too."""
    given: list[float] = []
    blocked = False
    running = sum([job.gpus > 0 for job in jobs])
    for job, cap in zip(jobs, caps, strict=True):
        least = job.min_gpus or 1
        if job.gpus:
            running -= 1
        else:
            blocked = blocked or free_gpus < least or job.index > barrier
            if blocked and not running:  # no job after it gets anything
                given += [0.0] * (len(jobs) - len(given))
                break
            if blocked:
                given.append(0.0)
                continue
            free_gpus -= least
        more = min(free_gpus, max(0, int(cap) - least))
        free_gpus -= more
        given.append(float(least + more))
    return given, free_gpus


def _use_up(
    queues: Sequence[Sequence[ActiveJob]],
    shares: Sequence[float],
    given: dict[ActiveJob, float],
    free_gpus: int,
    barrier: float,
) -> None:
    """Let others use what a class has no use for at present (rules 5 and 6)."""
    if free_gpus <= 0:
        return
    have = [sum(given[job] for job in queue) for queue in queues]
    order = sorted(range(len(queues)), key=lambda at: (have[at] / shares[at] if shares[at] else inf, at))
    ranked = [job for at in order for job in queues[at]]
    for job in ranked:
        least = least_gpus(job)
        if not given[job] and least <= free_gpus and job.index <= barrier:
            given[job] = float(least)
            free_gpus -= least
    for job in ranked:
        if not free_gpus:
            return
        if given[job]:
            more = min(free_gpus, job.demand - int(given[job]))
            given[job] += more
            free_gpus -= more
