"""Which nodes are on loan by this product's hand: STATE/loans.jsonl.

    {"node": "i3", "how": "lent", "at_s": 1795382400.0, "why": "inference needs 5 of 8 servers"}
    {"node": "i3", "how": "taken back", "at_s": 1795386000.0, "why": "..."}
    {"node": "i3", "how": ""}                                        it is the lender's again

Written down for good before the cluster is asked. The way back (`giving_back.py`) reads it, also after a
`kill -9` of the daemon at any point. A node that was to be lent and was not is the lender's, and is crossed
off. A node that an admin moved is not here.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from live_scheduler.memory.records import LastLines

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
