"""What a policy sees: node pools with their queues, running jobs and free GPUs at one moment.

A *node pool* is the nodes that one queue is served from: a virtual cluster, or a partition that a policy set
aside. Policies read; only the engine (or a live scheduler) writes. To try out placements, a policy plans on
`NodePool.plan()`, a copy.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from simulator.cluster.placement import FreeGpus
from simulator.job_queue import JobQueue
from simulator.job_view import JobView
from simulator.running_order import RunningOrder
from simulator.workload.colocation import BelievedPairs
from simulator.workload.forecast import Throughput, ThroughputForecast


class Lender(ABC):
    """Servers in a pool of their own, which may be lent to the cluster's virtual clusters.

    `name` is the pool's, `servers` how many there are. On loan, `loaned_workers_per_worker` workers do the
    work of one, and a job on both kinds of servers runs at `mixed_speed` (above 0, up to 1).
    """

    name: str
    servers: int
    loaned_workers_per_worker: int
    mixed_speed: float

    @abstractmethod
    def servers_needed(self, now_s: float) -> int:
        """Return how many of them are taken to be needed where they belong."""


class NodePool:
    """Nodes with the queue and the running jobs that they serve."""

    __slots__ = (
        "_closed",
        "free",
        "guests",
        "masks",
        "name",
        "queue",
        "running",
        "running_order",
        "total_gpus",
    )

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
        # Where virtual clusters share nodes: which each may use, bit *i* for node *i* (`JobView.nodes`).
        self.masks: Mapping[str, int] = {}

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
        return sum(
            self.free.size_of(node) for node in self.own_nodes() if GONE not in self._closed.get(node, ())
        )

    def lent_by(self, lender: str | None) -> frozenset[int]:
        """Return its guests (own indices) of the pool of this name."""
        return frozenset(guest for guest, (home, _) in self.guests.items() if home.name == lender)

    def is_lent_by(self, lender: str, node: int) -> bool:
        """Whether a node is a guest of the pool of this name."""
        origin = self.guests.get(node)
        return origin is not None and origin[0].name == lender

    def closed_nodes(self) -> dict[int, frozenset[str]]:
        """Return the nodes that are off the offer, and why."""
        return {node: frozenset(reasons) for node, reasons in self._closed.items() if reasons}

    def close(self, node: int, reason: str) -> None:
        """Take a node off the offer; it stays off until every reason is gone. Its jobs run on."""
        reasons = self._closed.setdefault(node, set())
        if not reasons:
            self.free.withdraw(node)
            self.total_gpus -= self.free.size_of(node)
        reasons.add(reason)

    def reopen(self, node: int, reason: str) -> None:
        """Take back one reason for which a node is off the offer."""
        reasons = self._closed.get(node, set())
        reasons.discard(reason)
        if not reasons and self._closed.pop(node, None) is not None:
            self.free.restore(node)
            self.total_gpus += self.free.size_of(node)

    def power_on(self, node: int) -> None:
        """Have a node be neither asleep nor booting: it fails or leaves, and comes back awake."""
        for reason in (ASLEEP, BOOTING):
            self.reopen(node, reason)

    def borrow(self, lender: "NodePool", node: int) -> int:
        """Take over another pool's node and return its index here; raises ValueError if it is not idle."""
        if not lender.free.is_present(node) or lender.free.on_node(node) != lender.free.size_of(node):
            raise ValueError(f"node {node} of {lender.name!r} is not idle")
        if lender.free.size_of(node) != self.free.gpus_per_node or not self.free.has_equal_nodes:
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
ASLEEP = "asleep"
BOOTING = "booting"


@dataclass(slots=True)
class Snapshot:
    """The whole cluster at one moment."""

    pools: Mapping[str, NodePool]
    now_s: float = 0.0
    # The pools in which something happened since the last decision, in the order of the cluster.
    changed: Collection[NodePool] = field(default_factory=tuple)
    forecast: ThroughputForecast | None = None
    believed_pairs: BelievedPairs | None = None
    lender: Lender | None = None  # its servers are one more pool, of its name

    @property
    def throughput(self) -> Throughput | None:
        """The load now and as predicted; None without a forecast."""
        return None if self.forecast is None else self.forecast.at(self.now_s)
