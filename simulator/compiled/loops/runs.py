"""The runs of a pool in the order of the ends that are believed."""

from math import inf

from simulator.compiled.loops.beliefs import longer_s
from simulator.compiled.loops.demands import put
from simulator.compiled.loops.jit import inlined
from simulator.compiled.loops.world import Runs, World


@inlined
def _place_of(runs: Runs, pool: int, end_s: float, job: int) -> int:
    """Return where a run belongs in the list of its pool."""
    low = runs.at[pool]
    high = low + runs.length[pool]
    while low < high:
        middle = (low + high) >> 1
        other_s = runs.end_s[middle]
        if other_s < end_s or (other_s == end_s and runs.jobs[middle] < job):
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def add_run(world: World, pool: int, job: int) -> None:
    """Take note of a run that begins, or that lasts longer than was believed."""
    runs = world.runs
    end_s = runs.start_s[job] + runs.belief_s[job]
    here = _place_of(runs, pool, end_s, job)
    last = runs.at[pool] + runs.length[pool]
    runs.length[pool] += 1
    for i in range(last, here, -1):
        runs.end_s[i] = runs.end_s[i - 1]
    for i in range(last, here, -1):
        runs.jobs[i] = runs.jobs[i - 1]
    runs.end_s[here] = end_s
    runs.jobs[here] = job
    world.gaps.shadow_s[pool] = -1.0


@inlined
def drop_run(world: World, pool: int, job: int) -> None:
    """Take note that a run is over."""
    runs = world.runs
    here = _place_of(runs, pool, runs.start_s[job] + runs.belief_s[job], job)
    runs.length[pool] -= 1
    last = runs.at[pool] + runs.length[pool]
    for i in range(here, last):
        runs.end_s[i] = runs.end_s[i + 1]
    for i in range(here, last):
        runs.jobs[i] = runs.jobs[i + 1]
    world.gaps.shadow_s[pool] = -1.0


@inlined
def begin_run(world: World, pool: int, job: int, belief_s: float, now_s: float) -> None:
    """Take note that a job that waited runs, for as long as is believed."""
    put(world.demands, job, inf)
    world.demands.waiting[world.demands.of[job]] -= 1
    runs = world.runs
    runs.start_s[job] = now_s
    runs.belief_s[job] = belief_s
    runs.outlived[job] = 0
    add_run(world, pool, job)


@inlined
def follow(world: World, pool: int, now_s: float) -> None:
    """Believe longer in the jobs that outlived what was believed."""
    runs = world.runs
    at = runs.at[pool]
    while runs.length[pool] > 0 and runs.end_s[at] <= now_s:
        job = runs.jobs[at]
        drop_run(world, pool, job)
        while runs.start_s[job] + runs.belief_s[job] <= now_s:
            runs.belief_s[job] = longer_s(world.beliefs, job, runs.belief_s[job], runs.outlived[job])
            runs.outlived[job] += 1
        add_run(world, pool, job)
