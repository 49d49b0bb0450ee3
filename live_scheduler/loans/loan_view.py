"""What is known of nodes on loan after a look at them, as one value."""

from dataclasses import dataclass

from live_scheduler.loans.node_loans import LoanRefusal
from live_scheduler.mode import Mode
from live_scheduler.node_sleep.node_power import some_nodes


@dataclass(frozen=True, slots=True)
class NodeOnLoan:
    """A node on loan since `since_s` (Unix time), why, and its jobs; `returning`: it is on its way back."""

    node: str
    since_s: float
    why: str
    jobs: tuple[str, ...] = ()
    returning: bool = False


@dataclass(frozen=True)
class NodeLoanView:
    """One look; `at_s` is Unix time.

    Of `servers` that are neither down nor drained inference needs `needed`, by its `usage` and the `forecast`
    (None: unknown), `headroom` more are never lent, and `target` should be on loan. `lend`, `take_back` and
    `preempt` are the last changes that were wanted, `decided_s` when (0: never), `reasons` why, in sentences;
    those of the mode control were made but for `refused` and `deferred`. `lent`, `taken_back` and `preempted`
    add up over the daemon's life. `rule` names what decides how many. `problem` says why nothing is changed.
    """

    at_s: float
    mode: Mode
    lender: str
    borrower: str
    rule: str = ""
    servers: int = 0
    usage: float | None = None
    forecast: float | None = None
    needed: int = 0
    headroom: int = 0
    target: int = 0
    short: int = 0
    on_loan: tuple[NodeOnLoan, ...] = ()
    lend: tuple[str, ...] = ()
    take_back: tuple[str, ...] = ()
    preempt: tuple[str, ...] = ()
    decided_s: float = 0.0
    reasons: tuple[str, ...] = ()
    refused: tuple[LoanRefusal, ...] = ()
    deferred: int = 0
    lent: int = 0
    taken_back: int = 0
    preempted: int = 0
    problem: str | None = None

    def describe_wanted(self) -> str:
        """Return the last changes as a sentence for people, "" without any."""
        would = "" if self.mode is Mode.CONTROL else "would "
        parts = [f"{would}lend {some_nodes(self.lend, most=50)}"] if self.lend else []
        if self.take_back:
            jobs = f", which preempts {len(self.preempt)} jobs" if self.preempt else ""
            parts.append(f"{would}take back {some_nodes(self.take_back, most=50)}{jobs}")
        return "; ".join(parts)
