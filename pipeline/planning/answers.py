"""An operator's questions with their answers, each with the replays that stand behind it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class PlanAnswer:
    """One question, its answer in a sentence, and the numbers of it.

    `kind` is "nodes" (how many keep the limit) or what a part calls its own; `pool` is "cluster", a virtual
    cluster or a part's.
    `command` repeats the replay that the answer stands on, `fewer` is the replay on the other side of the
    bound.
    """

    kind: str
    pool: str
    variant: str
    question: str
    answer: str
    figures: Mapping[str, Any] = field(default_factory=dict)
    command: str | None = None
    fewer: Mapping[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as JSON has it."""
        return {
            "kind": self.kind,
            "pool": self.pool,
            "variant": self.variant,
            "question": self.question,
            "answer": self.answer,
            **self.figures,
            "command": self.command,
            "fewer": None if self.fewer is None else dict(self.fewer),
        }
