"""A bound on overtaking: whoever has waited for too long gets nodes promised, and nobody delays them.

A policy that serves short or small jobs first lets a large one wait for as long as smaller ones come. Here
the job of a pool that has waited longest is *overdue* once it has waited `overtaking_bound_s`, or less where
few others wait. It starts before all others as soon as it fits, and until then it holds a *promise*: the
nodes on which it is believed to fit first (planned as EASY backfilling plans its head, by
`backfill.Runs.reserve`), and the moment at which the jobs that are in its way are believed to be gone. From
then on another job may start only

- on GPUs that the promise does not need: all of other nodes, and of the promised nodes what is left beside
  the overdue job and the jobs that are not counted on to leave; or
- on any free GPUs, if it is believed to be gone by the promised moment.

Unlike EASY's reservation a promise stands: it is not planned anew, whatever running jobs turn out to last. A
plan that moves whenever a belief was wrong is one that wrong beliefs can put off for ever. Only those that
ran before may put the moment off, so nothing starts in the way of a promise once they have ended: the overdue
job starts at the latest when the jobs have ended that ran when the promise was made, and those that were let
in beside them. Its wait is at most the bound, the promises to jobs that were overdue before it, and the drain
of what ran on its nodes.
"""

from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from math import inf

from foundation.checked_settings import CheckedSettings
from simulator.actions import Start
from simulator.job_view import JobView, RunState
from simulator.mechanisms.backfill import Run, Runs, doubled
from simulator.mechanisms.node_holds import MARGIN, expected_remaining_s
from simulator.placement import FreeGpus, Placement
from simulator.snapshot import NodePool

# A queue's length is looked at so often (s): that takes a look at every job in it.
LOOK_EVERY_S = 3_600.0

# Behind a queue that would keep its pool busy for so long (s) nobody is overdue: everybody would be, and the
# order would be that of submission, at several times the mean wait.
SATURATED_S = 432_000.0

# A short queue makes a job overdue from this part of the bound on.
LEAST_SHARE = 0.25

# Of a pool's nodes, at most, are promised to more than one job.
PROMISED_SHARE = 0.25


@dataclass(frozen=True)
class OvertakingSettings(CheckedSettings):
    """`overtaking_bound_s`: a job that has waited for so long has nodes promised, and is overtaken only where
    that does not delay it; behind a short queue sooner, from a quarter of it on. Not in a pool whose queue is
    longer than five days. 0: it may be overtaken for ever.
    """

    overtaking_bound_s: float = 86_400.0


@dataclass(slots=True)
class Leaving:
    """A run that is counted on to be over before the overdue job starts.

    - `start_s`, `placement`: when it began, and on which GPUs.
    - `end_s`: when it is believed to end.
    - `began_before`: it ran before the promise was made; the others were let in beside it.
    """

    start_s: float
    placement: Placement
    end_s: float
    began_before: bool


@dataclass(slots=True)
class Promise:
    """Nodes promised to an overdue job.

    - `at_s`: when it is believed to start there: when the last of the jobs ends that ran there before.
    - `leaving`: the jobs on these nodes that are counted on to be gone by then.
    """

    job: JobView
    placement: Placement
    at_s: float
    leaving: dict[JobView, Leaving]

    def follow(self, now_s: float) -> None:
        """Strike out the runs that are over, and believe longer in those that outlive what was believed.

        Only of those that ran before: what was let in beside them may delay the promise once, and no more.
        """
        self.leaving = {
            job: run
            for job, run in self.leaving.items()
            if job.state is RunState.RUNNING and job.start_time_s == run.start_s
        }
        at_s = 0.0
        for job, run in self.leaving.items():
            if run.began_before:
                if run.end_s <= now_s:
                    run.end_s = now_s + expected_remaining_s(job, now_s)
                at_s = max(at_s, run.end_s)
        self.at_s = at_s or min(self.at_s, now_s)


# What a bound remembers: promises by pool, and how long their queues were.
OverdueMemory = tuple[dict[str, list[Promise]], dict[str, tuple[float, float]]]


