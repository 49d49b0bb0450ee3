"""A live cluster as a policy sees it: the simulator's node pools and job views, kept in step with readings.

A pool is a partition. Nodes of different sizes are offered as nodes of the largest size with the missing GPUs
taken; a node that is not available is off the offer, and what other partitions use of it is taken too.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain
from math import inf

from live_scheduler.adapter import Profiling
from live_scheduler.cluster_state import ClusterState, Kept, LiveJob, LiveNode
from simulator.cluster.placement import FreeGpus, Placement
from simulator.cluster.spec import ClusterSpec
from simulator.job_view import JobView, RunState
from simulator.policy import Policy
from simulator.snapshot import NodePool, Snapshot
from simulator.stages.profiler import PROFILER
from simulator.workload.job import Job, JobProfile
from simulator.workload.job_family import job_templates

# What is known of what a job needs, at its submission; None: nothing.
ProfileSource = Callable[[LiveJob], JobProfile | None]


class AnyProfiling:
    """The default: every job that may be stopped and queue again, for any time."""

    def takes(self, job: LiveJob, cluster: ClusterState) -> bool:
        """Whether its run may be stopped."""
        return job.requeueable and job.tasks == 1

    def limit_s(self, job_id: str) -> float | None:
        """Not limited."""
        return inf


class LivePools:
    """Pools and views for one policy. `follow` brings them up to date; nothing else changes them."""

    def __init__(
        self,
        policy: Policy,
        *,
        partitions: Collection[str] = (),
        profiling_partition: str = "",
        profile_of: ProfileSource | None = None,
        profiling: Profiling | None = None,
    ) -> None:
        """`partitions` are those that are ordered; without any, all but the profiling partition."""
        self._policy = policy
        self._partitions = frozenset(partitions)
        self._profiling = profiling_partition
        self._profile_of = profile_of
        self._rules = profiling or AnyProfiling()
        self._nodes: tuple[LiveNode, ...] | None = None
        self._gpus_left: Mapping[str, int] = {}
        self._node_at: dict[str, dict[str, int]] = {}  # pool -> node -> index there
        self._jobs_seen = 0
        self.pools: dict[str, NodePool] = {}
        self.views: dict[str, JobView] = {}  # of the jobs that wait or run in the pools
        self.waiting: dict[str, list[JobView]] = {}  # pool -> the jobs that wait for it
        self.cpu_jobs: dict[str, list[JobView]] = {}  # likewise, those that ask for no GPU
        self.left_alone: dict[str, str] = {}  # waiting job -> why it is not ranked
        self._live: dict[str, LiveJob] = {}
        self._followed_s = -inf  # the last reading since the pools were made

    def partition_of(self, pool: str) -> str:
        """Return the partition that a pool stands for."""
        return self._profiling if pool == PROFILER else pool

    def nodes_of(self, pool: str) -> Sequence[str]:
        """Return the names of a pool's nodes, in the order of their indices."""
        return list(self._node_at[pool])

    def follow(self, cluster: ClusterState) -> None:
        """Take in a reading of the cluster."""
        if cluster.nodes != self._nodes or cluster.gpus_left != self._gpus_left:
            self._follow_nodes(cluster)
        self.waiting = {name: [] for name in self.pools}
        self.cpu_jobs = {name: [] for name in self.pools}
        self.left_alone = {}
        running: dict[str, list[JobView]] = {name: [] for name in self.pools}
        views: dict[str, JobView] = {}
        followed = self._live
        fresh = [job for job in cluster.jobs if job.job_id not in followed]
        fresh.sort(key=lambda job: job.submission)
        for job in chain((job for job in cluster.jobs if job.job_id in followed), fresh):
            if job.waiting:
                view = self._follow_waiting(job, cluster)
            else:
                view = self._follow_running(job)
                if view is not None:
                    running[view.pool].append(view)
            if view is not None:
                views[job.job_id] = view
        self.views = views
        self._live, self._followed_s = dict(cluster.by_id), cluster.at_s
        for name, pool in self.pools.items():
            there = set(self.waiting[name])
            for view in [view for view in pool.queue if view not in there]:
                pool.queue.remove(view)
            began = sorted(running[name], key=lambda view: (view.start_time_s, view.index))
            pool.running = dict.fromkeys(began)
            _pair_up([view for view in began if self._live[view.job.job_id].shares_gpus])

    # Nodes

    def _follow_nodes(self, cluster: ClusterState) -> None:
        by_partition: dict[str, list[LiveNode]] = {}
        for node in cluster.nodes:
            for partition in node.partitions:
                by_partition.setdefault(partition, []).append(node)
        ordered = {
            (PROFILER if name == self._profiling else name): nodes
            for name, nodes in sorted(by_partition.items())
            if (name == self._profiling or not self._partitions or name in self._partitions)
            and any(node.gpus for node in nodes)
        }
        layout = {name: {node.name: at for at, node in enumerate(nodes)} for name, nodes in ordered.items()}
        sizes = {name: max(node.gpus for node in nodes) for name, nodes in ordered.items()}
        made_anew = False
        if layout != self._node_at or any(
            self.pools[name].free.gpus_per_node != size for name, size in sizes.items()
        ):
            self._node_at, made_anew = layout, True
            self._make_pools(ordered, sizes, cluster)
        for name, nodes in ordered.items():
            pool = self.pools[name]
            free = FreeGpus(len(nodes), sizes[name])
            free.gains = pool.free.gains + 1
            for at, node in enumerate(nodes):
                taken = sizes[name] - node.gpus + min(node.gpus_used, node.gpus)
                if taken:
                    free.take(((at, taken),))
                if not node.available:
                    free.withdraw(at)
            if name in cluster.gpus_left:
                _leave_only(free, cluster.gpus_left[name])
            pool.free = free
            pool.total_gpus = sum(node.gpus for node in nodes if node.available)
        self._nodes, self._gpus_left = cluster.nodes, cluster.gpus_left
        if made_anew and PROFILER in self.pools:
            # Which job is measured first depends on the pools: the policy looks at them before it is asked.
            self._policy.decide(Snapshot(self.pools, cluster.at_s, changed=()))

    def _make_pools(
        self, ordered: Mapping[str, Sequence[LiveNode]], sizes: Mapping[str, int], cluster: ClusterState
    ) -> None:
        """Make pools anew when nodes come, go or change; the policy gets them, and views start over."""
        self.views, self._live, self._followed_s = {}, {}, -inf
        self.pools = {name: NodePool(name, FreeGpus(len(n), sizes[name])) for name, n in ordered.items()}
        home = {name: len(nodes) for name, nodes in ordered.items() if name != PROFILER}
        if not home:
            return
        largest = dict.fromkeys(home, 0)
        for job in cluster.jobs:
            if job.virtual_cluster in largest:
                largest[job.virtual_cluster] = max(largest[job.virtual_cluster], job.gpus)
        aside = {PROFILER: len(ordered[PROFILER])} if PROFILER in ordered else {}
        size = sizes[PROFILER] if aside else max(sizes.values())
        self._policy.prepare(ClusterSpec(home, size, aside), largest)

    # Jobs

    def _follow_waiting(self, job: LiveJob, cluster: ClusterState) -> JobView | None:
        if job.held:
            self.left_alone[job.job_id] = "it is held"
        elif job.hands_off:
            self.left_alone[job.job_id] = job.hands_off
        elif Kept.ORDER in job.kept:
            self.left_alone[job.job_id] = job.kept[Kept.ORDER]
        elif job.waits_for:
            self.left_alone[job.job_id] = f"it waits for {job.waits_for}"
        elif job.partition == self._profiling and PROFILER not in self.pools:
            self.left_alone[job.job_id] = f"its partition {job.partition!r} has no GPUs"
        elif job.partition == self._profiling and job.virtual_cluster not in self.pools:
            self.left_alone[job.job_id] = f"its home partition {job.virtual_cluster!r} is not ordered"
        else:
            home = self._home(job)
            if home is None:
                self.left_alone[job.job_id] = f"its partition {job.partition!r} is not ordered"
            elif job.partition in cluster.closed_partitions:
                self.left_alone[job.job_id] = f"its partition {job.partition!r} is closed"
            else:
                return self._queued(job, home, cluster)
        return None

    def _queued(self, job: LiveJob, home: str, cluster: ClusterState) -> JobView:
        view = self.views.get(job.job_id)
        known_view = self._live.get(job.job_id)
        is_new = (
            view is None or known_view is None or not known_view.waiting or _asked(known_view) != _asked(job)
        )
        if view is None or is_new:
            view = self._new_view(job, home)
            view.pool = PROFILER if job.partition == self._profiling else home
        # A job that waits at home for the profiler may be better off there by now.
        if job.partition != self._profiling and (is_new or view.pool == PROFILER):
            view.pool = self._pool_by_policy(view, home) if self._goes_first(job, cluster) else home
        (self.waiting if job.gpus else self.cpu_jobs)[view.pool].append(view)
        return view

    def _goes_first(self, job: LiveJob, cluster: ClusterState) -> bool:
        return bool(job.gpus) and PROFILER in self.pools and self._rules.takes(job, cluster)

    def _pool_by_policy(self, view: JobView, home: str) -> str:
        """Ask the policy; a job that could never run in the pool that it names stays at home."""
        name = self._policy.pool_of(view)
        pool = self.pools.get(name)
        return home if pool is None or pool.free.gpus_per_node * pool.free.nodes < view.gpus else name

    def _follow_running(self, job: LiveJob) -> JobView | None:
        at_home = self._home(job)
        name = PROFILER if job.partition == self._profiling and PROFILER in self.pools else at_home
        if name is None or not job.gpus:
            return None
        view = self.views.get(job.job_id)
        if view is None or (view.state is RunState.RUNNING and view.run_since_s != job.start_time_s):
            view = self._new_view(job, at_home or name)
        if view.state is not RunState.RUNNING:
            assert job.start_time_s is not None  # noqa: S101
            view.state = RunState.RUNNING
            view.run_since_s = view.first_start_time_s = job.start_time_s
            # Policies look for what began since they last looked, which clusters report seconds late.
            view.start_time_s = max(job.start_time_s, self._followed_s)
            view.run_limit_s = self._limit_s(job) if name == PROFILER else None
        view.pool = name
        view.placement = self._placement(job, name)
        view.partner = None
        view.joined = False
        return view

    def _limit_s(self, job: LiveJob) -> float:
        limit_s = self._rules.limit_s(job.job_id)
        return self._policy.profiling_limit_s if limit_s is None else limit_s

    def _placement(self, job: LiveJob, pool: str) -> Placement:
        at = self._node_at[pool]
        return Placement.of((at[node], gpus) for node, gpus in job.gpus_on if node in at)

    def _home(self, job: LiveJob) -> str | None:
        """Return the pool of a job's own partition; of several partitions the first that is ordered."""
        names = (job.virtual_cluster, *job.virtual_cluster.split(","), *job.partition.split(","))
        return next((name for name in names if name in self.pools and name != PROFILER), None)

    def _new_view(self, job: LiveJob, home: str) -> JobView:
        self._jobs_seen += 1
        profile = None if self._profile_of is None else self._profile_of(job)
        view = JobView(
            Job(
                job_id=job.job_id,
                virtual_cluster=home,
                user=job.user,
                gpus=job.gpus,
                submit_time_s=job.submit_time_s,
                duration_s=inf,  # unknown
                order=self._jobs_seen,
                profile=profile,
                cpus=0 if job.gpus else max(1, job.cpus or 1),
                template=job_templates([job.job_type], [job.user], [job.name])[0],
                time_limit_s=job.time_limit_s or None,  # of 0: none
            ),
            self._jobs_seen,
        )
        if not job.shares_gpus:  # a job that asked for whole GPUs shares none
            view.profile = None
        view.state = RunState.PENDING
        view.profiled = job.restarts > 0
        return view


