"""Which jobs run when they may be preempted: two ways to choose, shared by the preemptive policies.

Both answer with Preempt and Start actions.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar, Literal

from foundation.checked_settings import CheckedSettings
from simulator.actions import Action, Preempt, Start
from simulator.cluster.placement import Demand, FreeGpus, Placement
from simulator.column_rule import ColumnRule, PreemptionRule
from simulator.job_queue import Entry, QueueWalk
from simulator.job_view import JobView
from simulator.mechanisms.freed_gpus import FreedGpus
from simulator.policy import Policy, RunCosts
from simulator.running_order import RunningOrder
from simulator.snapshot import NodePool, Snapshot

# Seconds that one preemption costs a job (Lucid, section 4.1, as measured for Tiresias).
PREEMPTION_OVERHEAD_S = 62.0


@dataclass(frozen=True)
class PreemptionSettings(CheckedSettings):
    """How a preemptive policy chooses, and what preemption costs.

    `selection` is "fit" (preempt only what makes room for a job that then starts) or "quota" (hand out the
    number of GPUs by priority, preempt what gets none, and only then look whether the others can be
    placed: the Lucid artifact's way). `preemption_multi_node_s` is the cost for jobs larger than a node,
    `preemption_single_gpu_s` for those on one GPU; None: the same.
    """

    selection: Literal["fit", "quota"] = "fit"
    preemption_s: float = PREEMPTION_OVERHEAD_S
    preemption_multi_node_s: float | None = None
    completion_s: float = 0.0
    preemption_single_gpu_s: float | None = None

    def costs(self) -> RunCosts:
        """Return what preemption and completion cost."""
        return RunCosts(
            preemption_s=self.preemption_s,
            preemption_single_gpu_s=self.preemption_single_gpu_s,
            preemption_multi_node_s=self.preemption_multi_node_s,
            completion_s=self.completion_s,
        )


def preempt_to_fit(pool: NodePool, now_s: float, limit_of: Callable[[Any], Any]) -> list[Action]:
    """Start waiting jobs by priority, on free GPUs or on those of running jobs of strictly lower priority.

    No job is preempted for one that does not start for it. Victims go lowest priority first (on ties, the
    last started), and a victim stays if its GPUs turn out not to be needed. A job that cannot start does not
    hold up later ones: it can preempt them as soon as that lets it start.

    `limit_of` turns a waiting job's priority into the running key (`Policy.running_key`) that stands for the
    same rank now; the two orders must agree.
    """
    order = _order(pool)
    order.at(now_s)
    if pool.masks or not pool.free.has_equal_nodes:
        return _fit_on_own_nodes(pool, now_s, limit_of)
    newcomers = pool.queue.take_newcomers()
    if order.settled == pool.free.gains:
        # Nothing became free since no job could start, and what runs only gains in rank: jobs that waited
        # then still cannot.
        actions = _start_newcomers(pool, newcomers, now_s, limit_of)
        if actions is not None:
            return actions
    actions = _fit(pool, pool.queue.walk(), now_s, limit_of)
    # The policy's own preemptions are known to help no other job.
    order.settled = pool.free.gains + sum(isinstance(action, Preempt) for action in actions)
    return actions


def _start_newcomers(
    pool: NodePool, newcomers: list[JobView], now_s: float, limit_of: Callable[[Any], Any]
) -> list[Action] | None:
    """Start those that may; None when that could let a job start that has waited before."""
    # Some have left meanwhile, or come twice.
    entries = {job: job.queue_entry for job in newcomers if job.queue_entry and job.pool == pool.name}
    walk = QueueWalk((job.gpus, iter((entry,))) for job, entry in entries.items())
    actions = _fit(pool, walk, now_s, limit_of)
    preempted = [action.job for action in actions if isinstance(action, Preempt)]
    if preempted:
        order = _order(pool)
        started = [action.job for action in actions if isinstance(action, Start)]
        # One job that takes one other's GPUs on a node leaves no other more than there was.
        one_for_one = len(preempted) == len(started) == 1 and started[0].gpus <= pool.free.gpus_per_node
        if not one_for_one or preempted[0].gpus > started[0].gpus:
            return None
        order.settled = pool.free.gains + 1
    return actions


def _fit(pool: NodePool, walk: QueueWalk, now_s: float, limit_of: Callable[[Any], Any]) -> list[Action]:
    order = _order(pool)
    plan = pool.free
    actions: list[Action] = []
    victims: list[Entry] | None = None  # lower in priority than the first job that found no GPUs
    for priority, _, job in walk:
        gpus = job.gpus
        placement = plan.find(gpus)
        if placement is None:
            limit = limit_of(priority)
            if victims is None:
                victims = order.after(limit, now_s)
            victims_needed, placement = _make_room(plan, gpus, limit, victims)
            if placement is None:
                # Later jobs have no higher priority, hence no more victims: as large a demand cannot fit.
                walk.below = gpus
                continue
            if plan is pool.free:
                plan = pool.plan()
            actions += _evicted(plan, victims, victims_needed)
        elif plan is pool.free:
            plan = pool.plan()
        plan.take(placement)
        actions.append(Start(job, placement))
    return actions


def _fit_on_own_nodes(pool: NodePool, now_s: float, limit_of: Callable[[Any], Any]) -> list[Action]:
    """Do so where nodes differ in size or are shared: a larger job may fit, and another's nodes be free.

    Each demand is looked at until a job of it finds no room: later ones have no higher priority.
    """
    order = _order(pool)
    plan = pool.plan()
    actions: list[Action] = []
    victims: list[Entry] | None = None
    refused: set[Demand] = set()
    for priority, _, job in pool.queue.entries():
        demand = (job.gpus, job.nodes)
        if demand in refused:
            continue
        placement = plan.find(*demand)
        if placement is None:
            limit = limit_of(priority)
            if victims is None:
                victims = order.after(limit, now_s)
            needed, placement = _make_room_among(plan, demand, limit, victims)
            if placement is None:
                refused.add(demand)
                continue
            actions += _evicted(plan, victims, needed)
        plan.take(placement)
        actions.append(Start(job, placement))
    return actions


def _evicted(plan: FreeGpus, victims: list[Entry], needed: Sequence[int]) -> list[Action]:
    """Take the victims at these positions out of the list, and give their GPUs to the plan."""
    chosen = [victims[i][2] for i in needed]
    for victim in chosen:
        plan.give(_placement(victim))
    for i in sorted(needed, reverse=True):
        del victims[i]
    return [Preempt(victim) for victim in chosen]


def _make_room_among(
    plan: FreeGpus, demand: Demand, limit: Any, victims: Sequence[Entry]
) -> tuple[list[int], Placement | None]:
    """Choose victims, from the end of the list, until a gang fits on the nodes that it may use."""
    trial: FreeGpus | None = None
    for i in range(len(victims) - 1, -1, -1):
        key, _, job = victims[i]
        if not key > limit:
            break
        trial = plan.copy() if trial is None else trial
        trial.give(_placement(job))
        placement = trial.find(*demand)
        if placement is not None:
            return _in_the_way(victims, i, placement), placement
    return [], None


def _make_room(
    plan: FreeGpus, gpus: int, limit: Any, victims: Sequence[Entry]
) -> tuple[list[int], Placement | None]:
    """Choose victims, from the end of the list, until a gang that does not fit now does.

    Returns their positions and the gang's place; no position and None if even all victims with a key
    greater than `limit` are not enough.
    """
    if not victims or not victims[-1][0] > limit:
        return [], None
    if gpus > plan.gpus_per_node:
        return _make_room_on_many(plan, gpus, limit, victims)
    freed = FreedGpus(plan, gpus)
    for i in range(len(victims) - 1, -1, -1):
        key, _, job = victims[i]
        if not key > limit:
            break
        fitting = freed.give(_placement(job))
        if fitting:
            # Where consolidated placement would put it: the fullest node that fits, the lowest on ties.
            node, _ = freed.fullest(fitting)
            placement = Placement(((1 << node, gpus),), gpus)
            return _in_the_way(victims, i, placement), placement
    return [], None


def _make_room_on_many(
    plan: FreeGpus, gpus: int, limit: Any, victims: Sequence[Entry]
) -> tuple[list[int], Placement | None]:
    """The same for a gang that needs more than one node."""
    size = plan.gpus_per_node
    whole = gpus // size
    idle = plan.idle_count
    freed = FreedGpus(plan, size)
    trial: FreeGpus | None = None
    for i in range(len(victims) - 1, -1, -1):
        key, _, job = victims[i]
        if not key > limit:
            break
        idle += freed.give(_placement(job)).bit_count()
        # No trial placement before there are enough idle nodes, which is the rarer of the two conditions.
        if idle < whole:
            continue
        if trial is None:
            trial = plan.copy()
            for _, _, victim in victims[i:]:
                trial.give(_placement(victim))
        else:
            trial.give(_placement(job))
        placement = trial.find(gpus)
        if placement is not None:
            return _in_the_way(victims, i, placement), placement
    return [], None


def _in_the_way(victims: Sequence[Entry], first: int, placement: Placement) -> list[int]:
    """Return the positions, from the end of the list to `first`, of the victims on nodes of a placement."""
    # The other victims gave up their GPUs in the trial only: they run on.
    nodes = placement.nodes
    return [at for at in range(len(victims) - 1, first - 1, -1) if nodes & _placement(victims[at][2]).nodes]


def quota_walk(
    pool: NodePool, now_s: float, limit_of: Callable[[Any], Any], *, waiting_first: bool
) -> list[Action]:
    """Hand out the pool's number of GPUs in order, ignoring fragmentation; preempt, then place.

    A job over the quota is skipped if it waits and preempted if it runs; the walk goes on. The waiting jobs
    that got a share are then placed in order, past failures; one that cannot be placed keeps its share.
    `waiting_first`: waiting jobs go first on ties; `limit_of` is as for `preempt_to_fit`.

    Most running jobs keep their share without being looked at: with `slack` GPUs that no job holds or was
    promised (below zero: promised twice), the quota left at a place in the order is `slack` and the GPUs of
    the running jobs from there on, so only the end of the order, where that is little, matters.
    """
    order = _order(pool)
    running = order.at(now_s)
    slack = pool.total_gpus - order.gpus
    ends = [0]  # GPUs of the last 0, 1, 2 ... running jobs, as far as they were needed
    count = len(running)
    settled = 0  # running jobs before it have been looked at
    with_share: list[JobView] = []
    preempted: list[JobView] = []
    walk = pool.queue.walk()
    for priority, _, job in walk:
        limit = limit_of(priority)
        # A shorter tuple comes before, and (limit, inf) after, all entries of that key.
        place = bisect_left(running, (limit,) if waiting_first else (limit, inf))
        after = count - place
        gpus = job.gpus
        while len(ends) <= after and ends[-1] + slack < gpus:
            ends.append(ends[-1] + running[-len(ends)][2].gpus)
        quota = slack + (ends[after] if after < len(ends) else ends[-1])
        if quota < 0:
            slack = _skip_running(running, settled, place, ends, slack, preempted)
            settled = place
            quota = slack + ends[after]
        if gpus <= quota:
            slack -= gpus
            with_share.append(job)
        elif quota:
            walk.below = gpus  # the quota only falls
        else:
            break
    if slack < 0:
        _skip_running(running, settled, count, ends, slack, preempted)
    plan = pool.free
    actions: list[Action] = []
    if preempted:
        plan = pool.plan()
        for job in preempted:
            actions.append(Preempt(job))
            plan.give(_placement(job))
    for job in with_share:
        placement = plan.find(job.gpus, job.nodes)
        if placement is not None:
            if plan is pool.free:
                plan = pool.plan()
            plan.take(placement)
            actions.append(Start(job, placement))
    return actions


def _skip_running(
    running: Sequence[Entry], start: int, stop: int, ends: list[int], slack: int, preempted: list[JobView]
) -> int:
    """Preempt those of running[start:stop] that are over the quota; return the slack afterwards."""
    count = len(running)
    while ends[-1] + slack < 0 or len(ends) <= count - stop:
        ends.append(ends[-1] + running[-len(ends)][2].gpus)
    # A job keeps its share when what comes after it covers the GPUs promised twice.
    for i in range(max(start, count - bisect_left(ends, -slack)), stop):
        if ends[count - i - 1] + slack < 0:
            job = running[i][2]
            slack += job.gpus
            preempted.append(job)
    return slack


def _order(pool: NodePool) -> RunningOrder:
    if pool.running_order is None:
        raise ValueError(
            f"pool {pool.name!r} keeps no order of running jobs: the policy declares no running_key"
        )
    return pool.running_order


def _placement(job: JobView) -> Placement:
    if job.placement is None:
        raise ValueError(f"{job!r} has no GPUs")
    return job.placement


class PreemptivePolicy(Policy):
    """Ranks waiting jobs (`priority`) and running ones (`running_key`); the highest ranks hold the GPUs.

    `waiting_first`: of equal ranks waiting jobs go first when GPUs are handed out by quotas.
    """

    unequal_nodes = True
    Settings: type[PreemptionSettings] = PreemptionSettings
    waiting_first: ClassVar[bool] = False

    def __init__(self, settings: PreemptionSettings | None = None) -> None:
        self.settings: Any = settings or self.Settings()
        self.costs = self.settings.costs()

    def column_rule_by(self, threshold_gpu_s: float | None = None) -> ColumnRule | None:
        """Return what `column_rule` is to say, of a policy that ranks jobs as a `PreemptionRule` does."""
        if self.settings.selection != "fit":
            return None
        costs = self.costs
        return ColumnRule(
            preemption=PreemptionRule(threshold_gpu_s, self.round_s, costs.preemption_of, costs.completion_s)
        )

    def limits(self, now_s: float) -> Callable[[Any], Any]:
        """Return what turns a waiting job's priority into the running key of the same rank now."""
        return _same

    def decide(self, snapshot: Snapshot) -> list[Action]:
        """Give the GPUs of each changed pool to the jobs of highest rank."""
        now_s = snapshot.now_s
        limit_of = self.limits(now_s)
        actions: list[Action] = []
        for pool in snapshot.changed:
            if not len(pool.queue):
                continue
            if self.settings.selection == "fit":
                actions += preempt_to_fit(pool, now_s, limit_of)
            else:
                actions += quota_walk(pool, now_s, limit_of, waiting_first=self.waiting_first)
        return actions


def _same(priority: Any) -> Any:
    return priority
