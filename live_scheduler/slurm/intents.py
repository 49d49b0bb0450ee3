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
from pathlib import Path
from typing import Any

from live_scheduler.last_lines import LastLines

INTENTS_FILE = "intents.jsonl"
# The file is written anew when it has this many lines more than open intents.
MOST_STALE_LINES = 2_000


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


class Intents:
    """The open intents of one state folder. One process writes at a time, any may read."""

    def __init__(self, folder: Path) -> None:
        """Read what is there. Raises OSError for a file that cannot be read."""
        self.path = folder / INTENTS_FILE
        self._open = LastLines(self.path, _fields, _read_fields, most_stale=MOST_STALE_LINES, durable=True)

    @property
    def open(self) -> Mapping[str, Intent]:
        """The open intents by job."""
        return self._open.values

    def reload(self) -> None:
        """Read the file anew. Raises OSError when it is there and cannot be read."""
        self._open.reload()

    def note(self, intents: Iterable[Intent]) -> None:
        """Write intents down for good, in place of older ones of the same jobs. Raises OSError."""
        self._open.note({intent.job_id: intent for intent in intents})

    def settle(self, job_ids: Iterable[str]) -> None:
        """Close the intents of these jobs, and the file up when it has grown. Raises OSError."""
        self._open.note(dict.fromkeys(job_ids))


def _fields(job_id: str, intent: Intent | None) -> Mapping[str, object]:
    return {"job_id": job_id, "settled": True} if intent is None else asdict(intent)


def _read_fields(fields: Mapping[str, Any]) -> tuple[str, Intent | None]:
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
