"""What a policy sees: node pools with their queues, running jobs and free GPUs at one moment.

A *node pool* is the nodes that one queue is served from: a virtual cluster, or a partition that a policy set
aside. Policies read; only the engine (or a live scheduler) writes. To try out placements, a policy plans on
`NodePool.plan()`, a copy.
"""

from collections.abc import Collection, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from enum import Enum
from operator import attrgetter
from typing import Any

from simulator.colocation import BelievedPairs
from simulator.elastic_run import ElasticRun
from simulator.forecast import Throughput, ThroughputForecast
from simulator.job_queue import JobQueue
from simulator.placement import FreeGpus, Placement
from simulator.running_order import RunningOrder
from simulator.workload import Job, JobProfile


class RunState(Enum):
    """Where a job is in its life."""

    SUBMITTED = "submitted"  # not seen yet
    PENDING = "pending"
    HELD = "held"  # waits beside the queue: its virtual cluster is smaller than it at present
    RUNNING = "running"
    COMPLETED = "completed"
    CANCELLED = "cancelled"  # withdrawn by its user


class JobView:
    """A job and what has happened to it so far. Policies read it; the engine writes it.

    Progress is stored as of `run_since_s` and extrapolated on demand, so an event costs nothing for the jobs
    that it does not touch.
    """

    __slots__ = (
        "attained_s",
        "colocated_s",
        "elastic",
        "end_time_s",
        "estimated_duration_s",
        "failures",
        "first_start_time_s",
        "gpus",
        "index",
        "job",
        "joined",
        "lost_s",
        "overhead_s",
        "partner",
        "placement",
        "pool",
        "predicted_end_time_s",
        "preemptions",
        "profile",
        "profiled",
        "queue_entry",
        "queued_since_s",
        "queuing_delay_s",
        "remaining_s",
        "run_limit_s",
        "run_since_s",
        "shareable",
        "speed",
        "start_time_s",
        "state",
        "submit_time_s",
        "unstable",
        "version",
        "was_colocated",
    )

    def __init__(self, job: Job, index: int) -> None:
        self.job = job
        self.index = index  # position in the workload
        # Its demand of what its pool serves: GPUs, or CPU cores for a CPU job. An elastic job may hold less.
        self.gpus = job.gpus or job.cpus
        self.elastic = None if job.elasticity is None else ElasticRun()
        # What a policy believes now; a live scheduler estimates a waiting job anew at each decision.
        self.estimated_duration_s = job.estimated_duration_s
        # What is measured of it, as a value; a policy decides from when on it may know it.
        self.profile: JobProfile | None = job.profile
        self.unstable = False  # its utilisation has been seen to change
        self.submit_time_s = job.submit_time_s
        # At full speed (on all of `gpus`, alone), as of run_since_s; a rigid job's overheads are included.
        self.remaining_s = job.duration_s
        self.attained_s = 0.0  # seconds for which it held its GPUs, as of run_since_s
        self.run_since_s = 0.0
        self.speed = 1.0
        self.state = RunState.SUBMITTED
        self.pool = ""
        self.placement: Placement | None = None
        self.partner: JobView | None = None
        self.joined = False  # it came to its partner's GPUs, and not its partner to its
        self.shareable = True  # in this run: a partner may come, or its GPUs may change
        self.start_time_s = 0.0  # of the present run
        self.run_limit_s: float | None = None  # of the present run
        self.queued_since_s = job.submit_time_s
        self.queuing_delay_s = 0.0
        self.first_start_time_s: float | None = None
        self.end_time_s: float | None = None
        self.predicted_end_time_s: float | None = None  # as foretold when it was submitted
        self.preemptions = 0
        self.failures = 0  # times that its node failed under it
        self.profiled = False
        self.was_colocated = False
        self.colocated_s = 0.0
        self.overhead_s = 0.0
        self.lost_s = 0.0  # run time whose progress was thrown away
        self.queue_entry: tuple[object, int, JobView] | None = None
        self.version = 0

    def __repr__(self) -> str:
        return f"<{self.job.job_id} {self.gpus} GPUs {self.state.value}>"

    def copy(self) -> "JobView":
        """Return a copy that is in no queue; its partner is still the partner of the original."""
        other = JobView.__new__(JobView)
        for put, value in zip(_setters, _everything_of(self), strict=True):
            put(other, value)
        other.queue_entry = None
        if self.elastic is not None:
            other.elastic = self.elastic.copy()
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> "JobView":
        """Return the job itself once it has ended, when nothing happens to it any more; else a copy.

        Policies remember jobs that have ended, and what a policy remembers is copied for each prediction.
        """
        if self.state in (RunState.COMPLETED, RunState.CANCELLED):
            return self
        other = memo[id(self)] = self.copy()
        other.partner = deepcopy(self.partner, memo)
        return other

    @property
    def estimate_s(self) -> float:
        """The estimated duration. Policies that need one declare `needs_estimates`; the engine checks."""
        estimate = self.estimated_duration_s
        if estimate is None:
            raise ValueError(f"job {self.job.job_id!r} has no estimated duration")
        return estimate

    @property
    def held_gpus(self) -> int:
        """GPUs (or cores) that it holds now; those of a pair are held by both."""
        return sum([gpus for _, gpus in self.placement or ()])

    @property
    def min_gpus(self) -> int:
        """The least that it runs on: its demand, unless it is elastic; one GPU at least."""
        elasticity = self.job.elasticity
        return self.gpus if elasticity is None else max(1, elasticity.min_gpus)

    @property
    def resizes(self) -> int:
        """Times that its GPUs changed while it ran."""
        return 0 if self.elastic is None else self.elastic.resizes

    def speed_on(self, gpus: int) -> float:
        """Return its speed, alone, on so many GPUs; 1 on all that it asks for."""
        elasticity = self.job.elasticity
        if elasticity is None or gpus == self.gpus:
            return 1.0
        return elasticity.speed_up.at(gpus) / elasticity.speed_up.at(self.gpus)

    def remaining_at(self, now_s: float) -> float:
        """The true remaining run time at full speed (s). Only an oracle reads it."""
        if self.state is not RunState.RUNNING:
            return self.remaining_s
        elapsed_s = now_s - self.run_since_s
        if self.elastic is not None:
            elapsed_s -= self.elastic.paused_of(elapsed_s)
        return max(0.0, self.remaining_s - elapsed_s * self.speed)

    def attained_at(self, now_s: float) -> float:
        """Seconds for which it has held its GPUs so far, overheads included."""
        if self.state is not RunState.RUNNING:
            return self.attained_s
        return self.attained_s + (now_s - self.run_since_s)