def _leave_only(free: FreeGpus, gpus: int) -> None:
    """Take what is free beyond a quota, from the fullest nodes first, so that whole nodes stay whole."""
    there = {at: free.on_node(at) for at in range(free.nodes) if free.is_present(at)}
    excess = sum(there.values()) - gpus
    for at in sorted(there, key=lambda at: (there[at], at)):
        taken = min(there[at], excess)
        if taken <= 0:
            continue
        free.take(((at, taken),))
        excess -= taken


def _asked(job: LiveJob) -> tuple[object, ...]:
    """What its user may still change of a waiting job."""
    return (job.partition, job.virtual_cluster, job.gpus, job.time_limit_s, job.name)


def _pair_up(shared: Sequence[JobView]) -> None:
    """Note which jobs share GPUs: two running jobs with the same placement."""
    first: dict[Placement, JobView] = {}
    for view in shared:
        if not view.placement:
            continue
        other = first.pop(view.placement, None)
        if other is None:
            first[view.placement] = view
        else:
            view.partner, other.partner = other, view
            view.joined = True


def with_profile_facts(facts: Mapping[str, object], profile: JobProfile | None) -> dict[str, object]:
    """Return a job's facts with what is known of its needs, as the duration model reads them."""
    if profile is None:
        return dict(facts)
    return {
        **facts,
        "gpu_util_pct": profile.gpu_util_pct,
        "gpu_mem_util_pct": profile.gpu_mem_util_pct,
        "gpu_mem_mib": profile.gpu_mem_mib,
        **({"job_type": profile.job_type} if profile.job_type else {}),
    }
