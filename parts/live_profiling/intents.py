"""What the profiling stage is about to do, written down before it is done: STATE/intents.jsonl.

    {"job_id": "17", "home": "vc2", "step": "enter", "at_s": 1700000000.0, "limit_s": 200.0, "restarts": 0}
    {"job_id": "17", "settled": true}

Slurm's own word on a job always stands above this file: an intent that was not acted on is dropped when the
job is seen where it was. What the file adds is what Slurm may not know any more: where a job belongs when its
mark was overwritten, for how long it was to run, and that a begin time is Slurm's and not its user's.
Append-only, and on the disk before `note` returns; a line that was cut off is left out.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from live_scheduler.memory.records import LastLines

INTENTS_FILE = "intents.jsonl"


class Step(StrEnum):
    """What is to become of a job."""

    ENTER = "enter"  # it is to run on the profiling partition for a moment
    LEAVE = "leave"  # it is to go home


@dataclass(frozen=True, slots=True)
class Intent:
    """A job that was to be moved at `at_s` (Unix seconds).

    `home` is the partition where it belongs, `limit_s` how long it may run on the profiling partition,
    `restarts` how often it had been requeued before.
    """

    job_id: str
    home: str
    step: Step
    at_s: float
    limit_s: float
    restarts: int


class Intents(LastLines[Intent]):
    """The open intents by job."""

    file_name = INTENTS_FILE
    durable = True
    most_stale_lines = 2_000

    def note(self, intents: Iterable[Intent]) -> None:
        """Write intents down for good, in place of older ones of the same jobs. Raises OSError."""
        self.write({intent.job_id: intent for intent in intents})

    def to_fields(self, key: str, value: Intent | None) -> Mapping[str, object]:
        """Return a line as the module shows them."""
        return {"job_id": key, "settled": True} if value is None else asdict(value)

    def from_fields(self, fields: Mapping[str, Any]) -> tuple[str, Intent | None]:
        """Read such a line."""
        job_id = str(fields["job_id"])
        if fields.get("settled"):
            return job_id, None
        intent = Intent(
            job_id,
            str(fields["home"]),
            Step(fields["step"]),
            float(fields["at_s"]),
            float(fields["limit_s"]),
            int(fields["restarts"]),
        )
        if not (intent.home and math.isfinite(intent.at_s) and 0 <= intent.limit_s < math.inf):
            raise ValueError("no intent that can be acted on")
        return job_id, intent
