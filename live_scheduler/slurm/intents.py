"""What the profiling stage is about to do, written down before it is done: STATE/intents.jsonl.

    {"job_id": "17", "home": "vc2", "step": "enter", "at_s": 1700000000.0, "limit_s": 200.0, "restarts": 0}
    {"job_id": "17", "settled": true}

Slurm's own word on a job always stands above this file: an intent that was not acted on is dropped when the
job is seen where it was. What the file adds is what Slurm may not know any more: where a job belongs when its
mark was overwritten, for how long it was to run, and that a begin time is Slurm's and not its user's.
Append-only, and on the disk before `note` returns; a line that was cut off is left out.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from foundation.replaced_files import replace_file
from live_scheduler.append_only import append_lines

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

    def to_line(self) -> str:
        """Return one line of JSON."""
        return json.dumps(asdict(self), allow_nan=False)


class Intents:
    """The open intents of one state folder. One process writes at a time, any may read."""

    def __init__(self, folder: Path) -> None:
        """Read what is there. Raises OSError for a file that cannot be read."""
        self.path = folder / INTENTS_FILE
        self._open: dict[str, Intent] = {}
        self._lines = 0
        self.reload()

    @property
    def open(self) -> Mapping[str, Intent]:
        """The open intents by job."""
        return self._open

    def reload(self) -> None:
        """Read the file anew. Raises OSError when it is there and cannot be read."""
        self._open, self._lines = {}, 0
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return
        for line in content.decode(errors="replace").splitlines():
            self._lines += 1
            self._take(line)

    def note(self, intents: Iterable[Intent]) -> None:
        """Write intents down for good, in place of older ones of the same jobs. Raises OSError."""
        fresh = [intent for intent in intents if self._open.get(intent.job_id) != intent]
        self._append([intent.to_line() for intent in fresh])
        self._open |= {intent.job_id: intent for intent in fresh}

    def settle(self, job_ids: Iterable[str]) -> None:
        """Close the intents of these jobs, and the file up when it has grown. Raises OSError."""
        known = [job_id for job_id in dict.fromkeys(job_ids) if job_id in self._open]
        self._append([json.dumps({"job_id": job_id, "settled": True}) for job_id in known])
        for job_id in known:
            del self._open[job_id]
        if self._lines - len(self._open) > MOST_STALE_LINES:
            self._rewrite()

    def _append(self, lines: list[str]) -> None:
        if not lines:
            return
        append_lines(self.path, lines)
        self._lines += len(lines)

    def _rewrite(self) -> None:
        replace_file(self.path, (f"{intent.to_line()}\n" for intent in self._open.values()), durable=True)
        self._lines = len(self._open)

    def _take(self, line: str) -> None:
        try:
            fields = json.loads(line)
            job_id = str(fields["job_id"])
            if fields.get("settled"):
                self._open.pop(job_id, None)
                return
            intent = Intent(
                job_id,
                str(fields["home"]),
                Step(fields["step"]),
                float(fields["at_s"]),
                float(fields["limit_s"]),
                int(fields["restarts"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            return
        if intent.home and math.isfinite(intent.at_s) and 0 <= intent.limit_s < math.inf:
            self._open[job_id] = intent
