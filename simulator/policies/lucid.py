"""Lucid (ASPLOS '23): profile first, then order by GPUs x estimated duration, and pack what does not hurt.

Three stages, each a section of the paper: the non-intrusive profiler with space-aware order (3.2, Algorithm
1), the affine-jobpair binder with indolent packing (3.3), and the resource orchestrator (3.4, Algorithm 2).
Profiling takes time here: a job reaches its virtual cluster when its profiling run is over, with all of its
work still to do, because nothing was checkpointed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal

from cluster_logs.errors import BadInputError
from simulator.actions import Action, Colocate, Start
from simulator.cluster import ClusterSpec
from simulator.policy import Policy
from simulator.snapshot import JobView, NodePool, Snapshot

PROFILER = "lucid-profiler"  # the partition's name

# Upper bound on the sum of two sharing scores (G_SS) by packing strategy (section 3.3).
SHARING_CAPACITY: Mapping[str, int | None] = {"default": 2, "apathetic": 1, "none": None}


@dataclass(frozen=True)
class LucidSettings:
    """Settings of Lucid; the defaults are the paper's where it gives one.

    - `profiling_nodes`: nodes taken from the largest virtual clusters for the profiler, but never more than
      `profiling_share_max` of all nodes, and never one that a virtual cluster needs for its largest job. With
      none left, jobs go straight to their virtual cluster.
    - `profiling_max_gpus` (N_prof), `profiling_limit_s` (T_prof): jobs of at most so many GPUs run on the
      profiler for at most so long. Larger jobs go straight to their virtual cluster.
    - `profiling_limit_min_s`: in a burst, T_prof shrinks to it as the profiler's queue grows (section 3.2,
      time-aware scaling): T_prof is divided by the number of times that the queue would fill the profiler.
    - `sharing`: "default" (G_SS 2), "apathetic" (G_SS 1) or "none".
    - `gpu_memory_mib`: two jobs' memory on a GPU stays below it.
    - `partner_min_remaining_s`: a running job that is believed to end sooner is no partner.
    - `priority_ratio_max`: a job is not packed with one that is expected to need so many times less service,
      since long packing blocks the head of the line (section 3.1, inter-module dependence 3).
    """

    profiling_nodes: int = 2
    profiling_share_max: float = 0.1
    profiling_max_gpus: int = 8
    profiling_limit_s: float = 200.0
    profiling_limit_min_s: float = 60.0
    sharing: Literal["default", "apathetic", "none"] = "default"
    gpu_memory_mib: float = 24_576.0
    partner_min_remaining_s: float = 300.0
    priority_ratio_max: float = 2.0

    def __post_init__(self) -> None:
        if self.sharing not in SHARING_CAPACITY:
            raise BadInputError(
                f"sharing is {self.sharing!r}.", remedy=f"Choose one of: {', '.join(SHARING_CAPACITY)}."
            )
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, str) and not 0 <= value < float("inf"):
                raise BadInputError(f"{field.name} is {value!r}.", remedy="Use 0 or more.")
        if self.profiling_nodes and not self.profiling_limit_s > 0:
            raise BadInputError(
                f"profiling_limit_s is {self.profiling_limit_s!r}.",
                remedy="Use more than 0 s, or profiling_nodes=0 for no profiler.",
            )


class Lucid(Policy):
    """Space-aware profiling, indolent packing, shortest estimated service first; no preemption."""

    needs_estimates = True
    Settings = LucidSettings

    def __init__(self, settings: LucidSettings | None = None) -> None:
        self.settings = settings or LucidSettings()
        self._profiling_max_gpus = 0

    def prepare(self, cluster: ClusterSpec, largest_job: Mapping[str, int]) -> ClusterSpec:
        """Set the profiler's nodes aside, one after another from the virtual cluster with the most left."""
        size = cluster.gpus_per_node
        wanted = min(self.settings.profiling_nodes, int(self.settings.profiling_share_max * cluster.nodes))
        left = dict(cluster.virtual_clusters)
        taken = 0
        while taken < wanted:
            donors = [name for name in left if (left[name] - 1) * size >= max(1, largest_job.get(name, 0))]
            if not donors:
                break
            left[max(donors, key=left.__getitem__)] -= 1
            taken += 1
        self._profiling_max_gpus = min(self.settings.profiling_max_gpus, taken * size)
        if not taken:
            return cluster
        return ClusterSpec(left, size, {**cluster.partitions, PROFILER: taken})

    def pool_of(self, job: JobView) -> str:
        """Send jobs that are small enough to the profiler first."""
        if not job.profiled and job.gpus <= self._profiling_max_gpus:
            return PROFILER
        return job.job.virtual_cluster

    def priority(self, job: JobView) -> tuple[float, float]:
        """Order the profiler by fewest GPUs, a virtual cluster by estimated service; then by submission."""
        if job.pool == PROFILER:
            return (job.gpus, job.submit_time_s)
        return (job.gpus * job.estimate_s, job.submit_time_s)

    def decide(self, snapshot: Snapshot) -> list[Action]:
        """Fill the profiler, then the virtual clusters that changed."""
        actions: list[Action] = []
        for pool in snapshot.changed:
            if not len(pool.queue):
                continue
            if pool.name == PROFILER:
                actions += self._profile(pool)
            else:
                actions += self._orchestrate(pool, snapshot.now_s)
        return actions

    def _profile(self, pool: NodePool) -> list[Action]:
        """Algorithm 1: consolidated and exclusive, stop at the first that does not fit."""
        if pool.free.find(pool.queue.first.gpus) is None:
            return []
        actions: list[Action] = []
        plan = pool.plan()
        waves = sum(job.gpus for job in pool.queue) / pool.total_gpus
        longest_s = self.settings.profiling_limit_s
        limit_s = max(longest_s / max(1.0, waves), min(longest_s, self.settings.profiling_limit_min_s))
        for job in pool.queue:
            placement = plan.place(job.gpus)
            if placement is None:
                break
            actions.append(Start(job, placement, limit_s=limit_s))
        return actions

    def _orchestrate(self, pool: NodePool, now_s: float) -> list[Action]:
        """Algorithm 2, with one change: idle GPUs before packing.

        A packed job is slower than one that has its GPUs for itself, so packing on an idle cluster gains
        nothing. With sharing, a job that finds neither GPUs nor a partner does not hold up later ones.
        """
        actions: list[Action] = []
        plan = pool.plan()
        capacity = SHARING_CAPACITY[self.settings.sharing]
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
                partners = self._partners(pool, capacity, now_s)
            candidates = partners.get(gpus)
            if candidates:
                partner = self._best_partner(job, candidates, capacity)
                if partner is not None:
                    actions.append(Colocate(job, partner))
                    candidates.remove(partner)
                    if not candidates:
                        del partners[gpus]
            if not plan.total and not partners:
                break
        return actions

    def _partners(self, pool: NodePool, capacity: int, now_s: float) -> dict[int, list[JobView]]:
        """Return the running jobs that may share, by GPU demand, in the order of their start.

        Partners have equal GPU demand, so a job that was too large for the profiler never meets a measured
        one: only profiled jobs are candidates.
        """
        found: dict[int, list[JobView]] = {}
        for job in pool.running:
            profile = job.profile
            if (
                job.partner is None
                and profile is not None
                and profile.sharing_score is not None
                and profile.sharing_score <= capacity
                and job.placement is not None
                and len(job.placement) == 1
                and job.profiled
                and job.estimate_s - job.attained_at(now_s) >= self.settings.partner_min_remaining_s
            ):
                found.setdefault(job.gpus, []).append(job)
        return found

    def _best_partner(self, job: JobView, candidates: list[JobView], capacity: int) -> JobView | None:
        """Return the partner with the lowest sharing score that no packing rule forbids (section 3.3)."""
        mine = job.profile
        if mine is None or mine.sharing_score is None or not job.profiled:
            return None
        memory_mib = self.settings.gpu_memory_mib - mine.gpu_mem_mib
        needed_estimate_s = (
            job.estimate_s / self.settings.priority_ratio_max if (self.settings.priority_ratio_max) else 0.0
        )
        best: JobView | None = None
        best_score = capacity - mine.sharing_score + 1
        for candidate in candidates:
            theirs = candidate.profile
            assert theirs is not None and theirs.sharing_score is not None  # noqa: S101, PT018
            if (
                theirs.sharing_score < best_score
                and theirs.gpu_mem_mib < memory_mib
                and candidate.estimate_s >= needed_estimate_s
            ):
                best, best_score = candidate, theirs.sharing_score
                if not best_score:
                    break
        return best
