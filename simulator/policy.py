"""The seam: what a scheduling policy is.

A policy is asked for decisions whenever something happened in a node pool; it answers with actions. It keeps
no record of the cluster: everything that it needs is in the snapshot, so that the same code orders a live
queue. `docs/simulator_fidelity.md` lists the rules that policies share.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from math import inf
from typing import Any, Literal, Protocol

from foundation.checked_settings import CheckedSettings
from foundation.errors import BadInputError
from simulator.actions import Action, Start
from simulator.cluster.placement import FreeGpus, nodes_in
from simulator.cluster.spec import ClusterSpec
from simulator.column_rule import ColumnRule
from simulator.job_view import JobView
from simulator.running_order import RunningKey
from simulator.snapshot import NodePool, Snapshot
from simulator.workload.columns import WorkloadColumns

Sizes = Literal["true", "estimated"]  # run times that a policy goes by


class RankByColumns(Protocol):
    """Ranks jobs by their GPUs, estimated run times (s) and submissions (s): of one job, or of many at once.

    Returns what to sort by, the most significant first.
    """

    def __call__(self, gpus: Any, estimate_s: Any, submit_time_s: Any) -> tuple[Any, ...]:
        """Numbers in, numbers out; arrays in, arrays out."""


@dataclass(frozen=True)
class RunCosts(CheckedSettings):
    """Seconds that a policy's mechanisms cost a job. The GPUs are held meanwhile."""

    preemption_s: float = 0.0  # checkpoint and restore of a job on one node
    preemption_multi_node_s: float | None = None  # of a larger job; None: the same
    completion_s: float = 0.0  # between the end of the work and the release of the GPUs
    preemption_single_gpu_s: float | None = None  # of a job on one GPU; None: as on one node
    resize_s: float = 0.0  # checkpoint and restore when an elastic job gets other GPUs while it runs
    restart_s: float = 0.0  # at the next start of a job that was preempted and did not keep its progress

    def preemption_of(self, gpus: int, gpus_per_node: int) -> float:
        """Return the overhead that one preemption costs a job of this size."""
        if gpus > gpus_per_node and self.preemption_multi_node_s is not None:
            return self.preemption_multi_node_s
        if gpus == 1 and self.preemption_single_gpu_s is not None:
            return self.preemption_single_gpu_s
        return self.preemption_s


