"""Nodes held back for a gang that does not fit, so that smaller jobs behind it in the queue do not starve it.

The idea of EASY backfilling (Lifka, 1995) with expected instead of requested run times: the gang gets the
nodes that are expected to be free first, and a job behind it may use them only if it is expected to be gone
by then.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from simulator.job_view import JobView
from simulator.placement import FreeGpus, Placement, lies_within, nodes_in
from simulator.snapshot import NodePool

# A running job that has outlived its estimate is expected to run for this share of its age again.
OUTLIVED_SHARE = 0.5

# A job may use held nodes if so many times its estimate still ends in time: estimates may be far too short.
MARGIN = 3.0

# How long a choice of nodes stands: it takes a look at every running job.
STANDS_S = 600.0


@dataclass
class Hold:
    """Nodes held for one waiting gang."""

    job: JobView
    nodes: tuple[int, ...]
    free_at_s: float  # when the gang is expected to fit
    chosen_at_s: float


def expected_remaining_s(job: JobView, now_s: float) -> float:
    """Return how much longer a running job is believed to run, at full speed (s)."""
    attained_s = job.attained_at(now_s)
    left_s, again_s = job.estimate_s - attained_s, OUTLIVED_SHARE * attained_s
    return left_s if left_s > again_s else again_s


def choose_nodes(job: JobView, pool: NodePool, now_s: float, taken: set[int]) -> Hold | None:
    """Choose the nodes on which the gang is expected to fit first; None if there are not enough."""
    free = pool.free
    largest = free.largest(job.nodes)
    least = job.gpus if job.gpus <= largest else 1  # what one node can hold is not split
    free_now = free.per_node()  # below zero on a node that is not on offer
    alike = free.has_equal_nodes
    sizes = {
        node: size
        for node in nodes_in(job.nodes, free.nodes)
        if free_now[node] >= 0
        and node not in taken
        and (size := largest if alike else free.size_of(node)) >= least
    }
    # By node that has too few GPUs free: when running jobs leave it, and with how many.
    leaving: dict[int, list[tuple[float, int]]] = {
        node: [] for node, size in sizes.items() if free_now[node] < min(size, job.gpus)
    }
    for other in pool.running:
        placement = other.placement
        if placement is None or (other.partner is not None and other.joined):
            continue  # a pair's GPUs are counted with the one that was there first
        ends_s = -inf
        for node, gpus in placement:
            if node in leaving:
                if ends_s == -inf:
                    ends_s = _expected_end_s(other, now_s)
                leaving[node].append((ends_s, gpus))
    ready = sorted(
        (_free_at_s(free_now[node], min(size, job.gpus), leaving.get(node, ()), now_s), node, size)
        for node, size in sizes.items()
    )
    soonest: list[int] = []
    lacking = job.gpus
    for free_at_s, node, size in ready:
        soonest.append(node)
        lacking -= size
        if lacking <= 0:
            return Hold(job, tuple(soonest), free_at_s, now_s)
    return None


def _expected_end_s(job: JobView, now_s: float) -> float:
    """Return when a running job is believed to end, and its partner with it."""
    ends_s = now_s + expected_remaining_s(job, now_s)
    if job.partner is not None:
        ends_s = max(ends_s, now_s + expected_remaining_s(job.partner, now_s))
    return ends_s


def _free_at_s(free: int, needed: int, leaving: Sequence[tuple[float, int]], now_s: float) -> float:
    """Return when a node is expected to have so many GPUs free."""
    at_s = now_s
    for ends_s, gpus in sorted(leaving):
        if free >= needed:
            break
        free += gpus
        at_s = ends_s
    return at_s if free >= needed else inf


class NodeHolds:
    """The holds of one pool. The choice of nodes is remembered between decisions, so that they drain."""

    def __init__(self) -> None:
        self._holds: dict[JobView, Hold] = {}
        self._before: dict[JobView, Hold] = {}
        self.until_s: dict[int, float] = {}  # by held node: when its gang is expected to start
        self.idle_gpus = 0  # on held nodes

    def __len__(self) -> int:
        """How many gangs hold nodes in this decision."""
        return len(self._holds)

    def begin(self) -> None:
        """Start a new decision: nothing is held yet."""
        if self._holds:
            self._before, self._holds = self._holds, {}
            self.until_s = {}
            self.idle_gpus = 0

    def hold(self, job: JobView, pool: NodePool, plan: FreeGpus, now_s: float) -> None:
        """Hold nodes for a gang that does not fit now: withdraw them from the plan."""
        held = self._before.get(job)
        taken = set(self.until_s)
        if (
            held is None
            or held.chosen_at_s + STANDS_S <= now_s
            or held.free_at_s <= now_s
            or not all(map(plan.is_present, held.nodes))
            or not taken.isdisjoint(held.nodes)
        ):
            held = choose_nodes(job, pool, now_s, taken)
            if held is None:
                return
        self._holds[job] = held
        for node in held.nodes:
            plan.withdraw(node)
            self.until_s[node] = held.free_at_s
            self.idle_gpus += plan.on_node(node)

    def place_beside(self, job: JobView, plan: FreeGpus, now_s: float) -> Placement | None:
        """Take idle GPUs of a held node, if the job is expected to be gone before the gang needs them."""
        ends_s = now_s + MARGIN * job.estimate_s
        for node, until_s in self.until_s.items():
            placement = Placement(((1 << node, job.gpus),), job.gpus)
            if ends_s <= until_s and plan.on_node(node) >= job.gpus and lies_within(placement, job.nodes):
                plan.restore(node)
                plan.take(placement)
                plan.withdraw(node)
                self.idle_gpus -= job.gpus
                return placement
        return None
