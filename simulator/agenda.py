"""What is to happen, in the order of time; at equal times in that of `EventKind`, then as it was foreseen."""

from heapq import heappush
from itertools import count
from typing import Any

# (time, kind, sequence, subject, version of the job when the event was foreseen)
Event = tuple[float, int, int, Any, int]


class Agenda:
    """A heap of events. One of a job is void when its job's version has moved on."""

    __slots__ = ("events", "next_number")

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.next_number = count(1).__next__  # of an event that is foreseen now

    def push(self, at_s: float, kind: int, subject: Any, version: int = 0) -> None:
        """Foresee an event."""
        heappush(self.events, (at_s, int(kind), self.next_number(), subject, version))
