"""Nodes held back for a gang that does not fit, so that smaller jobs behind it in the queue do not starve it.

The idea of EASY backfilling (Lifka, 1995) with expected instead of requested run times: the gang gets the
nodes that are expected to be free first, and a job behind it may use them only if it is expected to be gone
by then.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from math import inf
from operator import itemgetter, or_

from simulator.cluster.node_bits import lowest, lowest_of, nodes_of
from simulator.cluster.placement import FreeGpus, Placement
from simulator.job_view import JobView
from simulator.mechanisms.freed_gpus import FreedGpus
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
    groups: tuple[int, ...]  # sets of nodes (`node_bits`): those that are expected to be free first, first
    free_at_s: float  # when the gang is expected to fit
    chosen_at_s: float

    @property
    def nodes(self) -> int:
        """All of them, as a set."""
        return reduce(or_, self.groups)


class HeldUntil(Mapping[int, float]):
    """By held node: when its gang is expected to start (s)."""

    def __init__(self) -> None:
        self._until_s: list[tuple[int, float]] = []  # (nodes as a set, s)
        self.nodes = 0

    def add(self, nodes: int, until_s: float) -> None:
        """Hold nodes that are not held yet."""
        self._until_s.append((nodes, until_s))
        self.nodes |= nodes

    def __getitem__(self, node: int) -> float:
        for nodes, until_s in self._until_s:
            if nodes >> node & 1:
                return until_s
        raise KeyError(node)

    def __iter__(self) -> Iterator[int]:
        return (node for nodes, _ in self._until_s for node in nodes_of(nodes))

    def __len__(self) -> int:
        return self.nodes.bit_count()

    def __bool__(self) -> bool:
        return bool(self.nodes)


def expected_remaining_s(job: JobView, now_s: float) -> float:
    """Return how much longer a running job is believed to run, at full speed (s)."""
    attained_s = job.attained_at(now_s)
    left_s, again_s = job.estimate_s - attained_s, OUTLIVED_SHARE * attained_s
    return left_s if left_s > again_s else again_s


def choose_nodes(job: JobView, pool: NodePool, now_s: float, taken: int) -> Hold | None:
    """Choose the nodes on which the gang is expected to fit first; None if there are not enough.

    `taken` are nodes, as a set, that are held for others.
    """
    free = pool.free
    largest = free.largest(job.nodes)
    least = job.gpus if job.gpus <= largest else 1  # what one node can hold is not split
    allowed = free.present & ~taken
    if job.nodes is not None:
        allowed &= job.nodes
    open_nodes = {size: nodes & allowed for size, nodes in free.by_size() if size >= least}
    groups = []
    lacking = job.gpus
    for free_at_s, nodes in _ready(open_nodes, job.gpus, pool, now_s):
        chosen, gpus = _fewest(nodes, lacking, open_nodes)
        groups.append(chosen)
        lacking -= gpus
        if lacking <= 0:
            return Hold(job, tuple(groups), free_at_s, now_s)
    return None


def _ready(
    open_nodes: Mapping[int, int], gpus: int, pool: NodePool, now_s: float
) -> Iterator[tuple[float, int]]:
    """Yield when nodes are expected to be free, or to have so many free GPUs: (s, nodes), the first first."""
    free = pool.free
    there = reduce(or_, open_nodes.values(), 0)
    ready = 0
    for size, nodes in open_nodes.items():
        ready |= free.having(min(size, gpus)) & nodes
    freed = [(nodes, FreedGpus(free, min(size, gpus))) for size, nodes in open_nodes.items()]
    at_s, seen = now_s, 0
    for ends_s, other in sorted(_leaving(pool, there & ~ready, now_s), key=itemgetter(0)):
        if ends_s > at_s:
            if ready:
                yield at_s, ready
            seen |= ready
            at_s, ready = ends_s, 0
        for nodes, freed_gpus in freed:
            ready |= freed_gpus.give(other) & nodes & ~seen
    if ready:
        yield at_s, ready
    never = there & ~seen & ~ready
    if never:
        yield inf, never


def _leaving(pool: NodePool, nodes: int, now_s: float) -> Iterator[tuple[float, Placement]]:
    """Yield when each job that runs on some of these nodes is expected to end (s), and what it holds."""
    for job in pool.running:
        if job.placement is None or (job.partner is not None and job.joined):
            continue  # a pair's GPUs are counted with the one that was there first
        if job.placement.nodes & nodes:
            ends_s = now_s + expected_remaining_s(job, now_s)
            if job.partner is not None:
                ends_s = max(ends_s, now_s + expected_remaining_s(job.partner, now_s))
            yield ends_s, job.placement


def _fewest(nodes: int, gpus: int, open_nodes: Mapping[int, int]) -> tuple[int, int]:
    """Return the lowest of these nodes that have so many GPUs together, or all, and their GPUs."""
    if len(open_nodes) == 1:
        (size,) = open_nodes
        count = min(nodes.bit_count(), -(-gpus // size))
        return lowest_of(nodes, count), count * size
    chosen = held = 0
    for node in nodes_of(nodes):
        chosen |= 1 << node
        held += next(size for size, of_size in open_nodes.items() if of_size >> node & 1)
        if held >= gpus:
            break
    return chosen, held


class NodeHolds:
    """The holds of one pool. The choice of nodes is remembered between decisions, so that they drain."""

    def __init__(self) -> None:
        self._holds: dict[JobView, Hold] = {}
        self._before: dict[JobView, Hold] = {}
        self.until_s = HeldUntil()
        self.idle_gpus = 0  # on held nodes

    def __len__(self) -> int:
        """How many gangs hold nodes in this decision."""
        return len(self._holds)

    def begin(self) -> None:
        """Start a new decision: nothing is held yet."""
        if self._holds:
            self._before, self._holds = self._holds, {}
            self.until_s = HeldUntil()
            self.idle_gpus = 0

    def hold(self, job: JobView, pool: NodePool, plan: FreeGpus, now_s: float) -> None:
        """Hold nodes for a gang that does not fit now: withdraw them from the plan."""
        held = self._before.get(job)
        taken = self.until_s.nodes
        if (
            held is None
            or held.chosen_at_s + STANDS_S <= now_s
            or held.free_at_s <= now_s
            or held.nodes & (taken | ~plan.present)
        ):
            held = choose_nodes(job, pool, now_s, taken)
            if held is None:
                return
        self._holds[job] = held
        self.until_s.add(held.nodes, held.free_at_s)
        self.idle_gpus += plan.withdraw_all(held.nodes)

    def place_beside(self, job: JobView, plan: FreeGpus, now_s: float) -> Placement | None:
        """Take idle GPUs of a held node, if the job is expected to be gone before the gang needs them."""
        ends_s = now_s + MARGIN * job.estimate_s
        having = plan.having(job.gpus, withdrawn=True)
        if job.nodes is not None:
            having &= job.nodes
        for held in self._holds.values():
            fitting = [nodes & having for nodes in held.groups if nodes & having]
            if fitting and ends_s <= held.free_at_s:
                bit = lowest(fitting[0])
                placement = Placement(((bit, job.gpus),), job.gpus)
                node = bit.bit_length() - 1
                plan.restore(node)
                plan.take(placement)
                plan.withdraw(node)
                self.idle_gpus -= job.gpus
                return placement
        return None
