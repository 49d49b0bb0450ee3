"""What policies over workers share: a clock, loans, where jobs start; a policy says which scale out.

One decision, as in Lyra (sections 4 and 5): at multiples of `period_s` servers are lent or taken back. Then,
in a pool in which something happened, flexible workers are taken off on paper, waiting jobs get their base
demand, and what is left goes to flexible workers; those that are still wanted and whose GPUs are free stay.
"""

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from foundation.errors import BadInputError
from parts.lending.replay.pool_loans import JobsOnLoan, PoolLoans
from parts.lending.replay.settings import LoanSettings
from parts.lending.workers.draft import Draft, DraftedJob
from parts.lending.workers.draft_actions import actions_of
from parts.lending.workers.job_workers import believed_left_s, widest_first, workers_of
from parts.lending.workers.scalable_job import ScalableJob
from parts.lending.workers.server_pools import ServerPool
from parts.lending.workers.settings import WorkerSettings
from simulator.actions import Action
from simulator.cluster.spec import ClusterSpec
from simulator.job_view import JobView
from simulator.policy import Policy, RunCosts, start_from_front
from simulator.snapshot import NodePool, Snapshot

# What the part `loaning` of a release says, and nothing else may.
_OF_LOANS = frozenset(("loaning", *(each.name for each in fields(LoanSettings))))


