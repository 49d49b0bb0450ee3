"""When pools borrow servers of an inference service, and which go back: decisions as actions.

Lyra (sections 3 and 4) has one training cluster. Of several virtual clusters the one borrows next whose
waiting jobs lack most GPUs; servers that none lacks stay where they are.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from parts.lending.replay.orchestrator import most_to_lend, servers_of_use, servers_to_lend
from parts.lending.replay.reclaiming import LoanedServer, choose_reclaim
from parts.lending.replay.settings import LoanSettings
from parts.lending.workers.draft import base_of, flexible_of
from parts.lending.workers.job_workers import workers_of
from parts.lending.workers.worker_placement import whole_units
from simulator.actions import Action, Loan, Preempt, Reclaim, Resize
from simulator.cluster.placement import Placement
from simulator.job_view import JobView
from simulator.snapshot import Lender, NodePool, Snapshot


@dataclass(frozen=True)
class JobsOnLoan:
    """Which jobs may use servers on loan, and what they keep when they are preempted there.

    Jobs in workers (`Job.workers`) say so themselves. `others`: whether other jobs may, each GPU there like
    one of their own. `others_checkpoint`: whether these keep their progress. `scaling`: whether jobs get
    flexible workers, and want servers on loan for them.
    """

    others: bool = False
    others_checkpoint: bool = False
    scaling: bool = True

    def waiting_gpus(self, view: JobView, unit: int) -> int:
        """Return the GPUs on loan that a waiting job could start on; `unit` loaned workers do for one."""
        if view.job.workers is None:
            return view.min_gpus if self.others else 0
        return view.min_gpus * unit if view.job.workers.loanable else 0

    def checkpoints(self, view: JobView) -> bool:
        """Whether a job keeps its progress; what a bounded run shows is always lost."""
        workers = view.job.workers
        keeps = self.others_checkpoint if workers is None else workers.checkpoints
        return keeps and view.run_limit_s is None


@dataclass(frozen=True, slots=True)
class _Borrower:
    """A pool, and its guests of one lender: own index -> the lender's."""

    pool: NodePool
    guests: Mapping[int, int]

    def idle(self) -> list[int]:
        """Return the idle guests."""
        size = self.pool.free.gpus_per_node
        return [guest for guest in self.guests if self.pool.free.on_node(guest) == size]


