"""Lucid (ASPLOS '23): profile first, then order by GPUs x estimated duration, and pack what does not hurt.

Its stages are modules of their own in `simulator.stages`: the non-intrusive profiler (section 3.2, Algorithm
1), the affine-jobpair binder and the dynamic strategy (3.3). The resource orchestrator (3.4, Algorithm 2) is
here.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from simulator.actions import Action, Colocate, Start
from simulator.cluster import ClusterSpec
from simulator.earlier_stage import EarlierStage
from simulator.policy import Policy, RunCosts
from simulator.rules import Rules
from simulator.snapshot import JobView, NodePool, Snapshot
from simulator.stages.binder import AffineJobpairBinder, BinderSettings
from simulator.stages.first_fit_packing import FirstFitSettings, FirstPartnerBinder, pack_before_idle
from simulator.stages.profiler import PROFILER, ProfilerSettings, SpaceAwareProfiler
from simulator.stages.strategy import SharingStrategy, StrategySettings
from simulator.workload import Workload


@dataclass(frozen=True)
class LucidSettings(FirstFitSettings, StrategySettings, BinderSettings, ProfilerSettings):
    """All settings of Lucid: those of its profiler, its binder and its sharing strategy.

    Off by default, and there to compare with the authors' simulator (`--rules lucid-artifact`): what
    FirstFitSettings holds; `free_profiling`, as if profiling took no time; `completion_s`, for which jobs
    hold their GPUs after the end of their work.
    """

    free_profiling: bool = False
    completion_s: float = 0.0


class Lucid(Policy):
    """Space-aware profiling, indolent packing, shortest estimated service first; no preemption."""

    needs_estimates = True
    Settings = LucidSettings

    def __init__(self, settings: LucidSettings | None = None) -> None:
        self.settings = settings or LucidSettings()
        self.profiler = SpaceAwareProfiler(self.settings)
        self.costs = RunCosts(completion_s=self.settings.completion_s)
        binder = FirstPartnerBinder if self.settings.first_partner else AffineJobpairBinder
        self.binder = binder(self.settings)
        self.strategy = SharingStrategy(self.settings)

    def prepare(self, cluster: ClusterSpec, largest_job: Mapping[str, int]) -> ClusterSpec:
        """Set the profiler's nodes aside."""
        if self.settings.free_profiling:
            return cluster
        return self.profiler.prepare(cluster, largest_job)

    def stage_before(self, workload: Workload, cluster: ClusterSpec, rules: Rules) -> EarlierStage | None:
        """Play the profiler first, if its time is not to count."""
        if not self.settings.free_profiling:
            return None
        from simulator.free_profiling import FreeProfiling  # it is a simulation of its own

        return FreeProfiling(workload, cluster, self.settings, rules)

    def pool_of(self, job: JobView) -> str:
        """Send jobs that are small enough to the profiler first."""
        return PROFILER if self.profiler.takes(job) else job.job.virtual_cluster

    def priority(self, job: JobView) -> tuple[float, float]:
        """Order the profiler by fewest GPUs, a virtual cluster by estimated service; then by submission."""
        if job.pool == PROFILER:
            return self.profiler.priority(job)
        return (job.gpus * job.estimate_s, job.submit_time_s)

    def decide(self, snapshot: Snapshot) -> list[Action]:
        """Fill the profiler, then the virtual clusters that changed."""
        actions: list[Action] = []
        capacity = self.strategy.capacity(snapshot)
        for pool in snapshot.changed:
            if not len(pool.queue):
                continue
            if pool.name == PROFILER:
                actions += self.profiler.decide(pool)
            else:
                actions += self._orchestrate(pool, capacity, snapshot.now_s)
        return actions

    def _orchestrate(self, pool: NodePool, capacity: int | None, now_s: float) -> list[Action]:
        """Algorithm 2, with one change: idle GPUs before packing.

        A packed job is slower than one that has its GPUs for itself, so packing on an idle cluster gains
        nothing. With sharing, a job that finds neither GPUs nor a partner does not hold up later ones.
        """
        if self.settings.packs_before_idle and capacity is not None:
            return pack_before_idle(pool, self.binder, capacity, now_s)
        actions: list[Action] = []
        plan = pool.plan()
        partners: dict[int, list[JobView]] | None = None
        blocked: set[int] = set()
        for job in pool.queue:
            gpus = job.gpus
            if gpus not in blocked:
                placement = plan.place(gpus)
                if placement is not None:
                    actions.append(Start(job, placement))
                    continue
                if capacity is None:
                    break
                blocked.add(gpus)
            if capacity is None:
                break
            if partners is None:
                partners = self.binder.partners(pool, capacity, now_s)
            candidates = partners.get(gpus)
            if candidates:
                partner = self.binder.best(job, candidates, capacity)
                if partner is not None:
                    actions.append(Colocate(job, partner))
                    candidates.remove(partner)
                    if not candidates:
                        del partners[gpus]
            if not plan.total and not partners:
                break
        return actions