class WorkerPolicy(Policy):
    """Starts jobs on their base workers; what a subclass says of flexible ones, it places."""

    Settings: type[WorkerSettings] = WorkerSettings
    oracle = True
    reads_profiles = False

    def __init__(self, settings: WorkerSettings | None = None) -> None:
        self.settings: Any = settings or self.Settings()
        self.round_s = self.settings.epoch_s or None
        overhead_s = self.settings.preemption_s
        self.costs = RunCosts(preemption_s=overhead_s, restart_s=overhead_s)
        by_size = self.settings.order == "shortest" or self.settings.scaling
        self.oracle = by_size and self.settings.sizes == "true"
        self.needs_estimates = by_size and self.settings.sizes == "estimated"
        self._loans = self._loans_to(())
        # The smallest base demand of jobs that ask for so many GPUs: it saves looks, and decides nothing.
        self._least_base: dict[int, int] = {}

    @classmethod
    def live_settings(cls, *, shares_gpus: bool) -> Mapping[str, Any]:
        """Go by estimates, and leave what runs alone."""
        return {"sizes": "estimated", "loaning": False, "scaling": False, "epoch_s": 0.0}

    @classmethod
    def live_objection(cls) -> str | None:
        """A live cluster prescribes estimates and no scaling; in the order of submission that is FIFO."""
        order = cls.Settings(**cls.live_settings(shares_gpus=False)).order
        return None if order == "shortest" else "reads true run times"

    @classmethod
    def release_settings(cls, stated: Mapping[str, Any]) -> Mapping[str, Any]:
        """Go by estimates; refuse what a release says apart from its policy: how servers are lent."""
        for name in sorted(_OF_LOANS.intersection(stated)):
            raise BadInputError(
                f"The setting {name!r} of the policy {cls.__name__.lower()!r} says how servers are lent, "
                "which a release says apart from its policy.",
                remedy="Say it of the release's loans (lucid release build --loaning NAME=VALUE).",
            )
        return {"sizes": "estimated", **stated}

    def pinned_settings(self) -> dict[str, Any]:
        """Return all settings but those of loans."""
        return {name: value for name, value in super().pinned_settings().items() if name not in _OF_LOANS}

    def prepare(self, cluster: ClusterSpec, largest_job: Mapping[str, int]) -> ClusterSpec:
        """Begin anew with an empty cluster."""
        self._loans = self._loans_to(cluster.virtual_clusters)
        return cluster

    def priority(self, job: JobView) -> tuple[float, float, int]:
        """Order by the whole run time, then by submission; or by submission alone.

        It is that on all workers that the job may get (section 5.2: never what is left).
        """
        base = job.min_gpus
        if base < self._least_base.get(job.gpus, base + 1):
            self._least_base[job.gpus] = base
        if self.settings.order == "submission":
            return (0.0, job.submit_time_s, job.index)
        whole_s = job.estimate_s if self.needs_estimates else job.job.duration_s
        if not self.settings.scaling:
            workers = workers_of(job)
            whole_s *= workers.rate(workers.most) / workers.rate(workers.least)
        return (whole_s, job.submit_time_s, job.index)

    def decide(self, snapshot: Snapshot) -> Sequence[Action]:
        """Lend and take back servers when it is time; then start and scale jobs."""
        moves: list[Action] = []
        pools = snapshot.changed
        if self.settings.loaning:
            moves, pools = self._loans.decide(snapshot)
        return moves or [action for pool in pools for action in self._decide_in(pool, snapshot)]

    def _loans_to(self, virtual_clusters: Collection[str]) -> PoolLoans:
        return PoolLoans(self.settings, virtual_clusters, JobsOnLoan(scaling=self.settings.scaling))

    def history(self) -> Any:
        """Return when servers were last moved."""
        return self._loans.memory()

    def resume(self, pools: Mapping[str, NodePool], history: Any) -> None:
        """Go on from when servers were last moved."""
        if history is not None:
            self._loans.remember(history)

    def next_change_s(self, pool: NodePool, now_s: float) -> float | None:
        """When servers may be lent or taken back again."""
        return self._loans.next_decision_s(pool, now_s)

    # -- one pool --------------------------------------------------------------------------------------------

    def _decide_in(self, pool: NodePool, snapshot: Snapshot) -> Sequence[Action]:
        head = pool.queue.head()
        if head is not None and not head.job.gpus:
            return start_from_front(pool)  # cores have no workers
        service = snapshot.lender if self.settings.loaning else None
        draft = Draft(
            pool,
            lender=None if service is None else service.name,
            unit=1 if service is None else service.loaned_workers_per_worker,
            keeps_apart=self.settings.special_placement,
            scaling=self.settings.scaling,
        )
        self.start_jobs(draft)
        if self.settings.scaling:
            self.scale_out(draft, snapshot.now_s)
        return actions_of(draft)

    def start_jobs(self, draft: Draft) -> None:
        """Start jobs on their base workers.

        Phase 1 (section 5.2) passes over jobs that do not fit, and places those that start by best fit
        decreasing (section 5.3): the most GPUs a worker first, then the most workers. Heterogeneous jobs that
        found no place then take servers of both kinds (section 6: considered last). By submission, nothing
        overtakes a job that finds no place.
        """
        queue = draft.nodes.queue
        if not queue:
            return
        if self.settings.order == "submission":
            for view in queue:
                if not any(draft.start(view, pool) for pool in self.pools_of(view)) and not (
                    draft.loans and _mixes(view) and draft.start_mixed(view)
                ):
                    break
            return
        for view, pool in sorted(self._chosen(draft), key=lambda start: widest_first(start[0])):
            if not draft.start(view, pool):
                any(draft.start(view, other) for other in self.pools_of(view) if other is not pool)
        if draft.loans:
            started = {job.view for job in draft.starting}
            for view in queue:
                if _mixes(view) and view not in started:
                    draft.start_mixed(view)

    def _chosen(self, draft: Draft) -> Iterator[tuple[JobView, ServerPool]]:
        """Walk the queue; of thousands that wait those are not looked at that cannot fit."""
        room = BaseRoom({pool: draft.plan.free_gpus(pool) for pool in ServerPool}, draft.unit)
        queue = draft.nodes.queue
        walk = queue.walk()
        walk.below = self._below(queue.by_gpus(), room.largest)
        for _, _, view in walk:
            taken = room.take(view.min_gpus, self.pools_of(view))
            if taken is not None:
                walk.below = self._below(queue.by_gpus(), room.largest)
                yield view, taken[0]

    def _below(self, demands: Iterable[int], room_gpus: int) -> int:
        """Return the demand from which on no base demand is so small."""
        least = self._least_base
        return 1 + max((gpus for gpus in demands if least.get(gpus, 0) <= room_gpus), default=0)

    def pools_of(self, view: JobView) -> tuple[ServerPool, ...]:
        """Return where a waiting job's base workers may go, what is preferred first (section 5.3)."""
        workers = workers_of(view)
        settings = self.settings
        grows = settings.scaling and settings.special_placement and workers.elastic
        return pools_of(loanable=workers.loanable, grows=grows)

    def scale_out(self, draft: Draft, now_s: float) -> None:
        """Phase 2: give what is left to flexible workers, training servers and those on loan apart."""
        wanted: dict[DraftedJob, int] = {}
        for pool in ServerPool:
            jobs = [self._scalable(job, draft, now_s) for job in draft.elastic_jobs(pool)]
            if jobs:
                extra = self.extra_workers(jobs, draft.plan.free_gpus(pool))
                wanted.update({job.drafted: more for job, more in zip(jobs, extra, strict=True)})
        draft.scale_out(wanted)

    def _scalable(self, job: DraftedJob, draft: Draft, now_s: float) -> ScalableJob:
        workers = job.workers
        left_s = believed_left_s(job.view, now_s, by_estimates=self.needs_estimates)
        slower = workers.rate(workers.most) / workers.rate(workers.least)
        return ScalableJob(job, workers.gpus_each * draft.unit_of(job), left_s * slower)

    @abstractmethod
    def extra_workers(self, jobs: Sequence[ScalableJob], capacity_gpus: int) -> Sequence[int]:
        """Say how many flexible workers each job gets, in the order of submission.

        They take no more than `capacity_gpus` together.
        """


