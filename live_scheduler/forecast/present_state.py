"""A live cluster at this moment as a simulation begins with it: `present_state(cluster, ...)`.

Second 0 is the reading; what runs has started before it. The pools are those of the live policy
(`live_pools.py`). Whoever is not going to start by itself (held, waiting for another job) is left out, and so
is the job that does not fit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from live_scheduler.cluster_state import ClusterState, LiveJob, LiveNode
from live_scheduler.deciding.live_pools import LivePools, ProfileSource
from live_scheduler.forecast.forecast_inputs import RunTime
from live_scheduler.live_settings import LiveSettings
from simulator.cluster.placement import FreeGpus, Placement
from simulator.cluster.spec import ClusterSpec
from simulator.job_view import JobView, RunState
from simulator.policy import Policy
from simulator.scenario.initial_state import InitialState, PoolNodes
from simulator.snapshot import NodePool
from simulator.stages.profiler import PROFILER
from simulator.workload.job import Job

# An array may have any number of tasks; so many of each are played, and fewer where there are many arrays.
MOST_TASKS = 256
MOST_WAITING = 20_000
AWAY = "away"  # why a node is not on offer
ASKS_FOR_NO_GPU = "it asks for no GPU, and only GPUs are played"


@dataclass(frozen=True)
class PresentState:
    """What is played, by the ids of live jobs, and what is not.

    `played` names the simulated jobs of a live job: the tasks of an array, else one. `elsewhere` are
    simulated jobs that stand for what a live one holds in a pool that is not its own. `remarks` say what was
    simplified.
    """

    initial: InitialState
    spec: ClusterSpec | None  # None: no node has a GPU
    played: Mapping[str, tuple[str, ...]]
    elsewhere: Mapping[str, str]
    not_played: Mapping[str, str]
    remarks: tuple[str, ...]


def present_state(
    cluster: ClusterState,
    beliefs: Mapping[str, RunTime],
    policy: Policy,
    settings: LiveSettings,
    *,
    profile_of: ProfileSource | None = None,
    profiling_limit_s: float = inf,
) -> PresentState:
    """Make it of a reading, with what is believed of each job's run time.

    `policy` says which jobs are to be profiled; it is not good for anything else afterwards.
    `profiling_limit_s` is how long a run on the profiling partition may take.
    """
    pools = LivePools(
        policy,
        partitions=settings.partitions,
        profiling_partition=settings.profiling_partition,
        profile_of=profile_of,
    )
    pools.follow(replace(cluster, jobs=()))
    policy.resume(pools.pools, None)
    pools.follow(cluster)
    making = _Making(cluster, beliefs, pools, settings)
    making.take_running(profiling_limit_s)
    making.take_waiting()
    return making.made()


@dataclass
class _Making:
    cluster: ClusterState
    beliefs: Mapping[str, RunTime]
    pools: LivePools
    settings: LiveSettings
    running: list[JobView] = field(default_factory=list)
    waiting: list[JobView] = field(default_factory=list)
    played: dict[str, tuple[str, ...]] = field(default_factory=dict)
    not_played: dict[str, str] = field(default_factory=dict)
    elsewhere: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    nodes: dict[str, PoolNodes] = field(default_factory=dict)
    most_tasks: int = MOST_TASKS
    cut_arrays: bool = False

    def __post_init__(self) -> None:
        self.members: dict[str, list[LiveNode]] = {name: [] for name in self.pools.pools}
        for node in self.cluster.nodes:
            for partition in node.partitions:
                pool = PROFILER if partition == self.settings.profiling_partition else partition
                if pool in self.members:
                    self.members[pool].append(node)
        self.places = {
            name: {node.name: at for at, node in enumerate(nodes)} for name, nodes in self.members.items()
        }
        in_order = sorted(self.cluster.jobs, key=lambda job: job.submission)
        self.index = {job.job_id: at * MOST_TASKS for at, job in enumerate(in_order)}
        self._shared_nodes()

    def _shared_nodes(self) -> None:
        owners: dict[str, list[str]] = {}
        for name, nodes in self.members.items():
            for node in nodes:
                owners.setdefault(node.name, []).append(self.pools.partition_of(name))
        together = sorted({", ".join(sorted(names)) for names in owners.values() if len(names) > 1})
        self.remarks += [
            f"The partitions {names} share nodes: what one of them starts from now on is not seen by the "
            "others, so their jobs may start later."
            for names in together
        ]

    # What runs

    def take_running(self, profiling_limit_s: float) -> None:
        """Let running jobs hold their GPUs, in every pool that has the nodes."""
        room = {
            name: [min(node.gpus, pool.free.gpus_per_node) for node in self.members[name]]
            for name, pool in self.pools.pools.items()
        }
        jobs = [job for job in self.cluster.jobs if not job.waiting]
        jobs.sort(key=lambda job: (job.start_time_s, self.index[job.job_id]))
        shared: dict[tuple[str, Placement], JobView] = {}
        for job in jobs:
            seen = self.pools.views.get(job.job_id)
            for name, places in self.places.items():
                placement = Placement.of((places[node], gpus) for node, gpus in job.gpus_on if node in places)
                own = seen is not None and seen.pool == name
                if not placement or (own and placement.gpus != job.gpus):
                    continue
                view = self._run(job, name, placement, own)
                partner = shared.pop((name, placement), None) if job.shares_gpus else None
                if partner is not None:
                    view.partner, partner.partner, view.joined = partner, view, True
                elif all(room[name][node] >= gpus for node, gpus in placement):
                    for node, gpus in placement:
                        room[name][node] -= gpus
                    if job.shares_gpus:
                        shared[name, placement] = view
                else:
                    continue
                if own and name == PROFILER and profiling_limit_s < inf:
                    view.run_limit_s = max(profiling_limit_s, view.attained_s)  # one that is overdue is over
                    view.profiled = True
                self.running.append(view)
                if own:
                    self.played[job.job_id] = (job.job_id,)
                else:
                    self.elsewhere[view.job.job_id] = job.job_id
        for name, pool in self.pools.pools.items():
            self.nodes[name] = self._nodes_of(name, pool, room[name])

    def _run(self, job: LiveJob, pool: str, placement: Placement, own: bool) -> JobView:
        """Make the view of a run; in a pool that is not its own it only holds GPUs."""
        age_s = max(0.0, self.cluster.at_s - (job.start_time_s or 0.0))
        seen = self.pools.views.get(job.job_id)
        made = self._job(
            job,
            job.job_id if own else f"{job.job_id}@{pool}",
            home=seen.job.virtual_cluster if own and seen is not None else pool,
            gpus=placement.gpus,
            duration_s=max(self.beliefs[job.job_id].p50_s, age_s),
            seen=seen,
        )
        view = JobView(made, self.index[job.job_id])
        view.pool, view.placement, view.state = pool, placement, RunState.RUNNING
        view.start_time_s = view.first_start_time_s = -age_s
        view.attained_s = age_s
        view.remaining_s = made.duration_s - age_s
        view.profiled = job.restarts > 0
        return view

    def _nodes_of(self, name: str, pool: NodePool, room: Sequence[int]) -> PoolNodes:
        """Describe a pool's nodes; what the reading says is used and no job here holds stays taken."""
        free, members = pool.free, self.members[name]
        size = free.gpus_per_node
        taken = []
        for at, (node, left) in enumerate(zip(members, room, strict=True)):
            on_offer = free.on_node(at)  # less, where a quota keeps some back
            gone = size - node.gpus + max(0, left - on_offer)
            if gone:
                taken.append((at, gone))
        return PoolNodes(
            nodes=free.nodes,
            gpus_per_node=size,
            taken=Placement.of(taken),
            closed={at: frozenset({AWAY}) for at, node in enumerate(members) if not node.available},
        )

    # What waits

    def take_waiting(self) -> None:
        """Queue the jobs that would start if there were GPUs, and say why others would not."""
        self.not_played |= {
            job_id: f"{why}; when that ends is not known" for job_id, why in self.pools.left_alone.items()
        }
        for queue in self.pools.cpu_jobs.values():
            self.not_played |= dict.fromkeys((view.job.job_id for view in queue), ASKS_FOR_NO_GPU)
        jobs = self.cluster.by_id
        sizes = [jobs[view.job.job_id].tasks for queue in self.pools.waiting.values() for view in queue]
        while self.most_tasks > 1 and sum(min(size, self.most_tasks) for size in sizes) > MOST_WAITING:
            self.most_tasks //= 2
        empty = {name: self._when_empty(nodes) for name, nodes in self.nodes.items()}
        for name, queue in self.pools.waiting.items():
            for seen in queue:
                job = jobs[seen.job.job_id]
                home = seen.job.virtual_cluster
                if empty[name].find(job.gpus) is None or empty[home].find(job.gpus) is None:
                    self.not_played[job.job_id] = (
                        f"it asks for {job.gpus} GPUs, more than the partition "
                        f"{self.pools.partition_of(home)!r} can offer at present"
                    )
                    continue
                self._queue_up(job, seen, name)

    def _queue_up(self, job: LiveJob, seen: JobView, pool: str) -> None:
        tasks = max(1, min(job.tasks, self.most_tasks))
        if job.tasks > tasks and not self.cut_arrays:
            self.cut_arrays = True
            self.remarks.append(f"Of each array {self.most_tasks} waiting tasks are played.")
        names = [job.job_id] if tasks == 1 else [f"{job.job_id}#{task}" for task in range(tasks)]
        self.played[job.job_id] = tuple(names)
        for task, name in enumerate(names):
            p50_s = self.beliefs[job.job_id].p50_s
            made = self._job(job, name, seen.job.virtual_cluster, job.gpus, p50_s, seen)
            view = JobView(made, self.index[job.job_id] + task)
            view.pool, view.state, view.profiled = pool, RunState.PENDING, seen.profiled
            self.waiting.append(view)

    def _job(
        self, job: LiveJob, name: str, home: str, gpus: int, duration_s: float, seen: JobView | None
    ) -> Job:
        return Job(
            job_id=name,
            virtual_cluster=home,
            user=job.user,
            gpus=gpus,
            submit_time_s=min(0.0, job.submit_time_s - self.cluster.at_s),
            duration_s=duration_s,
            estimated_duration_s=self.beliefs[job.job_id].p50_s,
            # A job without a profile is never packed; live, only one that asks for a share of a GPU is.
            profile=seen.job.profile if seen is not None and job.shares_gpus else None,
            template=None if seen is None else seen.job.template,
        )

    def _when_empty(self, nodes: PoolNodes) -> FreeGpus:
        """The GPUs of a pool once everything that runs has ended."""
        free = FreeGpus(nodes.nodes, nodes.gpus_per_node)
        free.take(nodes.taken)
        for node in nodes.closed:
            free.withdraw(node)
        return free

    def made(self) -> PresentState:
        """Return what was made."""
        homes = {name: len(nodes) for name, nodes in self.members.items() if name != PROFILER}
        spec = None
        if homes:
            aside = {PROFILER: len(self.members[PROFILER])} if PROFILER in self.members else {}
            size = max(pool.free.gpus_per_node for pool in self.pools.pools.values())
            spec = ClusterSpec(homes, size, aside)
        self.waiting.sort(key=lambda view: view.index)
        return PresentState(
            InitialState(0.0, tuple(self.running), tuple(self.waiting), self.nodes),
            spec,
            self.played,
            self.elsewhere,
            self.not_played,
            tuple(self.remarks),
        )
