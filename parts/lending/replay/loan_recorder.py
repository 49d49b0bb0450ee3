"""What becomes of servers on loan in a simulation: how busy both kinds are, and what taking them back costs.

Usage is that of the time in which jobs are submitted, as with sleeping nodes: what follows the last
submission is no cluster's life. A GPU counts as used until the decision after its job has ended: before that
no other can have it. Reclaims and scaling operations are counted to the end.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import numpy as np

from parts.lending.replay.inference_servers import InferenceServers
from simulator.cluster.placement import NOWHERE, Placement
from simulator.job_view import JobView
from simulator.recorder import StopReason
from simulator.scenario.agenda import Event, EventKind
from simulator.scenario.companion import Attached, CompanionEvent
from simulator.snapshot import NodePool

_PREEMPTED = ("preempted", "evicted")


@dataclass
class LoanTotals:
    """What a recorder has counted so far; a simulation that goes on from another takes it.

    `loans` are the servers on loan over time: (s, servers), each until the next.
    """

    own_gpu_s: float = 0.0  # used, of the training pools' own servers
    loaned_gpu_s: float = 0.0  # used, of servers on loan
    loans: list[tuple[float, int]] = field(default_factory=list)
    reclaims: int = 0  # moments at which servers went back
    servers_reclaimed: int = 0
    preempting_reclaims: int = 0  # of the reclaims, those that preempted a job
    collateral_gpus: int = 0
    scaling_operations: int = 0
    jobs_on_loan: set[int] = field(default_factory=set)  # indices of jobs that ever ran on loaned servers

    def copy(self) -> "LoanTotals":
        """Return a copy that shares nothing that changes."""
        return replace(self, loans=self.loans.copy(), jobs_on_loan=self.jobs_on_loan.copy())


class LoanRecorder(Attached):
    """Watches a simulation with an inference service."""

    def __init__(
        self,
        service: InferenceServers,
        pools: Mapping[str, NodePool],
        *,
        begun_s: float,
        judged_until_s: float,
        totals: LoanTotals | None = None,
    ) -> None:
        """What comes before `begun_s` is not counted. `judged_until_s` is the last submission; one that is
        not later than `begun_s` bounds nothing.

        `totals` are those of the simulation that this one goes on from.
        """
        self._service = service
        self._standstill = Standstill(service)
        self._pools = [pool for name, pool in pools.items() if name != service.name]
        self._size = pools[service.name].free.gpus_per_node
        self._until_s = judged_until_s if judged_until_s > begun_s else inf
        self._now_s = self._begun_s = begun_s
        self._totals = LoanTotals() if totals is None else totals.copy()
        self._guests = {pool: pool.lent_by(service.name) for pool in self._pools}
        self._own_gpus = self._loaned_gpus = 0  # in use now
        for pool in self._pools:
            for job in pool.running:
                if job.job.gpus and job.counts_for_pair:
                    self._use(pool, job.placement or NOWHERE, 1)
        self._seen = (self._own_gpus, self._loaned_gpus)
        if not self._totals.loans:
            self._totals.loans.append((begun_s, sum(map(len, self._guests.values()))))
        self._preempted: list[tuple[NodePool, Placement]] = []  # base workers, in the present decision

    def memory(self) -> LoanTotals:
        """Return what another recorder goes on with."""
        self._pass_time(self._now_s)
        return self._totals.copy()

    # -- what the simulation tells ---------------------------------------------------------------------------

    def started(self, now_s: float, job: JobView, pool: NodePool) -> None:
        """GPUs are in use, unless a partner uses them already."""
        if not job.job.gpus:
            return
        if self._use(pool, job.placement or NOWHERE, 0 if job.partner is not None else 1):
            self._totals.jobs_on_loan.add(job.index)
        if job.flexible and now_s >= self._begun_s:
            self._totals.scaling_operations += 1

    def resized(self, now_s: float, job: JobView, pool: NodePool, before: Placement) -> None:
        """More or fewer GPUs are in use, or others."""
        self._use(pool, before, -1)
        if self._use(pool, job.placement or NOWHERE, 1):
            self._totals.jobs_on_loan.add(job.index)
        if sum(gpus for _, gpus in before) != job.held_gpus and now_s >= self._begun_s:
            self._totals.scaling_operations += 1

    def stopped(self, now_s: float, job: JobView, pool: NodePool, reason: StopReason) -> None:
        """GPUs come free, unless a partner goes on."""
        placement = job.placement
        if placement is None or not job.job.gpus:
            return
        if job.partner is None:
            self._use(pool, placement, -1)
        if reason in _PREEMPTED:
            flexible = dict(job.flexible)
            base = Placement.of((node, gpus - flexible.get(node, 0)) for node, gpus in placement)
            self._preempted.append((pool, base))

    def decided(self, now_s: float, pools: Collection[NodePool]) -> None:
        """Servers were lent and taken back, and jobs preempted for it."""
        self._pass_time(now_s)
        self._seen = (self._own_gpus, self._loaned_gpus)
        taken_back: dict[NodePool, frozenset[int]] = {}
        for pool in self._pools:
            before = self._guests[pool]
            if pool.guests or before:
                after = pool.lent_by(self._service.name)
                if after != before:
                    self._guests[pool] = after
                    taken_back[pool] = before - after
        preempted, self._preempted = self._preempted, []
        if not taken_back:
            return
        totals = self._totals
        on_loan = sum(map(len, self._guests.values()))
        if now_s < self._begun_s:
            totals.loans[-1] = (self._begun_s, on_loan)
            return
        if on_loan != totals.loans[-1][1]:
            totals.loans.append((now_s, on_loan))
        servers = sum(map(len, taken_back.values()))
        if not servers:
            return
        totals.reclaims += 1
        totals.servers_reclaimed += servers
        totals.preempting_reclaims += bool(preempted)
        for pool, base in preempted:
            gone = taken_back.get(pool, frozenset())
            totals.collateral_gpus += sum(gpus for node, gpus in base if node not in gone)

    # -- reckoning -------------------------------------------------------------------------------------------

    def _pass_time(self, now_s: float) -> None:
        passed_s = min(now_s, self._until_s) - self._now_s
        if passed_s > 0:
            own_gpus, loaned_gpus = self._seen
            self._totals.own_gpu_s += passed_s * own_gpus
            self._totals.loaned_gpu_s += passed_s * loaned_gpus
            self._now_s += passed_s

    def _use(self, pool: NodePool, placement: Placement, times: int) -> int:
        """Count the GPUs of a placement so many times; return those on loaned servers."""
        held = placement.gpus
        loaned = 0
        if pool.guests:
            lender = self._service.name
            loaned = sum([gpus for node, gpus in placement if pool.is_lent_by(lender, node)])
        self._own_gpus += times * (held - loaned)
        self._loaned_gpus += times * loaned
        return loaned

    def summary(self, end_s: float, mean_gpus: float, jobs: Sequence[JobView]) -> dict[str, Any]:
        """Return the figures of a simulation that ended at `end_s`, on a cluster of so many GPUs."""
        self._pass_time(end_s)
        totals = self._totals
        begun_s, until_s = totals.loans[0][0], self._now_s
        inference = self._inference(begun_s, until_s)
        own_gpu_s = mean_gpus * (until_s - begun_s)
        lent_gpu_s = inference.lent_server_s * self._size
        all_gpu_s = own_gpu_s + self._service.servers * self._size * (until_s - begun_s)
        used_gpu_s = totals.own_gpu_s + totals.loaned_gpu_s + inference.used_server_s * self._size
        preemptions = sum(job.preemptions for job in jobs)
        return {
            "training_usage_pct": _pct(totals.own_gpu_s, own_gpu_s),
            "on_loan_usage_pct": _pct(totals.loaned_gpu_s, lent_gpu_s),
            "all_usage_pct": _pct(used_gpu_s, all_gpu_s),
            "servers_on_loan_mean": inference.lent_server_s / max(until_s - begun_s, 1e-9),
            "inference_short_pct": _pct(inference.bins_short, inference.bins),
            "preempted_pct": _pct(preemptions, len(jobs)),
            "reclaims": totals.reclaims,
            "preempting_reclaims": totals.preempting_reclaims,
            "servers_reclaimed": totals.servers_reclaimed,
            "collateral_damage_pct": _pct(totals.collateral_gpus, totals.servers_reclaimed * self._size),
            "scaling_operations": totals.scaling_operations,
            "jobs_on_loan": sum(job.index in totals.jobs_on_loan for job in jobs),
        }

    def kept(self) -> tuple[tuple[float, int], ...]:
        """Return the servers on loan: (from when on, servers), each until the next."""
        return tuple(self.memory().loans)

    def nothing_starts(self, now_s: float, pools: Mapping[str, NodePool], events: Iterable[Event]) -> bool:
        """Whether jobs wait for ever, while the load and the decisions go on."""
        return self._standstill.lasts(now_s, pools, events)

    def mean_gpus(self, own_gpus: Callable[[float], float]) -> Callable[[float], float]:
        """Return how many GPUs there have been on average until a moment (s), with those on loan."""
        begun_s = self._totals.loans[0][0]

        def gpus(until_s: float) -> float:
            if until_s <= begun_s:
                return own_gpus(until_s)
            lent_server_s = self._inference(begun_s, until_s).lent_server_s
            return own_gpus(until_s) + lent_server_s * self._size / (until_s - begun_s)

        return gpus

    def _inference(self, begun_s: float, until_s: float) -> "_InferenceTime":
        """Add up what inference used, lent and lacked in a time."""
        need_from_s, needed = np.array([*self._service.servers_in_use(begun_s, until_s)]).T
        loan_from_s, on_loan = np.array(self._totals.loans, dtype=np.float64).T
        from_s = np.unique(np.concatenate([need_from_s, loan_from_s[loan_from_s < until_s]]))
        lasting_s = np.diff(from_s, append=until_s)
        bins = np.searchsorted(need_from_s, from_s, side="right") - 1
        lent = on_loan[np.searchsorted(loan_from_s, from_s, side="right") - 1]
        there = self._service.servers - lent
        return _InferenceTime(
            bins=len(need_from_s),
            bins_short=len(np.unique(bins[(needed[bins] > there) & (lasting_s > 0)])),
            used_server_s=float(np.minimum(needed[bins], there) @ lasting_s),
            lent_server_s=float(lent @ lasting_s),
        )


@dataclass(frozen=True)
class _InferenceTime:
    """Server-seconds that inference used and had lent, and its steps of load, those short of servers too."""

    bins: int
    bins_short: int
    used_server_s: float
    lent_server_s: float


def _pct(part: float, whole: float) -> float | None:
    """Return a share in percent; None of nothing."""
    return 100.0 * part / whole if whole > 0 else None


DAY_S = 86_400.0


class Standstill:
    """Tells that no job will start any more, once all have been submitted.

    Nothing runs, nothing but decisions is to come, and so it was for as long as two lengths of a load that
    repeats and a day, in which every number of servers that can be on loan was on loan: what the policy did
    not start then it never will.
    """

    def __init__(self, service: InferenceServers) -> None:
        self._last_change_s = -inf if service.repeats else service.times_s[-1]
        self._limit_s = DAY_S + (2 * service.length_s if service.repeats else 0.0)
        self._since_s: float | None = None

    def lasts(self, now_s: float, pools: Mapping[str, NodePool], events: Iterable[Event]) -> bool:
        """Return whether it has come to that; asked at each moment after the last submission."""
        if any(pool.running for pool in pools.values()) or any(
            kind != EventKind.WAKE and not (isinstance(subject, CompanionEvent) and subject.only_looks)
            for _, kind, _, subject, _ in events
        ):
            self._since_s = None
            return False
        if self._since_s is None:
            self._since_s = max(now_s, self._last_change_s)
        return now_s > self._since_s + self._limit_s
