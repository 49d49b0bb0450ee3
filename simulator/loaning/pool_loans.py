"""When a pool borrows servers of an inference service, and which it gives back: decisions as actions."""

from math import inf

from foundation.errors import BadInputError
from simulator.actions import Action, Loan, Preempt, Reclaim, Resize
from simulator.job_view import JobView
from simulator.loaning.inference_service import InferenceService
from simulator.loaning.orchestrator import LoanDemand, servers_to_lend
from simulator.loaning.reclaiming import LoanedServer, choose_reclaim
from simulator.loaning.settings import LoanSettings
from simulator.snapshot import NodePool, Snapshot
from simulator.worker_scaling.draft import base_of, flexible_of
from simulator.worker_scaling.job_workers import workers_of
from simulator.worker_scaling.worker_placement import whole_units


class PoolLoans:
    """The orchestrator of one simulation (Lyra, sections 3 and 4).

    `moved_at_s` is when it last moved servers, `reclaimed_at_s` when it last took some back; no snapshot
    shows either.
    """

    def __init__(self, settings: LoanSettings, *, scaling: bool = True) -> None:
        """`scaling`: whether jobs get flexible workers, and want servers on loan for them."""
        self._settings = settings
        self._scaling = scaling
        self._lender = ""
        self.moved_at_s = -inf
        self.reclaimed_at_s = -inf

    @staticmethod
    def borrower(snapshot: Snapshot) -> NodePool:
        """Return the pool that borrows; raises BadInputError where there are several."""
        service = snapshot.inference
        pools = [pool for name, pool in snapshot.pools.items() if service is None or name != service.name]
        if len(pools) != 1:
            names = ", ".join(repr(pool.name) for pool in pools)
            raise BadInputError(
                f"Servers of an inference service are lent to one virtual cluster, and there are {names}.",
                remedy="Replay them as one virtual cluster, or switch loaning off.",
            )
        return pools[0]

    def next_decision_s(self, pool: NodePool, now_s: float) -> float | None:
        """When servers may be lent or taken back again; only the lender is told of it."""
        if pool.name != self._lender:
            return None
        period_s = self._settings.period_s
        return (now_s // period_s + 1) * period_s

    def decide(self, snapshot: Snapshot, borrower: NodePool) -> list[Action]:
        """Return what is to be lent or taken back now, if it is time."""
        now_s, service, settings = snapshot.now_s, snapshot.inference, self._settings
        assert service is not None  # noqa: S101
        lender = snapshot.pools[service.name]
        self._lender = lender.name
        if now_s % settings.period_s or self.moved_at_s == now_s:
            return []
        guests = sorted(node for node, (home, _) in borrower.guests.items() if home is lender)
        wanted = servers_to_lend(
            service.servers,
            service.servers_needed(now_s),
            len(guests),
            settings,
            demand=self._demand(borrower, guests, service) if settings.lend == "demand" else None,
            since_reclaim_s=now_s - self.reclaimed_at_s,
        )
        actions: list[Action]
        if wanted < len(guests):
            self.reclaimed_at_s = now_s
            seed = settings.seed * 1_000_003 + int(now_s // settings.period_s)
            actions = _take_back(
                borrower, guests, len(guests) - wanted, service, rule=(settings.reclaim, seed)
            )
        else:
            idle = lender.free.idle_nodes()[: wanted - len(guests)]
            actions = [Loan(lender, borrower, node) for node in idle]
        if actions:
            self.moved_at_s = now_s
        return actions

    def _demand(self, pool: NodePool, guests: list[int], service: InferenceService) -> LoanDemand:
        """Return what jobs could use: base demand that waits, and flexible demand on loan that is not met."""
        unit, size = service.loaned_workers_per_worker, pool.free.gpus_per_node
        in_use = [guest for guest in guests if pool.free.on_node(guest) < size]
        wanted = sum(view.min_gpus for view in pool.queue if workers_of(view).loanable) * unit
        on_loan = set(guests)
        for view in pool.running if self._scaling else ():
            placement = view.placement or ()
            if workers_of(view).elastic and any(node in on_loan for node, _ in placement):
                wanted += max(0, view.gpus * unit - view.held_gpus)
        free = sum(pool.free.on_node(guest) for guest in in_use)
        return LoanDemand(len(in_use), free, wanted, size)


def _take_back(
    pool: NodePool, guests: list[int], count: int, service: InferenceService, *, rule: tuple[str, int]
) -> list[Action]:
    """Preempt and scale in the jobs on servers that go back, then give these back."""
    base: dict[int, dict[JobView, int]] = {guest: {} for guest in guests}
    flexible: dict[int, dict[JobView, int]] = {guest: {} for guest in guests}
    for view in pool.running:
        for node, gpus in flexible_of(view):
            if node in flexible:
                flexible[node][view] = gpus
        for node, gpus in base_of(view).items():
            if node in base:
                base[node][view] = gpus
    name, seed = rule
    servers = [LoanedServer(guest, base[guest], flexible[guest]) for guest in guests]
    choice = choose_reclaim(servers, count, name, seed=seed)
    kept = set(guests).difference(choice.picks)
    actions: list[Action] = [
        Preempt(view, keeps_progress=workers_of(view).checkpoints) for view in choice.preempted
    ]
    actions += [
        _scaled_in(view, choice.picks, kept, service.loaned_workers_per_worker)
        for view in dict.fromkeys(view for view, _ in choice.scaled_in)
    ]
    actions += [Reclaim(pool, guest) for guest in sorted(choice.picks)]
    return actions


def _scaled_in(view: JobView, picks: tuple[int, ...], kept: set[int], unit: int) -> Resize:
    """Return how a job gives up its flexible workers on servers that go back, in whole units."""
    gpus = workers_of(view).gpus_each
    workers = {node: held // gpus for node, held in flexible_of(view) if node not in picks}
    on_loan = {node: count for node, count in workers.items() if node in kept}
    own = {node: count for node, count in workers.items() if node not in kept}
    flexible = {node: count * gpus for node, count in (own | whole_units(on_loan, unit)).items()}
    placement = base_of(view)
    for node, held in flexible.items():
        placement[node] = placement.get(node, 0) + held
    return Resize(view, tuple(sorted(placement.items())), flexible=tuple(sorted(flexible.items())))