class PoolLoans:
    """The orchestrator of one simulation (Lyra, sections 3 and 4).

    `borrowers` names the pools that borrow, others never do. It decides once in each period, and remembers
    what no snapshot shows: in which period it last did, and when inference last took servers back.
    """

    def __init__(
        self, settings: LoanSettings, borrowers: Collection[str] = (), jobs: JobsOnLoan | None = None
    ) -> None:
        self._settings = settings
        self._names = tuple(borrowers)
        self._jobs = jobs or JobsOnLoan()
        self._lender = ""
        self._period = -1
        self._reclaimed_at_s = -inf
        self._to_ask: dict[NodePool, None] = {}  # pools with news, that are asked once nodes have moved

    def next_decision_s(self, pool: NodePool, now_s: float) -> float | None:
        """When servers may be lent or taken back again; only the lender's pool is asked then."""
        if pool.name != self._lender:
            return None
        period_s = self._settings.period_s
        return (now_s // period_s + 1) * period_s

    def memory(self) -> tuple[int, float, dict[NodePool, None]]:
        """Return what it remembers, for `remember`."""
        return self._period, self._reclaimed_at_s, self._to_ask

    def remember(self, memory: tuple[int, float, dict[NodePool, None]]) -> None:
        """Go on from what another remembers."""
        self._period, self._reclaimed_at_s, self._to_ask = memory

    def decide(self, snapshot: Snapshot) -> tuple[list[Action], Collection[NodePool]]:
        """Return what is to be lent or taken back now, or the pools in which a policy is to decide.

        Nodes move first: where any do, the policy is asked again at once, and then in all pools with news.
        """
        service = snapshot.lender
        if service is None:
            return [], snapshot.changed
        lender = snapshot.pools[service.name]
        self._lender = lender.name
        self._to_ask.update(dict.fromkeys(pool for pool in snapshot.changed if pool is not lender))
        period = int(snapshot.now_s // self._settings.period_s)
        if lender in snapshot.changed and period > self._period:
            self._period = period
            actions = self._move(snapshot, service, lender)
            if actions:
                return actions, ()
        asked, self._to_ask = self._to_ask, {}
        return [], tuple(asked)

    def _move(self, snapshot: Snapshot, service: Lender, lender: NodePool) -> list[Action]:
        settings, now_s = self._settings, snapshot.now_s
        borrowers = [
            _Borrower(
                pool,
                {guest: node for guest, (home, node) in sorted(pool.guests.items()) if home is lender},
            )
            for pool in map(snapshot.pools.__getitem__, self._names)
        ]
        on_loan = sum(len(borrower.guests) for borrower in borrowers)
        needed = service.servers_needed(now_s)
        wanted = servers_to_lend(
            service.servers,
            needed,
            on_loan,
            settings,
            of_use=self._servers_of_use(borrowers, service) if settings.lend == "demand" else None,
            since_reclaim_s=now_s - self._reclaimed_at_s,
        )
        if on_loan > most_to_lend(service.servers, needed, settings):
            self._reclaimed_at_s = now_s
        if wanted < on_loan:
            return self._take_back(borrowers, on_loan - wanted, service.loaned_workers_per_worker)
        return self._lend(borrowers, wanted, lender, service.loaned_workers_per_worker)

    # -- lending ---------------------------------------------------------------------------------------------

    def _waiting_gpus(self, pool: NodePool, unit: int) -> int:
        return sum(self._jobs.waiting_gpus(view, unit) for view in pool.queue)

    def _servers_of_use(self, borrowers: Sequence[_Borrower], service: Lender) -> int:
        """Count what jobs could use: base demand that waits, and flexible demand on loan that is not met."""
        unit, servers = service.loaned_workers_per_worker, 0
        for borrower in borrowers:
            pool = borrower.pool
            wanted = self._waiting_gpus(pool, unit)
            for view in pool.running if self._jobs.scaling and borrower.guests else ():
                if workers_of(view).elastic and any(n in borrower.guests for n, _ in view.placement or ()):
                    wanted += max(0, view.gpus * unit - view.held_gpus)
            in_use = borrower.guests.keys() - borrower.idle()
            free = sum(pool.free.on_node(guest) for guest in in_use)
            servers += servers_of_use(len(in_use), free, wanted, pool.free.gpus_per_node)
        return servers

    def _lend(self, borrowers: Sequence[_Borrower], wanted: int, lender: NodePool, unit: int) -> list[Action]:
        """Return which pools borrow, so that so many are on loan; idle guests go where GPUs are lacked."""
        size = lender.free.gpus_per_node
        idle = {borrower.pool: borrower.idle() for borrower in borrowers}
        lacked = {}
        for borrower in borrowers:
            pool = borrower.pool
            free_gpus = pool.free.total - size * len(idle[pool])
            lacked[pool] = self._waiting_gpus(pool, unit) - free_gpus
        gets = dict.fromkeys(lacked, 0)
        in_use = sum(len(borrower.guests) - len(idle[borrower.pool]) for borrower in borrowers)
        for _ in range(wanted - in_use):
            pool = max(
                lacked, key=lambda each: (max(0, lacked[each]), gets[each] < len(idle[each]), lacked[each])
            )
            gets[pool] += 1
            lacked[pool] -= size
        actions: list[Action] = []
        nodes = set(lender.free.idle_nodes())
        for borrower in borrowers:
            for guest in idle[borrower.pool][gets[borrower.pool] :]:
                actions.append(Reclaim(borrower.pool, guest))
                nodes.add(borrower.guests[guest])
        lowest_first = iter(sorted(nodes))
        for pool, count in gets.items():
            more = range(count - len(idle[pool]))
            actions += [Loan(lender, pool, node) for _, node in zip(more, lowest_first, strict=False)]
        return actions

    # -- taking back -----------------------------------------------------------------------------------------

    def _take_back(self, borrowers: Sequence[_Borrower], count: int, unit: int) -> list[Action]:
        """Preempt and scale in the jobs on servers that go back, then give these back."""
        place = {
            node: (borrower.pool, guest) for borrower in borrowers for guest, node in borrower.guests.items()
        }
        servers = [
            server
            for borrower in borrowers
            for server in _loaned_servers(borrower, scaling=self._jobs.scaling)
        ]
        settings = self._settings
        seed = settings.seed * 1_000_003 + self._period
        choice = choose_reclaim(servers, count, settings.reclaim, seed=seed)
        actions: list[Action] = [
            Preempt(view, keeps_progress=self._jobs.checkpoints(view)) for view in choice.preempted
        ]
        picks = [place[node] for node in sorted(choice.picks)]
        for view in dict.fromkeys(view for view, _ in choice.scaled_in):
            guests = {guest for pool, guest in place.values() if pool.name == view.pool}
            leaving = {guest for pool, guest in picks if pool.name == view.pool}
            actions.append(_scaled_in(view, leaving, guests - leaving, unit))
        self._to_ask.update(dict.fromkeys(pool for pool, _ in picks))
        return actions + [Reclaim(pool, guest) for pool, guest in picks]


def _loaned_servers(borrower: _Borrower, *, scaling: bool) -> list[LoanedServer[JobView]]:
    """Return a pool's guests under the lender's numbers, with the jobs on them.

    A policy without `scaling` gives jobs all of their GPUs or none, and nothing of them is flexible.
    """
    base: dict[int, dict[JobView, int]] = {guest: {} for guest in borrower.guests}
    flexible: dict[int, dict[JobView, int]] = {guest: {} for guest in borrower.guests}
    for view in borrower.pool.running:
        held = base_of(view) if scaling else dict(view.placement or ())
        for node, gpus in flexible_of(view) if scaling else ():
            if node in flexible:
                flexible[node][view] = gpus
        for node, gpus in held.items():
            if node in base:
                base[node][view] = gpus
    return [LoanedServer(node, base[guest], flexible[guest]) for guest, node in borrower.guests.items()]


def _scaled_in(view: JobView, leaving: Collection[int], kept: Collection[int], unit: int) -> Resize:
    """Return how a job gives up its flexible workers on servers that go back, in whole units."""
    gpus = workers_of(view).gpus_each
    workers = {node: held // gpus for node, held in flexible_of(view) if node not in leaving}
    on_loan = {node: count for node, count in workers.items() if node in kept}
    own = {node: count for node, count in workers.items() if node not in kept}
    flexible = {node: count * gpus for node, count in (own | whole_units(on_loan, unit)).items()}
    placement = base_of(view)
    for node, held in flexible.items():
        placement[node] = placement.get(node, 0) + held
    return Resize(
        view, Placement.of(sorted(placement.items())), flexible=Placement.of(sorted(flexible.items()))
    )
