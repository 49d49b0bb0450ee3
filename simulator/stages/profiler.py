"""The non-intrusive job profiler (Lucid section 3.2): measure each job for a moment before it queues.

Profiling takes time here: a job reaches its virtual cluster when its profiling run is over, with all of its
work still to do, because nothing was checkpointed. So it is worth most where a job would have to wait
anyway, and time-aware scaling goes by that:

- N_prof: a job that finds idle GPUs in its virtual cluster runs there at once, and is measured on the fly
  like a large one. When the profiler's queue would fill it more than once, N_prof shrinks likewise.
- T_prof: divided by the number of times that the queue, with what is forecast to arrive meanwhile, would fill
  the profiler; never under a least time.
- C_prof: while jobs wait for the profiler, it borrows idle nodes of virtual clusters in which no job waits.
  They go home when the queue has gone, or as soon as a job there needs them and their runs are over.

And a profiling run is cut short when idle GPUs turn up in the job's virtual cluster that no job there can
use, unless the job is believed to end on the profiler.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from foundation.checked_settings import CheckedSettings
from foundation.errors import BadInputError
from simulator.actions import Action, Loan, Preempt, Reclaim, Start
from simulator.cluster.placement import FreeGpus
from simulator.cluster.spec import ClusterSpec
from simulator.job_view import JobView
from simulator.snapshot import NodePool, Snapshot
from simulator.workload.forecast import Throughput

PROFILER = "lucid-profiler"  # the partition's name


@dataclass(frozen=True)
class ProfilerSettings(CheckedSettings):
    """Settings of the profiler; the defaults are the paper's where it gives one.

    - `profiling_nodes`: nodes taken from the largest virtual clusters for the profiler, but never more than
      `profiling_share_max` of all nodes, and never one that a virtual cluster needs for its largest job. With
      none left, jobs go straight to their virtual cluster.
    - `profiling_max_gpus` (N_prof), `profiling_limit_s` (T_prof): jobs of at most so many GPUs run on the
      profiler for at most so long. Larger jobs go straight to their virtual cluster, and their metrics are
      known once they have run there for T_prof.
    - `profiling_order`: "gpus", fewest first (Algorithm 1), or "submission" for the ablation without
      space-aware profiling (section 4.5).
    - `profiling_limit_min_s`: T_prof does not shrink further.
    - `profiling_in_place`: jobs that find idle GPUs in their virtual cluster are measured there, and those
      that find them later move there.
    - `profiling_scales`: N_prof and T_prof shrink with the profiler's queue.
    - `borrowed_nodes_max`: C_prof grows by at most so many nodes. A virtual cluster keeps `lender_idle_min`
      idle nodes to itself.
    - `long_cold_start_s`: T_prof for jobs that their users marked as slow to start up; it does not shrink.
    """

    profiling_nodes: int = 2
    profiling_share_max: float = 0.1
    profiling_max_gpus: int = 8
    profiling_limit_s: float = 200.0
    profiling_limit_min_s: float = 60.0
    profiling_order: Literal["gpus", "submission"] = "gpus"
    profiling_in_place: bool = True
    profiling_scales: bool = True
    borrowed_nodes_max: int = 4
    lender_idle_min: int = 1
    long_cold_start_s: float = 600.0

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
        self._pools: Mapping[str, NodePool] = {}
        self._sent: dict[str, int] = {}  # virtual cluster -> GPUs of jobs sent there since the last decision

    def prepare(self, cluster: ClusterSpec, largest_job: Mapping[str, int]) -> ClusterSpec:
        """Set the profiler's nodes aside, one after another from the virtual cluster with the most left.

        A cluster that has the profiler's partition already, as a live one does, keeps it.
        """
        self._pools, self._sent = {}, {}
        if PROFILER in cluster.partitions:
            self._max_gpus = min(self.settings.profiling_max_gpus, cluster.gpus_of(PROFILER))
            return cluster
        wanted = min(self.settings.profiling_nodes, int(self.settings.profiling_share_max * cluster.nodes))
        given: Counter[str] = Counter()
        for _ in range(wanted):
            donors = [
                name
                for name in cluster.virtual_clusters
                if _can_give(cluster, name, given[name] + 1, largest_job.get(name, 0))
            ]
            if not donors:
                break
            given[max(donors, key=lambda name: cluster.virtual_clusters[name] - given[name])] += 1
        if not given:
            self._max_gpus = 0
            return cluster
        prepared = cluster.setting_aside(PROFILER, given)
        self._max_gpus = min(self.settings.profiling_max_gpus, prepared.gpus_of(PROFILER))
        return prepared

    def watch(self, pools: Mapping[str, NodePool]) -> None:
        """Take note of the pools that jobs are sent to; to be called at each decision."""
        self._pools = pools
        if self._sent:
            self._sent.clear()

    def takes(self, job: JobView) -> bool:
        """Say whether a job is to be profiled before it queues in its virtual cluster."""
        if job.gpus > self._max_gpus or self.is_measured(job):
            return False
        settings = self.settings
        pools = self._pools
        if settings.profiling_in_place and (not pools or self._has_room(job)):
            return False
        if settings.profiling_scales and pools:
            pool = pools[PROFILER]
            if job.gpus > pool.total_gpus:
                return False
            if job.gpus > 1 and job.gpus * pool.queue.gpus > self._max_gpus * pool.total_gpus:
                return False
        return True

    def is_measured(self, job: JobView) -> bool:
        """Say whether a waiting job's metrics are known."""
        return job.profiled or (job.attained_s > 0 and job.attained_s >= self.measured_after_s(job))

    def measured_after_s(self, job: JobView) -> float:
        """Return for how long a job has to run until its metrics are known."""
        if job.job.long_cold_start:
            return max(self.settings.profiling_limit_s, self.settings.long_cold_start_s)
        return self.settings.profiling_limit_s

    def priority(self, job: JobView) -> tuple[float, float]:
        """Order by fewest GPUs, then by submission."""
        return (job.gpus if self.settings.profiling_order == "gpus" else 0, job.submit_time_s)

    def decide(
        self, pool: NodePool, snapshot: Snapshot, served: Mapping[str, int], overdue: JobView | None = None
    ) -> list[Action]:
        """Algorithm 1: consolidated, exclusive, stop at the first that does not fit; and C_prof.

        `served` is how many queued jobs other pools start in this very decision. `overdue` goes first.
        """
        actions: list[Action] = []
        if pool.guests:
            actions += self._give_back(pool, served)
        queue = pool.queue
        if self.settings.profiling_in_place and pool.running:
            room = {
                other.name: other
                for other in snapshot.changed
                if other is not pool and other.free.total and other.name not in served
            }
            if room:
                actions += _cut_short(pool, room)
        if queue.length:
            starts = self._start(pool, served, snapshot.throughput, overdue)
            if len(starts) < queue.length and not actions:
                actions += self._borrow(pool, snapshot, queue.gpus - sum(start.job.gpus for start in starts))
            actions += starts
        return actions

    def _has_room(self, job: JobView) -> bool:
        """Say whether a job finds GPUs in its virtual cluster that no job there could use so far."""
        name = job.home
        pool = self._pools[name]
        free = pool.free
        sent = self._sent.get(name, 0)
        profiler = self._pools.get(PROFILER)
        idle = 0
        if profiler is not None and profiler.guests and free.total < job.gpus + sent:
            # Idle nodes that it lent come back for the asking.
            idle = free.gpus_per_node * sum(
                home is pool and profiler.free.on_node(node) == free.gpus_per_node
                for node, (home, _) in profiler.guests.items()
            )
        nodes = pool.masks.get(job.job.virtual_cluster)
        if job.gpus + sent > free.total + idle or (not idle and free.find(job.gpus, nodes) is None):
            return False
        self._sent[name] = sent + job.gpus
        return True

    def _start(
        self,
        pool: NodePool,
        served: Mapping[str, int],
        throughput: Throughput | None,
        overdue: JobView | None,
    ) -> list[Start]:
        free = pool.free
        queue: Iterable[JobView] = pool.queue
        if free.find((overdue or pool.queue.first).gpus) is None:
            return []
        if overdue is not None:  # runs here are short, so the others can wait until it fits
            queue = (overdue, *(job for job in queue if job is not overdue))
        plan = free.copy()
        for node, (home, _) in pool.guests.items():
            if self._wanted(home, served):
                plan.withdraw(node)
        limit_s = self._limit_s(pool, throughput)
        starts: list[Start] = []
        for job in queue:
            placement = plan.place(job.gpus)
            if placement is None:
                break
            limit = self.measured_after_s(job) if job.job.long_cold_start else limit_s
            starts.append(Start(job, placement, limit_s=limit))
        return starts

    def _limit_s(self, pool: NodePool, throughput: Throughput | None) -> float:
        longest_s = self.settings.profiling_limit_s
        if not self.settings.profiling_scales:
            return longest_s
        queue = pool.queue
        gpus = float(queue.gpus)
        if throughput is not None:  # what is about to arrive, if it is like what waits
            gpus += throughput.predicted_jobs_per_hour / 3600 * longest_s * queue.gpus / queue.length
        times_full = gpus / max(1, pool.total_gpus)
        return max(longest_s / max(1.0, times_full), min(longest_s, self.settings.profiling_limit_min_s))

    def _borrow(self, pool: NodePool, snapshot: Snapshot, gpus: int) -> list[Action]:
        """Borrow idle nodes for jobs of so many GPUs, from the pool with the most and no job waiting."""
        size = pool.free.gpus_per_node
        wanted = min(-(-gpus // size), self.settings.borrowed_nodes_max - len(pool.guests))
        if wanted <= 0 or not pool.free.has_equal_nodes:
            return []
        lenders = {
            other.name: other.free.idle_nodes()
            for name, other in snapshot.pools.items()
            if name != PROFILER
            and not other.queue.length
            and other.free.gpus_per_node == size
            and other.free.has_equal_nodes
        }
        loans: list[Action] = []
        for _ in range(wanted):
            name = max(lenders, key=lambda name: len(lenders[name]), default=None)
            if name is None or len(lenders[name]) <= self.settings.lender_idle_min:
                break
            loans.append(Loan(snapshot.pools[name], pool, lenders[name].pop()))
        return loans

    def _give_back(self, pool: NodePool, served: Mapping[str, int]) -> list[Action]:
        """Give idle guest nodes back that no job here needs or a job at home does."""
        size = pool.free.gpus_per_node
        return [
            Reclaim(pool, node)
            for node, (home, _) in pool.guests.items()
            if pool.free.on_node(node) == size and (self._wanted(home, served) or not pool.queue.length)
        ]

    def _wanted(self, home: NodePool, served: Mapping[str, int]) -> bool:
        return home.queue.length > served.get(home.name, 0)


def _can_give(cluster: ClusterSpec, pool: str, nodes: int, largest_job: int) -> bool:
    """Whether a pool still has a node, and room for its largest job, without its last so many nodes.

    What shares its nodes and is too small for that job anyway loses none.
    """
    left = cluster.virtual_clusters[pool] - nodes
    if left < 1:
        return False
    sizes = cluster.sizes(pool)
    for mask in cluster.masks(pool).values() or (-1,):
        before = sum(gpus for node, gpus in enumerate(sizes) if mask >> node & 1)
        after = sum(gpus for node, gpus in enumerate(sizes[:left]) if mask >> node & 1)
        if after < min(before, max(1, largest_job)):
            return False
    return True


def _cut_short(pool: NodePool, room: Mapping[str, NodePool]) -> list[Action]:
    """Let jobs go for which GPUs have turned up in their virtual clusters, unless they are about to end."""
    actions: list[Action] = []
    plans: dict[str, FreeGpus] = {}
    for job in pool.running:
        name = job.home
        home = room.get(name)
        if home is None or job.gpus > home.free.total:
            continue
        believed_s = job.estimated_duration_s
        if believed_s is not None and job.run_limit_s is not None and believed_s <= job.run_limit_s:
            continue
        plan = plans.get(name)
        if plan is None:
            plan = plans[name] = home.plan()
        if plan.place(job.gpus, home.masks.get(job.job.virtual_cluster)) is not None:
            actions.append(Preempt(job, keeps_progress=False))
    return actions
