"""The non-intrusive job profiler (Lucid section 3.2): measure each job for a moment before it queues.

Profiling takes time here: a job reaches its virtual cluster when its profiling run is over, with all of its
work still to do, because nothing was checkpointed.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from cluster_logs.errors import BadInputError
from simulator.actions import Action, Start
from simulator.cluster import ClusterSpec
from simulator.snapshot import JobView, NodePool
from simulator.stages.settings import StageSettings

PROFILER = "lucid-profiler"  # the partition's name


@dataclass(frozen=True)
class ProfilerSettings(StageSettings):
    """Settings of the profiler; the defaults are the paper's where it gives one.

    - `profiling_nodes`: nodes taken from the largest virtual clusters for the profiler, but never more than
      `profiling_share_max` of all nodes, and never one that a virtual cluster needs for its largest job. With
      none left, jobs go straight to their virtual cluster.
    - `profiling_max_gpus` (N_prof), `profiling_limit_s` (T_prof): jobs of at most so many GPUs run on the
      profiler for at most so long. Larger jobs go straight to their virtual cluster.
    - `profiling_limit_min_s`: in a burst, T_prof shrinks to it as the profiler's queue grows (section 3.2,
      time-aware scaling): T_prof is divided by the number of times that the queue would fill the profiler.
    """

    profiling_nodes: int = 2
    profiling_share_max: float = 0.1
    profiling_max_gpus: int = 8
    profiling_limit_s: float = 200.0
    profiling_limit_min_s: float = 60.0

    def __post_init__(self) -> None:
        """Refuse a profiler that has nodes and no time."""
        super().__post_init__()
        if self.profiling_nodes and not self.profiling_limit_s > 0:
            raise BadInputError(
                f"profiling_limit_s is {self.profiling_limit_s!r}.",
                remedy="Use more than 0 s, or profiling_nodes=0 for no profiler.",
            )


class SpaceAwareProfiler:
    """Sets nodes aside, says which jobs are profiled, and starts them: fewest GPUs first (Algorithm 1)."""

    def __init__(self, settings: ProfilerSettings) -> None:
        self.settings = settings
        self._max_gpus = 0

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
        self._max_gpus = min(self.settings.profiling_max_gpus, taken * size)
        if not taken:
            return cluster
        return ClusterSpec(left, size, {**cluster.partitions, PROFILER: taken})

    def takes(self, job: JobView) -> bool:
        """Say whether a job is to be profiled before it queues in its virtual cluster."""
        return not job.profiled and job.gpus <= self._max_gpus

    def priority(self, job: JobView) -> tuple[float, float]:
        """Order by fewest GPUs, then by submission."""
        return (job.gpus, job.submit_time_s)

    def decide(self, pool: NodePool) -> list[Action]:
        """Algorithm 1: consolidated and exclusive, stop at the first that does not fit."""
        if not len(pool.queue) or pool.free.find(pool.queue.first.gpus) is None:
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
