"""A pool on paper: base workers as they are, flexible ones taken off, and what is placed anew.

The servers of one pool, own and on loan, while a policy decides which jobs start, and which elastic job
gets how many flexible workers. What comes out of it are actions (`parts.lending.workers.draft_actions`).
"""

from collections import Counter
from collections.abc import Mapping
from operator import itemgetter

from parts.lending.workers.job_workers import base_gang, workers_of
from parts.lending.workers.server_pools import ServerPool
from parts.lending.workers.worker_placement import PlacementPlan, WorkerKind, whole_units
from simulator.cluster.placement import NOWHERE, Placement, shrunk, without
from simulator.job_view import JobView
from simulator.snapshot import NodePool


class DraftedJob:
    """A job as it is to run: the GPUs by server of its base workers, and of its flexible ones.

    `pool` is where its base workers are; None: on both kinds of servers.
    """

    __slots__ = ("base", "flexible", "pool", "view", "workers")

    def __init__(self, view: JobView, pool: ServerPool | None, base: dict[int, int]) -> None:
        self.view = view
        self.workers = workers_of(view)
        self.pool = pool
        self.base = base
        self.flexible: dict[int, int] = {}

    def placement(self) -> Placement:
        """Return the GPUs of all its workers, servers in order."""
        held = Counter(self.base)
        held.update(self.flexible)
        return Placement.of(sorted(held.items()))

    def flexible_part(self) -> Placement:
        """Return the GPUs of its flexible workers, servers in order."""
        return Placement.of(sorted(self.flexible.items()))


def flexible_of(view: JobView) -> Placement:
    """Return the GPUs of a running job's flexible workers.

    An elastic job by GPUs has none by name: they are what it holds beyond its least, where it holds fewest.
    """
    if view.job.workers is not None or view.job.elasticity is None or view.placement is None:
        return view.flexible
    return without(view.placement, shrunk(view.placement, view.min_gpus))


def base_of(view: JobView) -> dict[int, int]:
    """Return the GPUs by server of a running job's base workers."""
    return dict(without(view.placement or NOWHERE, flexible_of(view)))