@dataclass(slots=True)
class OverdueFirst:
    """What the bound demands of one decision. The policy plans all else on `plan`: on what is left."""

    plan: FreeGpus
    starts: list[Start] = field(default_factory=list)
    promises: list[Promise] = field(default_factory=list)  # on nodes of their own, the longest wait first
    _kept_back: dict[int, int] = field(default_factory=dict)  # promised node -> free GPUs that others leave

    @property
    def until_s(self) -> Mapping[int, float]:
        """The promised nodes, and when they are due."""
        return {node: promise.at_s for promise in self.promises for node, _ in promise.placement}

    @property
    def keeps_back(self) -> bool:
        """Whether GPUs are free that only jobs may use that are gone in time."""
        return bool(self._kept_back)

    def start(self, job: JobView) -> bool:
        """Start an overdue job if it fits."""
        placement = self.plan.place(job.gpus, job.nodes)
        if placement is None:
            return False
        self.starts.append(Start(job, placement))
        return True

    def keep(self, promise: Promise) -> None:
        """Take out of the plan what a promise needs of the GPUs that are free."""
        plan = self.plan
        self.promises.append(promise)
        leaving = dict.fromkeys((node for node, _ in promise.placement), 0)
        for job, run in promise.leaving.items():
            for node, gpus in run.placement if job.counts_for_pair else ():
                if node in leaving:
                    leaving[node] += gpus
        for node, needed in promise.placement:
            free = plan.on_node(node)
            spare = free + leaving[node] - needed
            if spare < free:
                self._kept_back[node] = free - max(0, spare)
                plan.take(((node, self._kept_back[node]),))

    def place_beside(self, job: JobView, now_s: float) -> Placement | None:
        """Place a job on what is kept back, too, where it is believed to be gone by the promised moment.

        Takes the GPUs from the plan; the job is one of those in the way from then on.
        """
        if not self._kept_back:
            return None
        plan = self.plan
        end_s = now_s + surely_s(job)
        late = [promise for promise in self.promises if end_s <= promise.at_s and promise.job is not job]
        offered = {
            node: self._kept_back[node]
            for promise in late
            for node, _ in promise.placement
            if node in self._kept_back
        }
        if job.gpus > plan.total + sum(offered.values()):
            return None
        plan.give(tuple(offered.items()))
        placement = plan.find(job.gpus, job.nodes)
        taken = dict(placement or ())
        plan.take(placement or ())
        for promise in late:
            if any(node in taken for node, _ in promise.placement):
                promise.leaving[job] = Leaving(now_s, placement or (), end_s, began_before=False)
        for node, gpus in offered.items():
            # The job is one of those that leave: what others may use of these nodes stays the same.
            rest = max(0, gpus - taken.get(node, 0))
            plan.take(((node, rest),) if rest else ())
            if rest:
                self._kept_back[node] = rest
            else:
                del self._kept_back[node]
        return placement

    def is_delayed_by(self, job: JobView, partner: JobView, now_s: float) -> bool:
        """Whether a job that shares the GPUs of another could be in the way of a promise."""
        end_s = now_s + surely_s(job)
        return any(end_s > promise.at_s and partner in promise.leaving for promise in self.promises)


