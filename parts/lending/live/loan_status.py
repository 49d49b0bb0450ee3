"""What is known of nodes on loan after a look at them, and told of them: one message."""

from typing import Literal

from pydantic import Field

from live_scheduler.capability import some_nodes
from live_scheduler.service.messages import Count, Message, Time


class LoanedNode(Message):
    """A node on loan since `since_s` and why; `jobs` run there. `returning`: it goes back."""

    node: str
    since_s: Time
    why: str
    jobs: tuple[str, ...] = ()
    returning: bool = False


class LoanStatus(Message):
    """Nodes on loan from the partition `lender` to `borrower`, as they were at `at_s`.

    Of `servers` that are up inference needs `needed`, by its `usage` and its `forecast`; `headroom` more are
    never lent, and `target` should be on loan. `lend`, `take_back` and `preempts` are the last changes,
    decided at `decided_s` (mode "advise": that it would have made; "observe": none are told), `reasons` why.
    `short` more should go back and cannot. `lent`, `taken_back` and `preempted` add up since the daemon
    started. `refused` says what the cluster refused at the last look, by job or partition.
    """

    mode: Literal["observe", "advise", "control"]
    lender: str
    borrower: str
    rule: str
    at_s: Time
    servers: Count = 0
    usage: float | None = None
    forecast: float | None = None
    needed: Count = 0
    headroom: Count = 0
    target: Count = 0
    short: Count = 0
    on_loan: tuple[LoanedNode, ...] = ()
    lend: tuple[str, ...] = ()
    take_back: tuple[str, ...] = ()
    preempts: tuple[str, ...] = ()
    decided_s: Time | None = None
    reasons: tuple[str, ...] = ()
    refused: dict[str, str] = Field(default_factory=dict)
    deferred: Count = 0
    lent: Count = 0
    taken_back: Count = 0
    preempted: Count = 0
    problem: str | None = None

    def describe_wanted(self) -> str:
        """Return the last changes as a sentence for people, "" without any."""
        would = "" if self.mode == "control" else "would "
        parts = [f"{would}lend {some_nodes(self.lend, most=50)}"] if self.lend else []
        if self.take_back:
            jobs = f", which preempts {len(self.preempts)} jobs" if self.preempts else ""
            parts.append(f"{would}take back {some_nodes(self.take_back, most=50)}{jobs}")
        return "; ".join(parts)

    def told(self) -> "LoanStatus":
        """Return what people are told: in the mode observe no changes."""
        if self.mode != "observe":
            return self
        return self.with_changes(lend=(), take_back=(), preempts=(), decided_s=None)