class Draft:
    """One pool in one decision. `plan` has the servers, `nodes` are those of the pool.

    `running` are the elastic jobs that run, in the order of their starts, `starting` those that are to start
    now; on servers on loan `unit` workers do the work of one.
    """

    def __init__(
        self,
        nodes: NodePool,
        *,
        lender: str | None = None,
        unit: int = 1,
        keeps_apart: bool = True,
        scaling: bool = True,
    ) -> None:
        """Take the flexible workers off; without `scaling` there are none.

        `lender` names the pool of the servers that count as on loan; `keeps_apart` as `PlacementPlan` has it.
        """
        self.nodes = nodes
        self.unit = unit
        self.running: list[DraftedJob] = []
        self.starting: list[DraftedJob] = []
        self._held: dict[JobView, Placement] = {}  # by flexible workers so far
        free = nodes.plan()
        loaned = sum(1 << guest for guest in nodes.lent_by(lender)) if nodes.guests else 0
        self.loans = bool(loaned)
        self._loaned = loaned
        with_base = 0
        in_use = loaned & ~free.idle(loaned)
        for view in nodes.running:
            workers = view.job.workers
            if scaling and (view.job.elasticity is not None if workers is None else workers.elastic):
                with_base |= self._note(view)
            elif in_use and (workers is None or workers.loanable or workers.heterogeneous):
                with_base |= (view.placement or NOWHERE).nodes
        for held in self._held.values():
            free.give(held)
        self.plan = PlacementPlan(free, loaned, with_base & loaned, keeps_apart=keeps_apart)

    def _note(self, view: JobView) -> int:
        """Take note of an elastic job that runs; return the servers with its base workers."""
        flexible = flexible_of(view)
        base = base_of(view)
        servers = Placement.of(base.items()).nodes
        on_loan = servers & self._loaned
        pool = ServerPool.TRAINING if not on_loan else ServerPool.ON_LOAN if on_loan == servers else None
        self.running.append(DraftedJob(view, pool, base))
        if flexible:
            self._held[view] = flexible
        return servers

    def elastic_jobs(self, pool: ServerPool) -> list[DraftedJob]:
        """Return the elastic jobs with their base workers there, running or about to, by submission."""
        jobs = [job for job in self.running if job.pool is pool]
        jobs += [job for job in self.starting if job.pool is pool and job.workers.elastic]
        jobs.sort(key=lambda job: job.view.index)
        return jobs

    def unit_of(self, job: DraftedJob) -> int:
        """Return how many workers do the work of one where a job is."""
        return self.unit if job.pool is ServerPool.ON_LOAN else 1

    # -- base workers ----------------------------------------------------------------------------------------

    def start(self, view: JobView, pool: ServerPool) -> bool:
        """Place all base workers of a waiting job in one pool; False if they do not fit: then none is."""
        gang = base_gang(view, self.nodes.free.gpus_per_node)
        if pool is ServerPool.ON_LOAN:
            gang *= self.unit
        servers = self.plan.place_gang(pool, gang)
        if servers is None:
            return False
        base: dict[int, int] = {}
        for server, gpus in zip(servers, gang, strict=True):
            base[server] = base.get(server, 0) + gpus
        self.starting.append(DraftedJob(view, pool, base))
        return True

    def start_mixed(self, view: JobView) -> bool:
        """Place all base workers of a heterogeneous job, on servers of both kinds if need be."""
        placed = self.plan.place_mixed_gang(base_gang(view, self.nodes.free.gpus_per_node), self.unit)
        if placed is None:
            return False
        base: dict[int, int] = {}
        for server, gpus in placed:
            base[server] = base.get(server, 0) + gpus
        on_loan = [server for server in base if self._loaned >> server & 1]
        whole = len(on_loan) in (0, len(base))
        pool = (ServerPool.ON_LOAN if on_loan else ServerPool.TRAINING) if whole else None
        self.starting.append(DraftedJob(view, pool, base))
        return True

    # -- flexible workers ------------------------------------------------------------------------------------

    def scale_out(self, wanted: Mapping[DraftedJob, int]) -> None:
        """Place the flexible workers that jobs want, counted as on training servers, as far as they fit.

        Those that are there already stay where their GPUs are still free. New ones go by best fit decreasing
        (Lyra, section 5.3): jobs with most GPUs a worker first, then those that lack most workers.
        """
        missing = []
        for job, extra in wanted.items():
            workers = extra * self.unit_of(job)
            lacking = workers - self.keep(job, workers)
            if lacking:
                missing.append((-job.workers.gpus_each, -lacking, job.view.index, job))
        for _, negative, _, job in sorted(missing, key=itemgetter(0, 1, 2)):
            assert job.pool is not None  # noqa: S101
            gpus = job.workers.gpus_each
            for server in self.plan.place_flexible(job.pool, gpus, -negative):
                job.flexible[server] = job.flexible.get(server, 0) + gpus
            self._drop_odd(job)

    def keep(self, job: DraftedJob, workers: int) -> int:
        """Have up to so many flexible workers stay where they are; return how many do."""
        gpus = job.workers.gpus_each
        kept = 0
        for server, held in self._held.get(job.view, ()):
            stay = min(held, self.plan.free_on(server)) // gpus
            stay = min(stay, workers - kept)
            if stay and self.plan.take(server, WorkerKind.FLEXIBLE, stay * gpus):
                kept += stay
                job.flexible[server] = stay * gpus
        return kept

    def _drop_odd(self, job: DraftedJob) -> None:
        """Drop flexible workers that are less than a whole one together."""
        unit, gpus = self.unit_of(job), job.workers.gpus_each
        if unit == 1:
            return
        kept = whole_units({server: held // gpus for server, held in job.flexible.items()}, unit)
        for server, held in job.flexible.items():
            dropped = held - kept.get(server, 0) * gpus
            if dropped:
                self.plan.give(server, dropped)
        job.flexible = {server: workers * gpus for server, workers in kept.items()}

    def changes(self, job: DraftedJob) -> bool:
        """Whether a running job's flexible workers are not what they have been."""
        return job.flexible != dict(self._held.get(job.view, ()))
