"""Servers on loan in the live scheduler: the table `[loans]`, the look at each pass, the way back."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from foundation.errors import BadInputError
from foundation.human_times import moment_here
from live_scheduler.capability import LiveCapability, Route, WayBack, some_nodes
from live_scheduler.live_settings import LiveSettings
from parts.lending.live.giving_back import LoanRecord, LoansBack, give_back
from parts.lending.live.node_loans import NodeLoans
from parts.lending.live.settings import NodeLoanSettings

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from live_scheduler.safety.control_lease import ControlLease
    from parts.lending.live.lender import NodeLender
    from parts.lending.live.loan_messages import LoanStatus


class _GivingBack(WayBack):
    """Nodes on loan go back to inference, and the borrower's jobs there are requeued."""

    quick = True
    Record = LoanRecord

    def nothing(self) -> LoansBack:
        """Return what is said where no node was on loan."""
        return LoansBack()

    def look(
        self, control: NodeLoans, record: LoanRecord, go_on: Callable[[], bool] = lambda: True
    ) -> LoansBack:
        """Give back what is on loan."""
        return give_back(control, record, go_on=go_on)

    def check(
        self, record: LoanRecord, before: NodeLoanSettings | None, now: NodeLoanSettings | None
    ) -> None:
        """Refuse other partitions than those between which nodes are on loan."""
        if before is None or (now and (now.lender, now.borrower) == (before.lender, before.borrower)):
            return
        raise BadInputError(
            f"{some_nodes(list(record))} on loan from {before.lender} to {before.borrower},"
            " and the settings say otherwise now.",
            remedy="Give them back first: `lucid live restore` without --settings, or wait for the switch.",
        )


class LoansLive(LiveCapability):
    """Which of inference's idle servers are lent to training (Lyra)."""

    name = "loans"
    title = "nodes on loan"
    Settings = NodeLoanSettings
    needs = "lend nodes"
    adapters: ClassVar[Mapping[str, str]] = {"slurm": "parts.lending.live.partition_loans:open_loans"}
    way_back = _GivingBack()

    def stage(
        self, control: NodeLoans, settings: LiveSettings, folder: Path, lease: "ControlLease"
    ) -> "NodeLender":
        """Return what lends nodes and takes them back."""
        from parts.lending.live.lender import NodeLender
        from parts.lending.live.usage import InferenceUsage, usage_reader

        table: NodeLoanSettings = settings.tables[self.name]
        return NodeLender(control, table, InferenceUsage(table, folder, usage_reader(table)), lease)

    def status_type(self) -> "type[LoanStatus]":
        """Return the kind of its status."""
        from parts.lending.live.loan_messages import LoanStatus

        return LoanStatus

    def in_words(self, status: "LoanStatus") -> str:
        """Return what is on loan as one line."""
        returning = [each.node for each in status.on_loan if each.returning]
        lent = len(status.on_loan) - len(returning)
        would = "" if status.mode == "control" else "would "
        changes = [
            f"{would}{verb} {len(nodes)}"
            for verb, nodes in (("lend", status.lend), ("take back", status.take_back))
            if nodes
        ]
        parts = [
            f"{lent} of {status.servers} on loan, {status.needed} needed by inference",
            f"{len(returning)} going back" if returning else "",
            f"{status.short} cannot go back: their jobs must stay" if status.short else "",
            f"{moment_here(status.decided_s)}: {' and '.join(changes)}" if changes else "",
            *(f"{what} refused: {why}" for what, why in list(status.refused.items())[:3]),
            status.problem or "",
        ]
        return f"{status.mode}: {'; '.join(filter(None, parts))}"

    def metrics(self, status: "LoanStatus") -> "Iterator[Metric]":
        """Yield nodes on loan, what inference needs, and what was changed."""
        from parts.lending.live.loan_messages import loan_metrics

        return loan_metrics(status)

    def routes(self) -> Sequence[Route]:
        """Return the question which servers of a pushed state to lend."""
        from parts.lending.live.loan_answers import plan_loans_once
        from parts.lending.live.loan_messages import LoanAnswer, LoanQuery

        text = "Which inference servers to lend to training jobs and which to take back; remembers nothing."
        return (Route("loans", "/v1/loans", LoanQuery, LoanAnswer, plan_loans_once, text),)


LIVE = LoansLive()