class Policy(ABC):
    """A scheduling policy. `priority` and `decide` are all that a simple one needs.

    Attributes declare what it needs: `oracle` (it reads true durations), `needs_estimates`, `by_limits` (it
    goes by what users asked for, `JobView.request_s`: time limits where there are any), `reads_profiles` (it
    reads what was measured of jobs, or lets two share GPUs; one that does neither says so). One that serves
    each queue strictly from the front says so (`in_order`): it is not asked when a job queues behind others,
    since that changes nothing. `arrivals_never_delay`: what is submitted later never changes when an earlier
    job runs. `round_s` makes decisions fall on multiples of that many seconds only; None decides at every
    event. `at_events_only`: its rule is applied when something happens, as published, though it would answer
    otherwise in between; any other policy says when (`next_change_s`). `overtaking_bound_s`: a job that has
    waited for so long is overtaken only where that does not delay it (`mechanisms.overtaking_bound`).
    `elastic`: it gives elastic jobs (`Job.elasticity`) other GPUs while they run. `profiling_limit_s`: a run
    on its profiler ends after so many seconds; infinite: it profiles no job.
    `unequal_nodes`: it places jobs on nodes of several sizes, and binds them to their own (`JobView.nodes`)
    where virtual clusters share nodes.
    """

    oracle: bool = False
    needs_estimates: bool = False
    by_limits: bool = False
    reads_profiles: bool = True
    in_order: bool = False
    arrivals_never_delay: bool = False
    at_events_only: bool = False
    round_s: float | None = None
    overtaking_bound_s: float = inf
    profiling_limit_s: float = inf
    elastic: bool = False
    unequal_nodes: bool = False
    costs: RunCosts = RunCosts()

    def overrides(self, method: str) -> bool:
        """Return whether a method is this policy's own: one that it does not override is not called."""
        return getattr(type(self), method) is not getattr(Policy, method)

    def begin_anew(self) -> None:  # noqa: B027  (most remember nothing)
        """Forget what was remembered of another simulation: the cluster is empty."""

    def prepare(self, cluster: ClusterSpec, largest_job: Mapping[str, int]) -> ClusterSpec:
        """Begin anew, and return the cluster with the partitions that the policy sets aside.

        `largest_job` is the GPU demand of the largest job in each virtual cluster, which must still fit.
        """
        self.begin_anew()
        return cluster

    def pool_of(self, job: JobView) -> str:
        """Name the pool that a job queues for, each time that it starts to wait."""
        return job.home

    @abstractmethod
    def priority(self, job: JobView) -> Any:
        """Rank a job when it starts to wait: lower is served earlier, of equals the longest wait."""

    def rank_by_columns(self, pool: str) -> RankByColumns | None:
        """Return what ranks all jobs of a pool at once; None: they are ranked one by one, by `priority`.

        A live scheduler ranks whole queues anew at every decision. What comes out orders the jobs as
        `priority` does.
        """
        return None

    def column_rule(self, jobs: WorkloadColumns) -> ColumnRule | None:
        """Return the same policy for an engine that goes by columns; None: it has to be asked, job by job.

        Counts for the very class that says so: one that is derived from it may decide otherwise.
        """
        return None

    def service_order(self, pool: NodePool) -> Mapping[JobView, Any] | None:
        """Rank the jobs that waited in a pool at the last decision by when they are served, lower first.

        For an order that depends on what other jobs hold, which no job's own `priority` can say; None: the
        queue is in order. A live scheduler serves the jobs that do not start now in this order.
        """
        return None

    @abstractmethod
    def decide(self, snapshot: Snapshot) -> Sequence[Action]:
        """Say what to do now, in the pools of `snapshot.changed`. Actions are applied in order."""

    def next_change_s(self, pool: NodePool, now_s: float) -> float | None:
        """When `decide` could answer differently in a pool although nothing happens there; None: never."""
        return None

    def history(self) -> Any:
        """Return what it remembers that no snapshot shows (what users have used, say); None: nothing.

        It may name jobs and pools; what takes it makes a copy, with those of another simulation.
        """
        return None

    def resume(self, pools: Mapping[str, NodePool], history: Any) -> None:  # noqa: B027  (most need not)
        """Take note that the cluster is in use from the start, with what another of its kind remembered.

        Called once, after `prepare`. `history` is None where there is none, else it is this policy's to keep.
        """

    @classmethod
    def live_settings(cls, *, shares_gpus: bool) -> Mapping[str, Any]:
        """Return the settings that a live cluster prescribes.

        There, true run times are unknown, nodes belong to their partitions and running jobs are left alone;
        `shares_gpus` says whether two jobs may share GPUs in some partition.
        """
        return {}

    @classmethod
    def live_objection(cls) -> str | None:
        """Return why no live cluster can follow it, as "preempts jobs"; None: one can."""
        if cls.oracle:
            return "reads true run times"
        return None if cls.running_key is Policy.running_key else "preempts jobs"

    @classmethod
    def release_settings(cls, stated: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what a release sets of it, which runs on a real cluster: what is stated goes first.

        Raises BadInputError for a setting that a release may not state.
        """
        return stated

    def pinned_settings(self) -> dict[str, Any]:
        """Return all of its settings as JSON can hold them: what a release pins."""
        settings = getattr(self, "settings", None)
        return {} if settings is None else asdict(settings)

    def running_key(self, job: JobView, now_s: float) -> RunningKey:
        """Rank a job that runs, lower first, by something that stands still meanwhile (`RunningKey`).

        A policy that overrides this finds its running jobs sorted in `NodePool.running_order`. It is asked at
        each start, when a job's speed or remaining time changes, and when the key expires.
        """
        raise NotImplementedError(f"{type(self).__name__} ranks no running jobs")

    def observe_end(self, job: JobView, now_s: float) -> None:  # noqa: B027  (most policies do not learn)
        """Learn from a job that has just completed; its true duration may be known from now on."""


def refuse_missing_estimates(jobs: Sequence[JobView], policy: str) -> None:
    """Raise BadInputError for jobs without the estimates that a policy needs."""
    without = [view.job.job_id for view in jobs if view.estimated_duration_s is None]
    if without:
        raise BadInputError(
            f"{policy} needs estimated durations, and {len(without)} jobs have none "
            f"(the first: {without[0]!r}).",
            remedy="Give estimates, for instance those of simulator.workload.user_history_estimates.",
        )


def start_from_front(pool: NodePool) -> list[Start]:
    """Start queued jobs in the queue's order and stop at the first that does not fit.

    The rule that Lucid's and Helios' non-preemptive baselines share (Helios, Algorithm 1): a job is never
    overtaken by a later one, even when only fragmentation keeps it waiting.
    """
    queue = pool.queue
    job = queue.head()
    if job is None:
        return []
    free = pool.free
    if pool.masks:
        return _start_on_shared_nodes(pool)
    placement = free.find(job.gpus)
    if placement is None:
        return []
    actions = [Start(job, placement)]
    free_gpus = free.total - job.gpus
    if not free_gpus or len(queue) == 1:
        return actions
    plan: FreeGpus | None = None  # the first placement needs none, and often there is no second
    for job in islice(queue, 1, None):
        if job.gpus > free_gpus:
            break
        if plan is None:
            plan = pool.plan()
            plan.take(placement)
        next_placement = plan.place(job.gpus)
        if next_placement is None:
            break
        actions.append(Start(job, next_placement))
        free_gpus -= job.gpus
    return actions


def _start_on_shared_nodes(pool: NodePool) -> list[Start]:
    """Start queued jobs in the queue's order; one that does not fit holds back all of its nodes.

    Later jobs start on other nodes only, so on each node none is overtaken (as Slurm's main loop does).
    """
    plan = pool.plan()
    starts = []
    held: set[int | None] = set()
    for job in pool.queue:
        if job.nodes in held:
            continue
        placement = plan.place(job.gpus, job.nodes)
        if placement is not None:
            starts.append(Start(job, placement))
            continue
        held.add(job.nodes)
        for node in nodes_in(job.nodes, plan.nodes):
            plan.withdraw(node)
        if not plan.total:
            break
    return starts


class InOrderPolicy(Policy):
    """Serves each queue strictly from the front, in the order of `priority`."""

    in_order = True
    unequal_nodes = True

    def decide(self, snapshot: Snapshot) -> list[Start]:
        """Start from the front of each changed queue."""
        if len(snapshot.changed) == 1:
            (pool,) = snapshot.changed
            return start_from_front(pool)
        return [start for pool in snapshot.changed for start in start_from_front(pool)]
