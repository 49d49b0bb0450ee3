"""What has happened to a live cluster's jobs, in a file that is only ever appended to.

A release knows the cluster up to the end of its training; what has happened since is here. Whatever state the
daemon holds in memory is a release's statistics with the journal replayed on them, so a restart, a new
release and a rollback are one and the same thing.

One JSON object a line. A line that was cut off by a crash is left out when the file is read, and counted.
`JobTracker` finds out what has happened between two readings of the cluster.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from foundation.errors import BadInputError
from foundation.replaced_files import replace_file
from live_scheduler.cluster_state import ClusterState, EndedJob, LiveJob
from live_scheduler.memory.records import append_lines

# Releases are trained weekly at the most seldom; a rollback goes back by a few of them.
KEEP_S = 35 * 86_400.0
# The file is written anew, without what is older, when it has grown beyond so many bytes.
COMPACT_BYTES = 64 * 1024 * 1024
# A job that is in no queue and of which accounting knows nothing is given up after so long.
GIVE_UP_S = 3_600.0


class JobEventKind(StrEnum):
    """What an event does to a job."""

    SUBMITTED = "submitted"
    STARTED = "started"
    REQUEUED = "requeued"  # it waits again; nothing is learnt from its run
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


@dataclass
class JobTracker:
    """Follows jobs from reading to reading. A job ends only when the cluster says what became of it."""

    seen: dict[str, LiveJob] = field(default_factory=dict)
    # Jobs that were in the queue and are not: since when.
    missing: dict[str, float] = field(default_factory=dict)

    def follow(self, cluster: ClusterState) -> list[JobEvent]:
        """Take in a reading, and return what it shows, in the order of time."""
        events: list[JobEvent] = []
        present = cluster.by_id
        for job_id, job in present.items():
            before = self.seen.get(job_id)
            events += _submitted(job) if before is None else _changed(before, job, cluster.at_s)
            self.missing.pop(job_id, None)
        for job_id in self.seen:
            if job_id not in present:
                self.missing.setdefault(job_id, cluster.at_s)
        self.seen = {**{job_id: self.seen[job_id] for job_id in self.missing}, **present}
        return sorted(events, key=lambda event: event.at_s)

    def settle(self, ended: Mapping[str, EndedJob], now_s: float) -> list[JobEvent]:
        """Take in what became of missing jobs; those not heard of for long are given up."""
        events = []
        for job_id, since_s in list(self.missing.items()):
            end = ended.get(job_id)
            if end is None and now_s - since_s < GIVE_UP_S:
                continue
            events.append(withdrawn(self.seen[job_id], now_s) if end is None else end_event(end))
            del self.missing[job_id], self.seen[job_id]
        return sorted(events, key=lambda event: event.at_s)


def end_event(end: EndedJob) -> JobEvent:
    """Return the event of a job's end: after a run, or without one."""
    if end.duration_s is None or end.start_time_s is None:
        return withdrawn(end.job, end.end_time_s)
    return JobEvent(end.end_time_s, JobEventKind.ENDED, end.job.job_id, end.job.facts(), end.duration_s)


def life(end: EndedJob) -> Iterator[JobEvent]:
    """Yield the events of a job that only accounting shows."""
    job, facts = end.job, end.job.facts()
    yield JobEvent(job.submit_time_s, JobEventKind.SUBMITTED, job.job_id, facts)
    if end.start_time_s is not None:
        yield JobEvent(max(end.start_time_s, job.submit_time_s), JobEventKind.STARTED, job.job_id, facts)
    yield end_event(end)


def withdrawn(job: LiveJob, at_s: float) -> JobEvent:
    """Return the event of a job that will not run (again)."""
    return JobEvent(at_s, JobEventKind.WITHDRAWN, job.job_id, job.facts())


def _submitted(job: LiveJob) -> list[JobEvent]:
    events = [JobEvent(job.submit_time_s, JobEventKind.SUBMITTED, job.job_id, job.facts())]
    if job.start_time_s is not None:
        events.append(_started(job))
    return events


def _started(job: LiveJob) -> JobEvent:
    start_s = job.submit_time_s if job.start_time_s is None else job.start_time_s
    facts = job.facts()
    if job.ready_time_s > job.submit_time_s:
        facts["ready_time_s"] = min(job.ready_time_s, max(start_s, job.submit_time_s))
    # Clocks that disagree must not let a job start before its submission.
    return JobEvent(max(start_s, job.submit_time_s), JobEventKind.STARTED, job.job_id, facts)


def _changed(before: LiveJob, job: LiveJob, now_s: float) -> list[JobEvent]:
    if before.start_time_s == job.start_time_s:
        return []
    if before.waiting:
        return [_started(job)]
    again = JobEvent(now_s, JobEventKind.REQUEUED, job.job_id, job.facts())
    if job.waiting:
        return [again]
    started = _started(job)
    return [JobEvent(min(now_s, started.at_s), JobEventKind.REQUEUED, job.job_id, job.facts()), started]
