"""Who runs when jobs may be preempted: two ways to choose, shared by the preemptive policies.

Both answer with Preempt and Start actions.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Literal

from cluster_logs.errors import BadInputError
from simulator.actions import Action, Preempt, Start
from simulator.placement import FreeGpus, Placement
from simulator.policy import RunCosts
from simulator.snapshot import JobView, NodePool

Selection = Literal["fit", "quota"]
SELECTIONS: tuple[Selection, ...] = ("fit", "quota")

# Seconds that one preemption costs a job (Lucid, section 4.1, as measured for Tiresias).
PREEMPTION_OVERHEAD_S = 62.0


@dataclass(frozen=True)
class PreemptionSettings:
    """How a preemptive policy chooses, and what preemption costs.

    `selection` is "fit" (preempt only what makes room for a job that then starts) or "quota" (hand out the
    number of GPUs by priority, preempt whoever gets none, and only then look whether the others can be
    placed: the Lucid artifact's way). `preemption_multi_node_s` is the cost for jobs larger than a node,
    `preemption_single_gpu_s` for those on one GPU; None: the same.
    """

    selection: Selection = "fit"
    preemption_s: float = PREEMPTION_OVERHEAD_S
    preemption_multi_node_s: float | None = None
    completion_s: float = 0.0
    preemption_single_gpu_s: float | None = None

    def __post_init__(self) -> None:
        if self.selection not in SELECTIONS:
            raise BadInputError(
                f"selection is {self.selection!r}.", remedy=f"Choose one of: {', '.join(SELECTIONS)}."
            )
        self.costs()

    def costs(self) -> RunCosts:
        """Return the costs; raises BadInputError for one that is negative or infinite."""
        return RunCosts(
            preemption_s=self.preemption_s,
            preemption_single_gpu_s=self.preemption_single_gpu_s,
            preemption_multi_node_s=self.preemption_multi_node_s,
            completion_s=self.completion_s,
        )


def preempt_to_fit(pool: NodePool, rank: Callable[[JobView], Any]) -> list[Action]:
    """Start waiting jobs by priority, on free GPUs or on those of running jobs of strictly lower priority.

    Nobody is preempted for a job that does not start for it. Victims go lowest priority first (on ties, who
    started last), and a victim whose GPUs turn out not to be needed stays. A job that cannot start does not
    hold up later ones: it can preempt them as soon as that lets it start.

    `rank` gives a job's priority value now, waiting or running: lower is served earlier. The queue's order
    must be the order of `rank`.
    """
    plan = pool.plan()
    actions: list[Action] = []
    victims: list[JobView] | None = None  # lower in priority than the first job that found no GPUs
    ranks: list[Any] = []
    hopeless = plan.gpus_per_node * plan.nodes + 1  # demands from here on up find no room
    for job in pool.queue:
        if job.gpus >= hopeless:
            continue
        placement = plan.place(job.gpus)
        if placement is not None:
            actions.append(Start(job, placement))
            continue
        mine = rank(job)
        if victims is None:
            ranked = [(theirs, other) for other in pool.running if (theirs := rank(other)) > mine]
            ranked.sort(key=itemgetter(0))
            victims = [other for _, other in ranked]
            ranks = [theirs for theirs, _ in ranked]
        chosen, found = _make_room(plan, job.gpus, mine, victims, ranks)
        if found is None:
            # Later jobs have no higher priority, hence no more victims: as large a demand cannot fit either.
            hopeless = job.gpus
            if hopeless == 1:
                break
            continue
        actions.extend(Preempt(victims[i]) for i in chosen)
        for i in sorted(chosen, reverse=True):
            del victims[i], ranks[i]
        plan.take(found)
        actions.append(Start(job, found))
    return actions


def _make_room(
    plan: FreeGpus, gpus: int, mine: Any, victims: Sequence[JobView], ranks: Sequence[Any]
) -> tuple[list[int], Placement | None]:
    """Choose victims, from the end of the list, until a gang fits; free their GPUs in the plan.

    Returns their positions and the gang's place; no position and None, with the plan as it was, if even all
    victims of lower priority than `mine` are not enough.
    """
    chosen: list[int] = []
    found = None
    for i in range(len(victims) - 1, -1, -1):
        if not ranks[i] > mine:
            break
        plan.give(_placement(victims[i]))
        chosen.append(i)
        found = plan.find(gpus)
        if found is not None:
            break
    nodes = {node for node, _ in found or ()}
    needed = []
    for i in chosen:
        placement = _placement(victims[i])
        if nodes.isdisjoint([node for node, _ in placement]):
            plan.take(placement)
        else:
            needed.append(i)
    return needed, found


def quota_walk(pool: NodePool, ordered: Iterable[JobView]) -> list[Action]:
    """Hand out the pool's number of GPUs in order, ignoring fragmentation; preempt, then place.

    A job over the quota is skipped if it waits and preempted if it runs; the walk goes on. The waiting jobs
    that got a share are then placed in order, past failures; one that cannot be placed keeps its share.
    """
    quota = pool.total_gpus
    chosen: list[JobView] = []
    actions: list[Action] = []
    running = pool.running
    left = len(running)
    plan = pool.plan()
    for job in ordered:
        runs = job in running
        left -= runs
        if job.gpus <= quota:
            quota -= job.gpus
            if not runs:
                chosen.append(job)
        elif runs:
            actions.append(Preempt(job))
            plan.give(_placement(job))
        if not quota and not left:
            break
    for job in chosen:
        placement = plan.place(job.gpus)
        if placement is not None:
            actions.append(Start(job, placement))
    return actions


def _placement(job: JobView) -> Placement:
    if job.placement is None:
        raise ValueError(f"{job!r} has no GPUs")
    return job.placement
