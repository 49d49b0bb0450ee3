"""Turns numbers of GPUs into actions: which job starts, grows, shrinks or stops, and on which nodes.

Gangs are placed as everywhere (`simulator.cluster.placement`): on as few nodes as possible. An elastic job
may be scattered over more nodes where nothing better is free, since it can do without a few of its GPUs at
any time; a rigid one waits for a place. What runs is moved as little as possible: it gives up GPUs where it
holds fewest, and grows where it is.
"""

from collections.abc import Mapping

from simulator.actions import Action, Preempt, Resize, Start
from simulator.cluster.placement import NOWHERE, FreeGpus, Placement, shrunk, without
from simulator.job_view import JobView
from simulator.snapshot import NodePool


class Placing:
    """Places what a rule wants of a pool; `actions`, `kept_out` and `left` are of the last time.

    `kept_out` are jobs for which GPUs are free, but scattered; `left` are the GPUs that no job uses. If
    `strict`, no job starts after the first that is kept out.
    """

    def __init__(self, pool: NodePool, now_s: float, *, resize_s: float, strict: bool) -> None:
        self._pool = pool
        self._strict = strict
        self._now_s = now_s
        self._resize_s = resize_s
        self.actions: list[Action] = []
        self.kept_out: set[JobView] = set()
        self.left = 0

    def place(self, wanted: Mapping[JobView, int]) -> None:  # noqa: C901, PLR0912
        """Find actions after which each job holds what is wanted, in the order of submission.

        Jobs that are not named keep what they hold.
        """
        plan = self._pool.plan()
        wanted = self._worth_while(wanted, plan.total)
        self.actions, self.kept_out = [], set()
        starts: list[JobView] = []
        grows: list[tuple[JobView, Placement, int]] = []
        for view, gpus in wanted.items():
            placement = view.placement
            if placement is None:
                if gpus:
                    starts.append(view)
                continue
            held = view.held_gpus
            if not gpus:
                self.actions.append(Preempt(view))
                plan.give(placement)
            elif gpus < held and _may_change(view):
                kept = shrunk(placement, gpus)
                self.actions.append(Resize(view, kept))
                plan.give(without(placement, kept))
            elif gpus > held and _may_change(view):
                grows.append((view, placement, gpus))
        wide = []
        for view, placement, gpus in grows:
            grown = _in_place(placement, gpus - view.held_gpus, plan)
            if grown is None:
                wide.append((view, placement, gpus))
            else:
                self._grow(view, placement, grown, plan)
        for view in starts:
            start_on = self._found(view, wanted[view], plan)
            if start_on is None:
                self.kept_out.add(view)
                if self._strict:
                    break
            else:
                plan.take(start_on)
                self.actions.append(Start(view, start_on))
        for view, placement, gpus in wide:
            grown = _scattered(placement, gpus - view.held_gpus, plan)
            if grown != placement:
                self._grow(view, placement, grown, plan)
        self.left = plan.total

    def _found(self, view: JobView, gpus: int, plan: FreeGpus) -> Placement | None:
        """Find GPUs to start on: on as few nodes as possible; an elastic job takes what there is."""
        placement = plan.find(gpus)
        if placement is None and view.elastic is not None:
            placement = _scattered(NOWHERE, min(gpus, plan.total), plan)
            if placement.gpus < view.min_gpus:
                return None
        return placement

    def _grow(self, view: JobView, before: Placement, after: Placement, plan: FreeGpus) -> None:
        plan.take(without(after, before))
        self.actions.append(Resize(view, after))

    def _worth_while(self, wanted: Mapping[JobView, int], free: int) -> Mapping[JobView, int]:
        """Leave out resizes that cost more than they bring.

        A job grows only if it then ends sooner, its pause included, and shrinks only if another job uses
        what it gives up.
        """
        if not self._resize_s:
            return wanted
        kept = dict(wanted)
        shrinks: list[JobView] = []
        for view, gpus in wanted.items():
            held = view.held_gpus
            if not held or not gpus:
                free += held - gpus
            elif gpus > held:
                remaining_s = view.remaining_at(self._now_s)
                if remaining_s / view.speed_on(gpus) + self._resize_s >= remaining_s / view.speed_on(held):
                    kept[view] = held
                else:
                    free -= gpus - held
            elif gpus < held:
                shrinks.append(view)
                free += held - gpus
        for view in shrinks:
            back = min(free, view.held_gpus - kept[view])
            if back > 0:
                kept[view] += back
                free -= back
        return kept


def _may_change(view: JobView) -> bool:
    return view.elastic is not None and view.partner is None and view.shareable and view.run_limit_s is None


def _in_place(placement: Placement, more: int, plan: FreeGpus) -> Placement | None:
    """Grow on the nodes that a job is on; None if they have too few."""
    grown = _on_own_nodes(placement, more, plan)
    return Placement.of(grown.items()) if sum(grown.values()) == placement.gpus + more else None


def _on_own_nodes(placement: Placement, more: int, plan: FreeGpus) -> dict[int, int]:
    grown = dict(placement)
    for node, _ in placement:
        free = min(more, plan.on_node(node)) if plan.is_present(node) else 0
        grown[node] += free
        more -= free
    return grown


def _scattered(placement: Placement, more: int, plan: FreeGpus) -> Placement:
    """Grow on the nodes that a job is on, then on others, those with most free first; as far as it goes."""
    grown = _on_own_nodes(placement, more, plan)
    more -= sum(grown.values()) - placement.gpus
    if more > 0:
        free = sorted(
            ((-gpus, node) for node, gpus in enumerate(plan.per_node()) if gpus > 0 and node not in grown)
        )
        # The last node is the fullest that is enough.
        while more > 0 and free:
            enough = [(-gpus, node) for gpus, node in free if -gpus >= more]
            gpus, node = min(enough) if enough else (-free[0][0], free[0][1])
            free.remove((-gpus, node))
            grown[node] = min(more, gpus)
            more -= grown[node]
    return Placement.of(grown.items())