def _mixes(view: JobView) -> bool:
    """Whether a job may run on both kinds of servers at once, and on those on loan only so."""
    workers = view.job.workers
    return workers is not None and workers.heterogeneous and not workers.loanable


# Phase 1 of Lyra's scheduler: which waiting jobs get their base demand, and in which pool (section 5.2).


def pools_of(*, loanable: bool, grows: bool) -> tuple[ServerPool, ...]:
    """Return the pools that a job may run in, the preferred first.

    A job that `grows` (it is elastic, and scaling is on) goes to servers on loan, where its flexible workers
    can be taken off without preempting it; others keep off them (section 5.2).
    """
    if not loanable:
        return (ServerPool.TRAINING,)
    pools = (ServerPool.TRAINING, ServerPool.ON_LOAN)
    return pools[::-1] if grows else pools


class BaseRoom:
    """GPUs that no base worker holds, by pool; flexible workers make room for base ones.

    On servers on loan `loaned_workers_per_worker` workers do the work of one, and a demand is so many times
    as large. Raises BadInputError for less than one.
    """

    def __init__(self, free_gpus: Mapping[ServerPool, int], loaned_workers_per_worker: int = 1) -> None:
        if loaned_workers_per_worker < 1:
            raise BadInputError(
                f"There are {loaned_workers_per_worker} loaned workers per worker.", remedy="Use 1 or more."
            )
        self.left_gpus = {pool: free_gpus.get(pool, 0) for pool in ServerPool}
        self._units = {ServerPool.TRAINING: 1, ServerPool.ON_LOAN: loaned_workers_per_worker}

    @property
    def largest(self) -> int:
        """The largest base demand (GPUs) that there is room for in any pool."""
        return max(left // self._units[pool] for pool, left in self.left_gpus.items())

    def take(self, gpus: int, pools: Iterable[ServerPool]) -> tuple[ServerPool, int] | None:
        """Take a base demand from the first of these pools that has it; return it with the GPUs there."""
        for pool in pools:
            wanted = gpus * self._units[pool]
            if wanted <= self.left_gpus[pool]:
                self.left_gpus[pool] -= wanted
                return pool, wanted
        return None
