"""Any policy, with servers of an inference service on loan to its virtual clusters.

The policy itself knows nothing of it: its pools have more nodes, and lose them again, and jobs that ran there
queue anew. Which nodes come and go is decided as in Lyra (sections 3 and 4; `PoolLoans`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from parts.lending.replay.pool_loans import JobsOnLoan, PoolLoans
from parts.lending.replay.settings import LoanSettings
from simulator.actions import Action, Loan
from simulator.cluster.spec import ClusterSpec
from simulator.job_view import JobView
from simulator.policy import Policy, RankByColumns
from simulator.running_order import RunningKey
from simulator.snapshot import NodePool, Snapshot

RESTART_S = 63.0  # what a preemption costs a job (Lyra, section 7.1)


class LoaningPolicy(Policy):
    """Decides as `inner` does, on its own nodes and on those on loan.

    Jobs that are no gangs of workers may run on loan, where a GPU does what one of their own does. Jobs on
    servers that go back are preempted: they lose their progress, unless `checkpoints`, and `RESTART_S` in
    either case, where the policy's own preemptions cost nothing. Without an inference service in the scenario
    nothing is lent.
    """

    def __init__(
        self, inner: Policy, settings: LoanSettings | None = None, *, checkpoints: bool = False
    ) -> None:
        self.inner = inner
        self.settings = settings or LoanSettings()
        self.oracle = inner.oracle
        self.needs_estimates = inner.needs_estimates
        self.reads_profiles = inner.reads_profiles
        self.in_order = inner.in_order
        self.at_events_only = inner.at_events_only
        self.round_s = inner.round_s
        costs = inner.costs
        self.costs = replace(
            costs, preemption_s=costs.preemption_s or RESTART_S, restart_s=costs.restart_s or RESTART_S
        )
        self._jobs = JobsOnLoan(others=True, others_checkpoint=checkpoints, scaling=inner.elastic)
        self._loans = PoolLoans(self.settings, (), self._jobs)

    def overrides(self, method: str) -> bool:
        """Return whether it has something to say: where to be asked again always, else as `inner`."""
        return method == "next_change_s" or self.inner.overrides(method)

    def prepare(self, cluster: ClusterSpec, largest_job: Mapping[str, int]) -> ClusterSpec:
        """Begin anew; the partitions that `inner` sets aside borrow nothing."""
        self._loans = PoolLoans(self.settings, cluster.virtual_clusters, self._jobs)
        return self.inner.prepare(cluster, largest_job)

    def decide(self, snapshot: Snapshot) -> Sequence[Action]:
        """Move nodes when it is time; else decide as `inner`, which does not see the inference service."""
        moves, pools = self._loans.decide(snapshot)
        if moves or not pools:
            return moves
        service = snapshot.lender
        if service is None:
            return self.inner.decide(snapshot)
        own = {name: pool for name, pool in snapshot.pools.items() if name != service.name}
        seen = replace(snapshot, pools=own, changed=pools, lender=None)
        return _not_lent_on(self.inner.decide(seen))

    def next_change_s(self, pool: NodePool, now_s: float) -> float | None:
        """When servers may be lent or taken back again, or as `inner` has it."""
        due_s = self._loans.next_decision_s(pool, now_s)
        return self.inner.next_change_s(pool, now_s) if due_s is None else due_s

    def history(self) -> Any:
        """Return what both remember."""
        return self._loans.memory(), self.inner.history()

    def resume(self, pools: Mapping[str, NodePool], history: Any) -> None:
        """Go on from what both remember."""
        memory = None
        if history is not None:
            loans, memory = history
            self._loans.remember(loans)
        self.inner.resume(pools, memory)

    # -- as the policy itself --------------------------------------------------------------------------------

    def pool_of(self, job: JobView) -> str:
        """Name the pool that a job queues for."""
        return self.inner.pool_of(job)

    def priority(self, job: JobView) -> Any:
        """Rank a waiting job."""
        return self.inner.priority(job)

    def rank_by_columns(self, pool: str) -> RankByColumns | None:
        """Return what ranks all jobs of a pool at once."""
        return self.inner.rank_by_columns(pool)

    def service_order(self, pool: NodePool) -> Mapping[JobView, Any] | None:
        """Rank the waiting jobs by when they are served."""
        return self.inner.service_order(pool)

    def running_key(self, job: JobView, now_s: float) -> RunningKey:
        """Rank a running job."""
        return self.inner.running_key(job, now_s)

    def observe_end(self, job: JobView, now_s: float) -> None:
        """Learn from a job that has completed."""
        self.inner.observe_end(job, now_s)


def _not_lent_on(actions: Sequence[Action]) -> list[Action]:
    """Have a pool lend nodes of its own where a policy would lend on its guests, which may have to go back.

    Of its idle nodes those with the highest numbers go; a loan for which there is none is left out.
    """
    lent = {(action.lender, action.node) for action in actions if isinstance(action, Loan)}
    kept: list[Action] = []
    for action in actions:
        if isinstance(action, Loan) and action.node in action.lender.guests:
            lender = action.lender
            own = [
                node
                for node in lender.free.idle_nodes()
                if node not in lender.guests and (lender, node) not in lent
            ]
            if not own:
                continue
            lent.add((lender, own[-1]))
            kept.append(Loan(lender, action.borrower, own[-1]))
        else:
            kept.append(action)
    return kept
