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
from pathlib import Path
from typing import Any

from live_scheduler.last_lines import LastLines

LOANS_FILE = "loans.jsonl"
_MOST_STALE_LINES = 20_000


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


class LoanRecord:
    """The record of one state folder. One process writes at a time, any may read."""

    def __init__(self, folder: Path) -> None:
        """Read what is there (nothing without the file). Raises OSError."""
        self._nodes = LastLines(
            folder / LOANS_FILE, _fields, _read_fields, most_stale=_MOST_STALE_LINES, durable=True
        )

    def __len__(self) -> int:
        return len(self._nodes)

    @property
    def notes(self) -> Mapping[str, LoanNote]:
        """The nodes that are not the lender's again, in the order of their first step."""
        return self._nodes.values

    def reload(self) -> None:
        """Read the record anew. Raises OSError when it is there and cannot be read."""
        self._nodes.reload()

    def note(self, nodes: Iterable[str], step: LoanStep, at_s: float, why: str) -> None:
        """Write a step down before it is taken. Raises OSError."""
        self._nodes.note({node: LoanNote(step, at_s, why) for node in nodes})

    def cross_off(self, nodes: Iterable[str]) -> None:
        """Write down that these nodes are the lender's again. Raises OSError."""
        self._nodes.note(dict.fromkeys(nodes))


def _fields(node: str, note: LoanNote | None) -> Mapping[str, object]:
    if note is None:
        return {"node": node, "how": ""}
    return {"node": node, "how": note.step, "at_s": note.at_s, "why": note.why}


def _read_fields(fields: Mapping[str, Any]) -> tuple[str, LoanNote | None]:
    node = str(fields["node"])
    if not fields["how"]:
        return node, None
    at_s = float(fields["at_s"])
    if not math.isfinite(at_s):
        raise ValueError("no time")
    return node, LoanNote(LoanStep(fields["how"]), at_s, str(fields["why"]))
