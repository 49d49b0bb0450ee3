"""How many nodes are on loan over time."""

from collections.abc import Collection

from simulator.recorder import Recorder
from simulator.recorders.step_log import StepLog
from simulator.snapshot import NodePool


class LoanSteps(Recorder):
    """Watches a simulation: one row a moment at which loans changed."""

    def __init__(self, lender: str) -> None:
        """`lender`: the pool whose nodes count."""
        self._lender = lender
        self._guests: dict[str, int] = {}
        self._log = StepLog(1)

    def decided(self, now_s: float, pools: Collection[NodePool]) -> None:
        """Nodes were lent and taken back."""
        before = sum(self._guests.values())
        for pool in pools:
            self._guests[pool.name] = len(pool.lent_by(self._lender))
        on_loan = sum(self._guests.values())
        if on_loan != before:
            self._log.note(now_s, (on_loan,))

    def steps(self) -> list[tuple[float, int]]:
        """Return (s, nodes on loan), each until the next; none before the first."""
        at_s, nodes = self._log.steps()
        return [(at, int(count)) for at, count in zip(at_s.tolist(), nodes.tolist(), strict=True)]
