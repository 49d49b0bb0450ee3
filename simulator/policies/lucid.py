"""Lucid (ASPLOS '23): profile first, then order by GPUs x estimated duration, and pack what does not hurt.

Its stages are modules of their own in `simulator.stages`: the non-intrusive profiler (section 3.2, Algorithm
1), indolent packing and the dynamic strategy (3.3) and the resource orchestrator (3.4, Algorithm 2).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from simulator.actions import Action, Start
from simulator.cluster.spec import ClusterSpec
from simulator.job_view import JobView
from simulator.mechanisms.overtaking_bound import OverdueMemory, OvertakingBound, OvertakingSettings
from simulator.policy import Policy, RankByColumns, RunCosts
from simulator.snapshot import NodePool, Snapshot
from simulator.stages.indolent_packing import IndolentPacking
from simulator.stages.indolent_settings import IndolentSettings
from simulator.stages.orchestrator import OrchestratorSettings, ResourceOrchestrator
from simulator.stages.pool_memory import PoolMemory
from simulator.stages.profiler import PROFILER, ProfilerSettings, SpaceAwareProfiler
from simulator.stages.strategy import SharingStrategy, StrategySettings


@dataclass(frozen=True)
class LucidSettings(
    StrategySettings, IndolentSettings, OrchestratorSettings, ProfilerSettings, OvertakingSettings
):
    """All settings of Lucid: those of its profiler, orchestrator, binder and sharing strategy, and the bound
    on overtaking, which the paper has not.

    `completion_s`: jobs hold their GPUs for so long after the end of their work.
    """

    completion_s: float = 0.0


class Lucid(Policy):
    """Space-aware profiling, indolent packing, shortest estimated service first; no preemption."""

    needs_estimates = True
    unequal_nodes = True
    at_events_only = True  # the profiler lets jobs go when GPUs turn up in their virtual cluster
    Settings = LucidSettings

    def __init__(self, settings: LucidSettings | None = None) -> None:
        self.settings = settings or LucidSettings()
        self.profiler = SpaceAwareProfiler(self.settings)
        self.profiling_limit_s = self.settings.profiling_limit_s
        self.costs = RunCosts(completion_s=self.settings.completion_s)
        self.orchestrator = ResourceOrchestrator(self.settings)
        self.packing = IndolentPacking(
            self.settings,
            self.profiler.measured_after_s,
            knows_run_times=self.settings.order == "service",
        )
        self.strategy = SharingStrategy(self.settings)
        self.overtaking = OvertakingBound(self.settings.overtaking_bound_s)
        self.overtaking_bound_s = self.overtaking.bound_s

    def prepare(self, cluster: ClusterSpec, largest_job: Mapping[str, int]) -> ClusterSpec:
        """Set the profiler's nodes aside."""
        return self.profiler.prepare(cluster, largest_job)

    @classmethod
    def live_settings(cls, *, shares_gpus: bool) -> Mapping[str, Any]:
        """Set no nodes aside, which administrators do, and pack only where jobs may share GPUs."""
        settings: dict[str, Any] = {"profiling_nodes": 0, "borrowed_nodes_max": 0}
        if shares_gpus:
            settings["packs_unmeasured"] = True  # a job's profile is there only if it was measured before
        else:
            settings["sharing"] = "none"
        return settings

    def history(self) -> tuple[Mapping[str, PoolMemory], OverdueMemory]:
        """Return which partners were refused, when it looks again, and which overdue jobs are served next."""
        return self.packing.memories, self.overtaking.memory()

    def resume(
        self,
        pools: Mapping[str, NodePool],
        history: tuple[Mapping[str, PoolMemory], OverdueMemory] | None,
    ) -> None:
        """Know the pools from the first job on."""
        self.profiler.watch(pools)
        if history is not None:
            self.packing.memories.update(history[0])
            self.overtaking.remember(history[1])

    def pool_of(self, job: JobView) -> str:
        """Send jobs that are small enough to the profiler first."""
        return PROFILER if self.profiler.takes(job) else job.home

    def priority(self, job: JobView) -> tuple[float, ...]:
        """Order the profiler by fewest GPUs, a virtual cluster by estimated service; then by submission."""
        return self.profiler.priority(job) if job.pool == PROFILER else self.orchestrator.priority(job)

    def rank_by_columns(self, pool: str) -> RankByColumns | None:
        """Return the orchestrator's order; the profiler's short queue is ranked job by job."""
        return None if pool == PROFILER else self.orchestrator.rank

    def decide(self, snapshot: Snapshot) -> list[Action]:
        """Serve the virtual clusters that changed, then the profiler."""
        self.profiler.watch(snapshot.pools)
        actions: list[Action] = []
        profiler = snapshot.pools.get(PROFILER)
        served: dict[str, int] = {}
        capacity: int | None = None
        if len(snapshot.changed) > 1 or profiler not in snapshot.changed:
            capacity = self.strategy.capacity(snapshot)
        for pool in snapshot.changed:
            if pool is not profiler:
                now = self.serve(pool, capacity, snapshot)
                if now:
                    actions += now
                    served[pool.name] = len(now)
        if profiler is not None and (profiler.running or profiler.guests or profiler.queue.length):
            for name in self.overtaking.served_next:
                served.setdefault(name, 0)  # its idle GPUs are for others than those that are profiled
            actions += self.profiler.decide(
                profiler, snapshot, served, self.overtaking.overdue(profiler, snapshot.now_s)
            )
        return actions

    def next_change_s(self, pool: NodePool, now_s: float) -> float | None:
        """A running job's metrics may become known: then it may get a partner."""
        return self.packing.next_measured_s(pool) if pool.queue.length else None

    def observe_end(self, job: JobView, now_s: float) -> None:
        """Note that a job's partner runs alone again."""
        self.packing.ended(job)

    def serve(self, pool: NodePool, capacity: int | None, snapshot: Snapshot) -> Sequence[Action]:
        """Start and pack jobs of a virtual cluster by Algorithm 2, with one change: idle GPUs before packing.

        A packed job is slower than one that has its GPUs for itself, so packing on an idle cluster gains
        nothing. A job that finds neither GPUs nor a partner does not hold up later ones. `capacity` bounds
        the sum of two sharing scores; None: no packing.
        """
        now_s = snapshot.now_s
        evictions = self.packing.evictions(pool, now_s)
        if evictions:
            return evictions  # evicted jobs queue again, and this is asked once more
        starts: list[Start] = []
        overdue = None
        if pool.queue.length:
            overdue = self.overtaking.begin(pool, now_s)
            if overdue is None:
                starts = self.orchestrator.start_what_fits(pool)
            else:
                starts = self.orchestrator.start_around(pool, overdue, now_s)
        pairs = self.packing.pack(pool, capacity, now_s, starts, snapshot.believed_pairs, overdue)
        return [*starts, *pairs] if pairs else starts