class OvertakingBound:
    """Finds who is overdue in each pool, and keeps the promises.

    The longest wait always has one; those that are overdue behind it have one too as long as no more than
    `PROMISED_SHARE` of the pool's nodes are promised.
    """

    def __init__(self, bound_s: float) -> None:
        """`bound_s`: for how long a job may be overtaken at most (s); 0: for ever."""
        self.bound_s = bound_s or inf
        self.promises: dict[str, list[Promise]] = {}  # by pool, in the order in which they were made
        self.queues_s: dict[str, tuple[float, float]] = {}  # by pool: when it was looked at, and its length

    def memory(self) -> OverdueMemory:
        """Return what no snapshot shows."""
        return self.promises, self.queues_s

    def remember(self, memory: OverdueMemory) -> None:
        """Go on with it."""
        self.promises, self.queues_s = memory

    def overdue(self, pool: NodePool, now_s: float) -> JobView | None:
        """Return the job that has waited longest in a pool, if that was too long."""
        if self.bound_s == inf:
            return None
        longest = pool.queue.longest_waiting()
        if longest is None:
            return None
        waited_s = now_s - longest.pending_since_s
        if waited_s < LEAST_SHARE * self.bound_s or waited_s < self._bound_in_s(pool, now_s):
            return None
        return longest

    def _bound_in_s(self, pool: NodePool, now_s: float) -> float:
        """Return the bound in a pool: as long as all that wait would keep it busy, as far as that is known.

        So long does the order of submission, which is the site's own, make the last of them wait. Infinite in
        a saturated pool.
        """
        looked_s, bound_s = self.queues_s.get(pool.name, (-inf, 0.0))
        if now_s - looked_s >= LOOK_EVERY_S:
            service_gpu_s = sum([job.gpus * job.estimate_s for job in pool.queue])
            queue_s = service_gpu_s / max(1, pool.total_gpus)
            bound_s = min(self.bound_s, max(LEAST_SHARE * self.bound_s, queue_s))
            if queue_s > SATURATED_S:
                bound_s = inf
            self.queues_s[pool.name] = now_s, bound_s
        return bound_s

    def begin(self, pool: NodePool, now_s: float) -> OverdueFirst | None:
        """Begin a decision in a pool: start whoever is overdue and fits, and keep the promises.

        None: nobody is overdue.
        """
        kept = self.promises.pop(pool.name, ()) if self.promises else ()
        overdue = self.overdue(pool, now_s)
        if overdue is None and not any(waits(promise.job, pool) for promise in kept):
            return None
        bound_s = self._bound_in_s(pool, now_s)
        plan = pool.plan()
        first = OverdueFirst(plan)
        served = set()
        for promise in kept:
            if waits(promise.job, pool):
                if first.start(promise.job):
                    served.add(promise.job)
                elif all(plan.is_present(node) for node, _ in promise.placement):
                    promise.follow(now_s)
                    first.keep(promise)
                    served.add(promise.job)
        self.promises[pool.name] = first.promises
        most = PROMISED_SHARE * plan.nodes
        with closing(pool.queue.by_wait()) as longest_first:
            for job in longest_first:
                promised = first.until_s
                if now_s - job.pending_since_s < bound_s or (promised and len(promised) >= most):
                    break
                if job in served or first.start(job):
                    continue
                made = _promised(job, pool, _without(plan, promised), first.starts, now_s)
                if made is not None:
                    if promised and len(promised) + len(made.placement) > most:
                        break
                    first.keep(made)
        return first


def surely_s(job: JobView) -> float:
    """Return for how long a job is believed to run at most: its time limit, which ends it, or far longer than
    its estimate, which may be far too short (s).
    """
    limit_s = job.job.time_limit_s
    return MARGIN * job.estimate_s if limit_s is None else min(limit_s, MARGIN * job.estimate_s)


def _without(plan: FreeGpus, nodes: Collection[int]) -> FreeGpus:
    others = plan.copy()
    for node in nodes:
        others.withdraw(node)
    return others


def waits(job: JobView, pool: NodePool) -> bool:
    """Whether a job waits in this pool."""
    return job.state is RunState.PENDING and job.pool == pool.name


def _promised(
    job: JobView, pool: NodePool, plan: FreeGpus, starts: list[Start], now_s: float
) -> Promise | None:
    """Promise the nodes on which the job is believed to fit first; None: it would not if all had ended."""
    runs = Runs(doubled)
    for other in pool.running:
        if other.counts_for_pair:
            left_s = expected_remaining_s(other, now_s)
            if other.partner is not None:
                left_s = max(left_s, expected_remaining_s(other.partner, now_s))
            began_s = other.start_time_s
            runs.add(Run(other, began_s, other.placement or (), now_s + left_s - began_s))
    begun = [Run(start.job, now_s, start.placement, start.job.estimate_s) for start in starts]
    reserved = runs.reserve(job, plan, begun)
    if reserved.shadow_s == inf:
        return None
    nodes = {node for node, _ in reserved.placement}
    leaving: dict[JobView, Leaving] = {}
    for run in (*runs, *begun):
        end_s = run.start_s + run.belief_s
        if end_s <= reserved.shadow_s and any(node in nodes for node, _ in run.placement):
            leaving[run.job] = Leaving(run.start_s, run.placement, end_s, began_before=True)
            partner = run.job.partner
            if partner is not None:
                leaving[partner] = Leaving(partner.start_time_s, run.placement, end_s, began_before=True)
    return Promise(job, reserved.placement, reserved.shadow_s, leaving)
