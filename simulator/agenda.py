"""Event heap ordered by (time, kind, sequence)."""

from heapq import heappush
from itertools import count
from typing import Any

# (time in s, kind, sequence, subject, version of the job when the event was pushed)
Event = tuple[float, int, int, Any, int]


class Agenda:
    """A heap of events (s). An event of a job is void once the job's version has moved on."""

    __slots__ = ("events", "next_number")

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.next_number = count(1).__next__  # the sequence number of an event that is pushed now

    def push(self, at_s: float, kind: int, subject: Any, version: int = 0) -> None:
        """Add an event."""
        heappush(self.events, (at_s, int(kind), self.next_number(), subject, version))
