"""From a draft to the actions that make a pool so, in an order in which each finds free what it takes."""

from parts.lending.workers.draft import Draft, DraftedJob
from simulator.actions import Resize, Start
from simulator.cluster.placement import NOWHERE, FreeGpus, Placement, exchanged, without


class _Change:
    """One job's step, with the GPUs that it gives up and takes."""

    __slots__ = ("action", "gives", "takes")

    def __init__(self, action: Start | Resize, gives: Placement, takes: Placement) -> None:
        self.action = action
        self.gives = gives
        self.takes = takes


def actions_of(draft: Draft) -> list[Start | Resize]:
    """Return what a draft comes to.

    Jobs give up GPUs before others take them. Where jobs wait for each other's, one gives up its own first,
    and takes later.
    """
    waiting = [_resize(job) for job in draft.running if draft.changes(job)]
    waiting.sort(key=lambda change: bool(change.takes))
    waiting += map(_start, draft.starting)
    if not waiting:
        return []
    free = draft.nodes.plan()
    done: list[Start | Resize] = []
    while waiting:
        held_up = [change for change in waiting if not _took(change, free, done)]
        if len(held_up) == len(waiting):
            # One that has given up its own already waits for another's.
            first = next(i for i, change in enumerate(held_up) if change.gives)
            held_up[first] = _in_two(held_up[first], free, done)
        waiting = held_up
    return done


def _took(change: _Change, free: FreeGpus, done: list[Start | Resize]) -> bool:
    """Do a step if the GPUs that it takes are free."""
    if any(free.on_node(node) < gpus for node, gpus in change.takes):
        return False
    free.give(change.gives)
    free.take(change.takes)
    done.append(change.action)
    return True


def _start(job: DraftedJob) -> _Change:
    placement = job.placement()
    return _Change(Start(job.view, placement, flexible=job.flexible_part()), NOWHERE, placement)


def _resize(job: DraftedJob) -> _Change:
    after = job.placement()
    gives, takes = exchanged(job.view.placement or NOWHERE, after)
    return _Change(Resize(job.view, after, flexible=job.flexible_part()), gives, takes)


def _in_two(change: _Change, free: FreeGpus, done: list[Start | Resize]) -> _Change:
    """Have a job give up what it gives up; return the rest of its step."""
    view = change.action.job
    kept, flexible = without(view.placement or NOWHERE, change.gives), without(view.flexible, change.gives)
    done.append(Resize(view, kept, flexible=flexible))
    free.give(change.gives)
    return _Change(change.action, NOWHERE, change.takes)
