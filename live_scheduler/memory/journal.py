"""What has happened to a live cluster's jobs, in a file that is only ever appended to.

A release knows the cluster up to the end of its training; what has happened since is here. Whatever state the
daemon holds in memory is a release's statistics with the journal replayed on them, so a restart, a new
release and a rollback are one and the same thing.

One JSON object a line. A line that was cut off by a crash is left out when the file is read, and counted.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from foundation.errors import BadInputError
from foundation.replaced_files import replace_file
from live_scheduler.append_only import append_lines

# Releases are trained weekly at the most seldom; a rollback goes back by a few of them.
KEEP_S = 35 * 86_400.0
# The file is written anew, without what is older, when it has grown beyond so many bytes.
COMPACT_BYTES = 64 * 1024 * 1024


class JobEventKind(StrEnum):
    """What an event does to a job."""

    SUBMITTED = "submitted"
    STARTED = "started"
    REQUEUED = "requeued"  # it waits again; what it had run taught nothing
    ENDED = "ended"  # after a run
    WITHDRAWN = "withdrawn"  # it will not run (again)


@dataclass(frozen=True, slots=True)
class JobEvent:
    """Something that happened to a job at `at_s` (Unix time); `facts` as `LiveJob.facts`.

    `duration_s` is the run time of a job that ended.
    """

    at_s: float
    kind: JobEventKind
    job_id: str
    facts: Mapping[str, Any]
    duration_s: float | None = None

    def to_line(self) -> str:
        """One line of JSON."""
        fields = {"at_s": self.at_s, "happening": self.kind, "job_id": self.job_id, "facts": self.facts}
        if self.duration_s is not None:
            fields["duration_s"] = self.duration_s
        return json.dumps(fields, separators=(",", ":"), allow_nan=False)

    @classmethod
    def from_line(cls, line: str) -> "JobEvent":
        """Read what `to_line` wrote; raises ValueError."""
        fields = json.loads(line)
        event = cls(
            float(fields["at_s"]),
            JobEventKind(fields["happening"]),
            str(fields["job_id"]),
            dict(fields["facts"]),
            None if fields.get("duration_s") is None else float(fields["duration_s"]),
        )
        if not math.isfinite(event.at_s):
            raise ValueError("at_s is not finite")
        if event.duration_s is not None and not 0 <= event.duration_s < math.inf:
            raise ValueError("duration_s is not a run time")
        return event


class Journal:
    """The file. One process writes it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.unreadable = 0  # lines that were left out, of those read last

    def append(self, events: Iterable[JobEvent]) -> None:
        """Write events down, in one piece and for good. Raises OSError."""
        lines = [event.to_line() for event in events]
        if lines:
            append_lines(self.path, lines)

    def read(self, after_s: float = -math.inf) -> Iterator[JobEvent]:
        """Iterate over what happened later than `after_s`, in the order of writing."""
        self.unreadable = 0
        try:
            lines = self.path.open(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return
        except OSError as error:
            raise BadInputError(f"The journal {self.path} cannot be read: {error.strerror}.") from error
        with lines:
            for line in lines:
                try:
                    event = JobEvent.from_line(line)
                except (ValueError, KeyError, TypeError):
                    self.unreadable += bool(line.strip())
                    continue
                if event.at_s > after_s:
                    yield event

    def compact(self, now_s: float) -> bool:
        """Leave out what is older than KEEP_S if the file has grown large; return whether that was done."""
        try:
            if self.path.stat().st_size <= COMPACT_BYTES:
                return False
        except FileNotFoundError:
            return False
        kept = (event.to_line() + "\n" for event in self.read(now_s - KEEP_S))
        replace_file(self.path, kept, durable=True)
        return True
