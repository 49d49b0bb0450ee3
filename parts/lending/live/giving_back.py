"""The way back of nodes on loan, from wherever they stand: what reclaims, restores and recovers is one thing.

A node leaves the borrower's partition, so that no more of its jobs start there; the borrower's jobs on it are
requeued; it joins the lender's partition; and once none of those jobs is left it is crossed off the record.
Each look does what is to be done by then, so it may be broken off at any point and begun anew by another
process. Jobs that may not be requeued, and those that are not the borrower's, are never touched: they run to
their end, in the lender's partition by then.

Which nodes are on loan by this product's hand is on disk before the cluster is asked, and is read also after
a `kill -9` of the daemon at any point. A node that was to be lent and was not is the lender's, and is crossed
off. A node that an admin moved is not there.

    STATE/loans.jsonl    {"node": "i3", "how": "lent", "at_s": 1795382400.0, "why": "inference needs 5 of 8"}
                         {"node": "i3", "how": "taken back", "at_s": 1795386000.0, "why": "..."}
                         {"node": "i3", "how": ""}                             it is the lender's again
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from live_scheduler.capability import some_nodes
from live_scheduler.memory.records import LastLines
from parts.lending.live.node_loans import LoanNode, LoanReading, LoanRefusal, NodeLoans, Side

LOANS_FILE = "loans.jsonl"


class LoanStep(StrEnum):
    """What was begun with a node last."""

    LENT = "lent"
    TAKEN_BACK = "taken back"


@dataclass(frozen=True, slots=True)
class LoanNote:
    """A node's last step, when it was begun (Unix seconds), and why, for people."""

    step: LoanStep
    at_s: float
    why: str


class LoanRecord(LastLines[LoanNote]):
    """The nodes that are not the lender's again, in the order of their first step."""

    file_name = LOANS_FILE
    durable = True

    def note(self, nodes: Iterable[str], step: LoanStep, at_s: float, why: str) -> None:
        """Write a step down before it is taken. Raises OSError."""
        self.write({node: LoanNote(step, at_s, why) for node in nodes})

    def to_fields(self, key: str, value: LoanNote | None) -> Mapping[str, object]:
        """Return a line as the module shows them."""
        if value is None:
            return {"node": key, "how": ""}
        return {"node": key, "how": value.step, "at_s": value.at_s, "why": value.why}

    def from_fields(self, fields: Mapping[str, Any]) -> tuple[str, LoanNote | None]:
        """Read such a line."""
        node = str(fields["node"])
        if not fields["how"]:
            return node, None
        at_s = float(fields["at_s"])
        if not math.isfinite(at_s):
            raise ValueError("no time")
        return node, LoanNote(LoanStep(fields["how"]), at_s, str(fields["why"]))


@dataclass(frozen=True)
class LoansBack:
    """What became of nodes that were on loan.

    `back` are the lender's, and free of the borrower's jobs that may be requeued; `coming` are not yet.
    `requeued` are the jobs that were told to queue again, `staying` those that may not be and run on.
    """

    back: tuple[str, ...] = ()
    coming: tuple[str, ...] = ()
    requeued: tuple[str, ...] = ()
    staying: tuple[str, ...] = ()
    refused: tuple[LoanRefusal, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether no node is left that is on loan."""
        return not self.coming

    @property
    def changed(self) -> bool:
        """Whether any node was on loan."""
        return bool(self.back or self.coming)

    def followed_by(self, later: "LoansBack") -> "LoansBack":
        """Return both as one."""
        return LoansBack(
            tuple(dict.fromkeys(self.back + later.back)),
            later.coming,
            tuple(dict.fromkeys(self.requeued + later.requeued)),
            tuple(dict.fromkeys(self.staying + later.staying)),
            later.refused,
        )

    def describe(self) -> str:
        """Return one line for people."""
        parts = [
            f"{some_nodes(self.back)} back with inference" if self.back else "",
            f"{len(self.requeued)} jobs requeued" if self.requeued else "",
            f"{len(self.staying)} jobs that may not be requeued run on there" if self.staying else "",
            f"{some_nodes(self.coming)} to come" if self.coming else "",
        ]
        return "; ".join(filter(None, parts)) or "no node was on loan"

    def news(self, before: "LoansBack") -> Iterator[str]:
        """Yield lines for people about what was not so at the looks before."""
        if self.back or self.requeued or self.refused != before.refused:
            yield self.describe()
            yield from (f"refused: {line}" for line in self.refusals())

    def refusals(self) -> Iterator[str]:
        """Yield a line for people for each refusal that stands."""
        yield from (f"{refusal.what}: {refusal.why}" for refusal in self.refused)

    def document(self) -> dict[str, list[str]]:
        """Return it as fields of the restore command's JSON."""
        return {
            "loans_back": list(self.back),
            "loans_to_come": list(self.coming),
            "loans_requeued": list(self.requeued),
        }


def give_back(
    loans: NodeLoans,
    record: LoanRecord,
    nodes: Collection[str] | None = None,
    *,
    go_on: Callable[[], bool] = lambda: True,
) -> LoansBack:
    """Give nodes back (None: all on record), as far as one look goes; call it again while some are coming.

    `go_on` is asked first: a daemon that came back stops it. Raises ServiceUnavailableError when the cluster
    does not answer (any part may have been done), OSError when the record cannot be read.
    """
    record.reload()
    names = [name for name in record if nodes is None or name in nodes]
    if not names or not go_on():
        return LoansBack(coming=tuple(names))
    reading, refused = _withdrawn(loans, loans.read(names), names)
    seen = reading.of(names)
    held = [node.name for node in seen if Side.BORROWER in node.sides]  # it would get the next job at once
    jobs = sorted({job for node in seen if node.name not in held for job in node.gpus_of})
    refused += loans.requeue(jobs) if jobs else []
    homeless = [node.name for node in seen if Side.LENDER not in node.sides and node.name not in held]
    if homeless:
        refused += loans.join(Side.LENDER, homeless)
    there = set(homeless) if not any(r.what == Side.LENDER for r in refused) else set()
    back = [name for name in names if _is_back(reading.by_name.get(name), there)]
    with suppress(OSError):  # they are looked at again
        record.cross_off(back)
    not_requeued = {refusal.what for refusal in refused}
    return LoansBack(
        tuple(back),
        tuple(name for name in names if name not in back),
        tuple(job for job in jobs if job not in not_requeued),
        tuple(sorted({job for node in seen for job in node.fixed})),
        tuple(refused),
    )


def _withdrawn(
    loans: NodeLoans, reading: LoanReading, names: Collection[str]
) -> tuple[LoanReading, list[LoanRefusal]]:
    """Take nodes out of the borrower's partition; return how all are then."""
    borrowed = [node.name for node in reading.of(names) if Side.BORROWER in node.sides]
    if not borrowed:
        return reading, []
    refused = loans.leave(Side.BORROWER, borrowed)
    return loans.read(names), refused


def _is_back(node: LoanNode | None, joined: Collection[str]) -> bool:
    """Whether nothing is left to be done: a node that is gone from the cluster counts as back."""
    if node is None:
        return True
    home = Side.LENDER in node.sides or node.name in joined
    return home and Side.BORROWER not in node.sides and not node.gpus_of
