"""Where a simulation begins, if not in an empty cluster: what runs and waits, and which GPUs are free.

`Simulation.state()` takes it from a simulation that runs; a live scheduler makes it of its cluster. A
simulation that goes on from the state of another gives every job the same starts and ends as the other does,
unless its policy remembers more than it can hand over (`Policy.history`). A state is only ever copied, so any
number of simulations can begin with it.
"""

from collections.abc import Collection, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any

from foundation.errors import BadInputError, UnknownNameError
from simulator.cluster.changes import Repair
from simulator.cluster.placement import NOWHERE, Placement, Remainder, free_gpus
from simulator.job_view import JobView
from simulator.scenario.agenda import Event, EventKind
from simulator.scenario.companion import Companion, CompanionEvent
from simulator.scenario.placed_workers import PlacedWorkers
from simulator.snapshot import ASLEEP, BOOTING, NodePool
from simulator.workload.workload import Workload

# An event to come: when (s), its kind, and its subject (a job, the pool to decide in, a repair, ...).
Foreseen = tuple[float, EventKind, "JobView | str | Repair | CompanionEvent"]


@dataclass(frozen=True, slots=True, eq=False)
class PoolNodes:
    """The nodes of a pool, those included that are not on offer.

    `taken` are GPUs that no job of the simulation holds and that stay taken: nodes that are smaller than the
    others, jobs that are not simulated. `sizes`: the GPUs of each node, where they differ. `closed` says for
    which reasons a node is off the offer (its jobs run on), `guests` which nodes are on loan: own index ->
    (the pool that lent it, its index there).
    """

    nodes: int
    gpus_per_node: int
    taken: Placement = NOWHERE
    sizes: tuple[int, ...] = ()
    closed: Mapping[int, frozenset[str]] = field(default_factory=dict)
    guests: Mapping[int, tuple[str, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class InitialState:
    """A cluster at `at_s`.

    `running` are the jobs that run, in the order of their starts, and `waiting` those that wait, in the order
    in which they began to: views that say in which pool (`JobView.pool`), on which GPUs (`placement`), beside
    which job (`partner`), for how long already (`attained_s`, as of `run_since_s`) and for how much longer
    (`remaining_s`, at full speed). `JobView.index` orders all of them by submission.

    `nodes` describes pools; one that is not named has the nodes that the cluster says, all on offer.
    `foreseen` is what is to happen, in order; None: jobs end when their work is done, and the policy is asked
    at once. `failures` are the node failures so far. `set_aside`: how many nodes of each virtual cluster a
    policy took for itself when the cluster was new (size changes and failures count them). `submitted`: jobs
    so far; no later job gets their indices. `duration_s`: true run times in the place of the views' own, by
    job id. `history` is what the policy remembers, and `companions` what each of these does, by its
    key (`Attached.memory`); one that is not named begins anew.
    """

    at_s: float
    running: tuple[JobView, ...] = ()
    waiting: tuple[JobView, ...] = ()
    nodes: Mapping[str, PoolNodes] = field(default_factory=dict)
    foreseen: tuple[Foreseen, ...] | None = None
    failures: int = 0
    set_aside: Mapping[str, int] = field(default_factory=dict)
    submitted: int = 0
    duration_s: Mapping[str, float] = field(default_factory=dict)
    history: Any = None
    companions: Mapping[str, Any] = field(default_factory=dict)

    def with_durations(self, duration_s: Mapping[str, float]) -> "InitialState":
        """Return the same cluster with other true run times (s), by job id; those not named stay.

        A job that has run keeps what it attained: what it has left changes by the difference, and is never
        below zero. When jobs end is foreseen anew.
        """
        kept = None
        if self.foreseen is not None:
            kept = tuple(event for event in self.foreseen if not isinstance(event[2], JobView))
        return replace(self, duration_s={**self.duration_s, **duration_s}, foreseen=kept)

    def begun(self) -> dict[JobView, JobView]:
        """Return a copy of each view, with the run time that counts, and partners as copies of each other."""
        copies = copied((*self.running, *self.waiting))
        duration_s = self.duration_s
        if duration_s:
            for view in copies.values():
                job = view.job
                true_s = duration_s.get(job.job_id)
                if true_s is not None and true_s != job.duration_s:
                    view.remaining_s = max(0.0, view.remaining_s + true_s - job.duration_s)
                    view.job = job.lasting(true_s)
        return copies


def jobs_begun(initial: InitialState | None, workload: Workload) -> dict[JobView, JobView]:
    """Copy the jobs that a simulation begins with; raises BadInputError if time would run back."""
    if initial is None:
        return {}
    if workload.jobs and workload.jobs[0].submit_time_s < initial.at_s:
        raise BadInputError(
            f"Job {workload.jobs[0].job_id!r} is submitted at {workload.jobs[0].submit_time_s} s, and the "
            f"simulation begins at {initial.at_s} s.",
            remedy="Put it among those that wait or run.",
        )
    return initial.begun()


def refuse_lasting_sleep(initial: InitialState, companions: Iterable[Companion]) -> None:
    """Raise BadInputError when nodes sleep or boot from the start, and no companion is to wake them."""
    if any(companion.wakes for companion in companions):
        return
    if any(
        not reasons.isdisjoint((ASLEEP, BOOTING))
        for nodes in initial.nodes.values()
        for reasons in nodes.closed.values()
    ):
        raise BadInputError(
            "Nodes of the initial state sleep or boot, and the scenario has nothing that wakes them.",
            remedy="Add the companion; a control that is off wakes all.",
        )


def copied(views: Iterable[JobView]) -> dict[JobView, JobView]:
    """Return a copy of each view, partners as copies of each other."""
    copies = {view: view.copy() for view in views}
    for view, copy in copies.items():
        if view.partner is not None:
            copy.partner = copies[view.partner]
    return copies


def foreseen_of(
    events: Iterable[Event],
    wakes: Mapping[NodePool, float],
    changed: Collection[NodePool],
    copies: Mapping[JobView, JobView],
) -> list[Foreseen]:
    """Return what is to happen of the events of an agenda, with copies in the place of jobs.

    `wakes` says when the policy is asked next in which pool; it is asked now in those that `changed`.
    """
    foreseen: list[Foreseen] = []
    for at_s, kind, _, subject, version in sorted(events, key=itemgetter(0, 1, 2)):
        if kind == EventKind.WAKE:
            if wakes.get(subject) == at_s and subject not in changed:
                foreseen.append((at_s, EventKind.WAKE, subject.name))
        elif isinstance(subject, Repair | CompanionEvent):
            foreseen.append((at_s, EventKind.CLUSTER, subject))
        elif kind < EventKind.CANCEL and subject.version == version:
            foreseen.append((at_s, EventKind(kind), copies[subject]))
    return foreseen


def handed_over(memory: Any, places: Mapping[Any, Any]) -> Any:
    """Copy what a policy remembers, with other jobs and pools in the place of those that it knows."""
    if memory is None:
        return None
    return deepcopy(memory, {id(known): other for known, other in places.items()})


def nodes_of(pool: NodePool) -> PoolNodes:
    """Describe the nodes of a pool as they are."""
    held = [0] * pool.free.nodes
    for view in pool.running:
        if view.counts_for_pair:
            for node, gpus in view.placement or ():
                held[node] += gpus
    free = pool.free
    taken = tuple((node, free.size_of(node) - free.on_node(node) - gpus) for node, gpus in enumerate(held))
    return PoolNodes(
        nodes=free.nodes,
        gpus_per_node=free.gpus_per_node,
        sizes=() if free.has_equal_nodes else tuple(map(free.size_of, range(free.nodes))),
        taken=Placement.of((node, gpus) for node, gpus in taken if gpus),
        closed=pool.closed_nodes(),
        guests={own: (home.name, node) for own, (home, node) in pool.guests.items()},
    )


def begin_in(
    pools: dict[str, NodePool],
    initial: InitialState,
    running: Iterable[JobView],
    workers: PlacedWorkers,
    remainder: Remainder,
) -> None:
    """Give pools the nodes that a state describes, and let its running jobs hold their GPUs.

    Raises BadInputError when GPUs are not there, or are none on which a job can run.
    """
    for name, nodes in initial.nodes.items():
        masks = pools[name].masks if name in pools else {}
        pools[name] = _make_pool(name, nodes, remainder)
        pools[name].masks = masks
    for name, described in initial.nodes.items():
        pools[name].guests.update(
            {own: (pools[home], node) for own, (home, node) in described.guests.items()}
        )
    for view in running:
        _occupy(pool_with(pools, view), view, workers)
    for name, described in initial.nodes.items():  # what runs on nodes off the offer runs on
        for node, reasons in described.closed.items():
            for reason in sorted(reasons):
                pools[name].close(node, reason)


def _make_pool(name: str, nodes: PoolNodes, remainder: Remainder) -> NodePool:
    """Make a pool with these nodes, all on offer so far; what is taken is taken."""
    sizes = nodes.sizes or (nodes.gpus_per_node,) * nodes.nodes
    pool = NodePool(name, free_gpus(sizes, nodes.gpus_per_node, remainder))
    _take(pool, nodes.taken, "something else")
    return pool


def _occupy(pool: NodePool, view: JobView, workers: PlacedWorkers) -> None:
    """Let a running job hold its GPUs."""
    placed, job = view.held_gpus, view.job
    if job.workers is not None:  # on loaned servers several do the work of one
        try:
            workers.speed(view, pool, view.placement or NOWHERE, view.flexible)
        except ValueError as error:
            raise BadInputError(f"Job {job.job_id!r} cannot run where it does: {error}.") from error
    elif not view.min_gpus <= placed <= view.gpus:
        needs = f"{view.min_gpus} to {view.gpus}" if view.min_gpus < view.gpus else str(view.gpus)
        raise BadInputError(f"Job {job.job_id!r} runs on {placed} GPUs, and needs {needs}.")
    if view.counts_for_pair:
        _take(pool, view.placement or NOWHERE, f"job {job.job_id!r}")
    pool.running[view] = None


def pool_with(pools: Mapping[str, NodePool], view: JobView) -> NodePool:
    """Return the pool that a job runs or waits in; raises UnknownNameError when there is none."""
    pool = pools.get(view.pool)
    if pool is None:
        raise UnknownNameError(f"pool of job {view.job.job_id!r}:", view.pool, pools)
    return pool


def _take(pool: NodePool, placement: Placement, holder: str) -> None:
    try:
        pool.free.take(placement)
    except (ValueError, IndexError) as error:
        raise BadInputError(f"In {pool.name!r} {holder} holds GPUs that are not there: {error}.") from error
