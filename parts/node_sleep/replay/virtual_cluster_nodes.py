"""The nodes of one virtual cluster: which are awake, boot and sleep, and which its jobs need."""

from collections.abc import Iterable

from simulator.cluster.placement import FreeGpus, Placement
from simulator.job_view import JobView
from simulator.snapshot import ASLEEP, BOOTING, NodePool


class VirtualClusterNodes:
    """A virtual cluster's own nodes by index in its pool of GPUs, with their CPU cores where jobs use them.

    A node that sleeps or boots is off the offer, like one that failed. The numbers are as of `count`. Servers
    on loan from an inference service are none of them: whose they are keeps them awake, and jobs that wait
    beside them could not run there.
    """

    def __init__(
        self, name: str, gpus: NodePool, cores: NodePool | None, *, elastic: bool, lender: str | None = None
    ) -> None:
        """`elastic`: some jobs run on fewer GPUs than they ask for. `lender` names the inference service."""
        self.name = name
        self.gpus = gpus
        self.pools = (gpus,) if cores is None else (gpus, cores)
        self.asleep: set[int] = set()
        self.booting: set[int] = set()
        self.awake = 0
        self.idle = 0  # of those awake
        self.short = 0  # nodes that waiting jobs need beyond those awake
        self.counted_gpus = -1  # in its pool, at the last count
        self.waiting: set[int] = set()  # indices of the jobs that need a node that is not awake
        self._elastic = elastic
        self._lender = lender
        self._cores = cores
        self._cores_of: dict[int, int] = {}  # node -> its index in the pool of cores
        self.follow()

    @property
    def spare(self) -> int:
        """Nodes, awake or booting, beyond what jobs run on and need."""
        return self.idle + len(self.booting) - self.short

    # -- nodes that sleep and wake ---------------------------------------------------------------------------

    def follow(self) -> None:
        """Take note of nodes that came, left, failed or were repaired; those are not asleep any more."""
        closed = self.gpus.closed_nodes()
        self.asleep = {node for node, reasons in closed.items() if reasons == {ASLEEP}}
        self.booting = {node for node, reasons in closed.items() if reasons == {BOOTING}}
        if self._cores is not None:
            own = zip(self.gpus.own_nodes(), self._cores.own_nodes(), strict=False)
            self._cores_of = dict(own)

    def put_to_sleep(self, node: int) -> None:
        """Take an idle node off the offer."""
        self.asleep.add(node)
        for pool, place in self._places(node):
            pool.close(place, ASLEEP)

    def begin_boot(self, node: int) -> None:
        """Have a node that sleeps boot; it stays off the offer."""
        self.asleep.remove(node)
        self.booting.add(node)
        for pool, place in self._places(node):
            pool.close(place, BOOTING)
            pool.reopen(place, ASLEEP)

    def end_boot(self, node: int) -> None:
        """Offer a node that has booted."""
        self.booting.remove(node)
        for pool, place in self._places(node):
            pool.reopen(place, BOOTING)

    def _places(self, node: int) -> Iterable[tuple[NodePool, int]]:
        yield self.gpus, node
        if self._cores is not None:
            yield self._cores, self._cores_of[node]

    # -- what jobs need --------------------------------------------------------------------------------------

    def count(self) -> None:
        """Count the nodes anew, and those that jobs need."""
        gpus = self.gpus
        loaned = self._loaned()
        self.counted_gpus = gpus.total_gpus
        self.awake = gpus.total_gpus // gpus.free.gpus_per_node - len(loaned)
        self.idle = gpus.free.idle_count if self._cores is None else self._idle_with_cores()
        if loaned and self._cores is None:
            size = gpus.free.gpus_per_node
            self.idle -= sum(gpus.free.on_node(node) == size for node in loaned)
        self.short = 0
        self.waiting.clear()
        not_awake = len(self.asleep) + len(self.booting)
        if not_awake:
            for pool in self.pools:
                claimed, _ = self._claims(pool, not_awake, self.waiting, loaned)
                self.short = max(self.short, claimed)

    def may_sleep(self, least_awake: int) -> list[int]:
        """Return idle nodes of its own that no waiting job needs, lowest index first; so many stay awake."""
        nodes: list[int] | None = None
        for pool in self.pools:
            _, unclaimed = self._claims(pool, 0, set(), self._loaned())
            if pool is self.gpus:
                nodes = [node for node in unclaimed if node not in pool.guests]
            elif nodes is not None:
                unclaimed_cores = set(unclaimed)
                nodes = [node for node in nodes if self._cores_of.get(node) in unclaimed_cores]
        spare = max(0, self.awake - least_awake)
        return (nodes or [])[-spare:] if spare else []

    def _idle_with_cores(self) -> int:
        """Count the nodes with idle GPUs and cores."""
        assert self._cores is not None  # noqa: S101
        idle_cores = set(self._cores.free.idle_nodes())
        return sum(self._cores_of.get(node) in idle_cores for node in self.gpus.free.idle_nodes())

    def _loaned(self) -> frozenset[int]:
        """Return the servers on loan from the inference service that are on offer."""
        pool = self.gpus
        if self._lender is None or not pool.guests:
            return frozenset()
        return frozenset(filter(pool.free.is_present, pool.lent_by(self._lender)))

    def _claims(
        self, pool: NodePool, not_awake: int, waiting: set[int], loaned: frozenset[int]
    ) -> tuple[int, list[int]]:
        """Return how many nodes that are not awake the waiting jobs need, and the idle ones that none needs.

        All of them are placed at once, in the order of the queue, on the free GPUs and on `not_awake` nodes
        more; awake nodes are taken first. If one finds no place, all nodes are needed. So a job that would
        fit if all nodes were awake never waits without nodes being woken for it: either it has a place among
        those that are awake or woken, or none sleeps. Running elastic jobs need the GPUs that they lack.
        Indices of the jobs that are placed on nodes that are not awake go to `waiting`.
        """
        if not len(pool.queue) and not self._elastic:
            return 0, [node for node in pool.free.idle_nodes() if node not in loaned]
        plan = pool.plan()
        if pool is self.gpus:
            for node in loaned:
                plan.withdraw(node)
        size = plan.gpus_per_node
        present = plan.nodes
        for _ in range(not_awake):
            plan.add_node()
        for job in pool.queue:
            placement = _place(job, plan)
            if placement is None:
                return not_awake, []
            if placement[-1][0] >= present or placement[0][0] >= present:
                waiting.add(job.index)
        idle = plan.idle_nodes()
        if self._elastic:
            lacked_gpus = _lacked_gpus(pool.running, loaned)
            on_started_nodes = plan.total - len(idle) * size
            idle = idle[max(0, -(-(lacked_gpus - on_started_nodes) // size)) :]
        unused = sum(node >= present for node in idle)
        return not_awake - unused, idle[: len(idle) - unused]


def _place(job: JobView, plan: FreeGpus) -> Placement | None:
    """Place a job that waits; of workers the least, each on the fullest node that it fits. None: no room.

    Nodes are in the order of their indices, and may come more than once.
    """
    workers = job.job.workers
    if workers is None:
        return plan.place(job.gpus)
    placement: list[tuple[int, int]] = []
    for _ in range(workers.least):
        place = plan.place(workers.gpus_each)
        if place is None:
            return None
        placement += place
    return Placement.of(sorted(placement))


def _lacked_gpus(running: Iterable[JobView], loaned: frozenset[int]) -> int:
    """GPUs that elastic jobs ask for beyond those that they hold; on loaned servers they get more there."""
    return sum(
        job.gpus - job.held_gpus
        for job in running
        if job.elastic is not None
        and (not loaned or not any(node in loaned for node, _ in job.placement or ()))
    )