_everything_of = attrgetter(*JobView.__slots__)
_setters = [getattr(JobView, name).__set__ for name in JobView.__slots__]


class NodePool:
    """Nodes with the queue and the running jobs that they serve."""

    __slots__ = ("_closed", "free", "guests", "name", "queue", "running", "running_order", "total_gpus")

    def __init__(self, name: str, free: FreeGpus) -> None:
        self.name = name
        self.free = free
        self.total_gpus = free.total  # of the nodes that are present
        self.queue = JobQueue()
        self.running: dict[JobView, None] = {}  # in the order of their (present) start
        self.running_order: RunningOrder | None = None  # kept when the policy declares a running_key
        # Nodes on loan from other pools: own index -> (home, index there).
        self.guests: dict[int, tuple[NodePool, int]] = {}
        self._closed: dict[int, set[str]] = {}  # node -> why it is not on offer

    def __repr__(self) -> str:
        return f"<pool {self.name}: {self.free.total} of {self.total_gpus} free, {len(self.queue)} queued>"

    def plan(self) -> FreeGpus:
        """Return a copy of the free GPUs to try placements on."""
        return self.free.copy()

    def own_nodes(self) -> list[int]:
        """Return the nodes that belong here, on offer, lent or closed, in the order of their indices."""
        vacant = {node for node, reasons in self._closed.items() if VACANT in reasons}
        return [n for n in range(self.free.nodes) if n not in self.guests and n not in vacant]

    def gpus_when_whole(self) -> int:
        """Return the GPUs of its own nodes, lent and failed ones included; those that left are not."""
        left = sum(GONE in self._closed.get(node, ()) for node in self.own_nodes())
        return (len(self.own_nodes()) - left) * self.free.gpus_per_node

    def closed_nodes(self) -> dict[int, frozenset[str]]:
        """Return the nodes that are off the offer, and why."""
        return {node: frozenset(reasons) for node, reasons in self._closed.items() if reasons}

    def close(self, node: int, reason: str) -> None:
        """Take a node off the offer; it stays off until every reason is gone. Its jobs run on."""
        reasons = self._closed.setdefault(node, set())
        if not reasons:
            self.free.withdraw(node)
            self.total_gpus -= self.free.gpus_per_node
        reasons.add(reason)

    def reopen(self, node: int, reason: str) -> None:
        """Take back one reason for which a node is off the offer."""
        reasons = self._closed.get(node, set())
        reasons.discard(reason)
        if not reasons and self._closed.pop(node, None) is not None:
            self.free.restore(node)
            self.total_gpus += self.free.gpus_per_node

    def borrow(self, lender: "NodePool", node: int) -> int:
        """Take over another pool's node and return its index here; raises ValueError if it is not idle."""
        if not lender.free.is_present(node) or lender.free.on_node(node) != lender.free.gpus_per_node:
            raise ValueError(f"node {node} of {lender.name!r} is not idle")
        if lender.free.gpus_per_node != self.free.gpus_per_node:
            raise ValueError(f"nodes of {lender.name!r} and {self.name!r} differ in size")
        lender.close(node, LENT)
        guest = next((i for i in sorted(self._closed) if self._closed[i] == {VACANT}), None)
        if guest is None:
            guest = self.free.add_node()
            self.total_gpus += self.free.gpus_per_node
        else:
            self.reopen(guest, VACANT)
        self.guests[guest] = (lender, node)
        return guest

    def give_back(self, guest: int) -> "NodePool":
        """Return an idle guest node; return its home. Raises ValueError if it is not one."""
        if guest not in self.guests or self.free.on_node(guest) != self.free.gpus_per_node:
            raise ValueError(f"node {guest} of {self.name!r} is not an idle guest")
        home, node = self.guests.pop(guest)
        self.close(guest, VACANT)
        self._closed[guest] = {VACANT}  # what else closed the node goes home with it
        home.reopen(node, LENT)
        return home


# Why a node is not on offer.
LENT = "lent"
VACANT = "vacant"  # the place of a guest that went home
FAILED = "failed"
GONE = "gone"  # the virtual cluster has shrunk


@dataclass(slots=True)
class Snapshot:
    """The whole cluster at one moment."""

    pools: Mapping[str, NodePool]
    now_s: float = 0.0
    # The pools in which something happened since the last decision, in the order of the cluster.
    changed: Collection[NodePool] = field(default_factory=tuple)
    forecast: ThroughputForecast | None = None
    believed_pairs: BelievedPairs | None = None

    @property
    def throughput(self) -> Throughput | None:
        """The load now and as predicted; None without a forecast."""
        return None if self.forecast is None else self.forecast.at(self.now_s)
