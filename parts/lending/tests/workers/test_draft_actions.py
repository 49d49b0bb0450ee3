"""Jobs that exchange GPUs find free what they take, whoever waits for whom."""

from types import SimpleNamespace
from typing import Any

from parts.lending.workers.draft_actions import actions_of
from simulator.cluster.placement import FreeGpus, Placement


def moves(before: Placement, after: Placement) -> Any:
    view = SimpleNamespace(placement=Placement.of(before), flexible=())
    return SimpleNamespace(view=view, placement=lambda: after, flexible_part=lambda: ())


def test_a_cycle_is_solved_behind_a_job_that_waits_for_it() -> None:
    jobs = [
        moves(((0, 8),), ((2, 4),)),  # gives up its own first, and still waits for the others
        moves(((2, 8),), ((3, 8),)),
        moves(((3, 8),), ((2, 4),)),
    ]
    free = FreeGpus(4, 8)
    for job in jobs:
        free.take(job.view.placement)
    held = {id(job.view): job.view.placement for job in jobs}
    nodes = SimpleNamespace(plan=free.copy)
    draft: Any = SimpleNamespace(running=jobs, starting=[], nodes=nodes, changes=lambda job: True)
    for action in actions_of(draft):
        free.give(held[id(action.job)])
        free.take(action.placement)
        held[id(action.job)] = action.placement
    assert [held[id(job.view)] for job in jobs] == [((2, 4),), ((3, 8),), ((2, 4),)]
