"""Event heap ordered by (time, kind, sequence)."""

from collections.abc import Iterable
from enum import IntEnum
from heapq import heappush
from itertools import count
from math import inf
from typing import Any

from simulator.cluster.changes import ClusterChange
from simulator.job_view import JobView


class EventKind(IntEnum):
    """What happens first when several things happen at the same time."""

    COMPLETE = 0  # first: GPUs freed at t serve jobs at t
    LIMIT = 1  # a bounded run is over; after COMPLETE, so that a job which ends on the limit has ended
    PHASE = 2  # a job's needs change
    CANCEL = 3  # a user withdraws a job; one that ends at this moment has ended
    CLUSTER = 4  # nodes come, leave, fail or are repaired; before submissions, which see the cluster as it is
    SUBMIT = 5  # jobs submitted at t compete for what is free at t
    WAKE = 6  # last: the policy asked to look again, and sees all of the above


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

    def push_given(
        self, changes: Iterable[ClusterChange], jobs: Iterable[JobView], begun_s: float | None
    ) -> None:
        """Add what a scenario says of times to come: changes of the cluster, and jobs that are withdrawn.

        `begun_s`: a simulation that goes on from there has seen the changes until then, itself included.
        """
        for change in sorted(changes, key=lambda change: change.at_s):
            if begun_s is None or change.at_s > begun_s:
                self.push(change.at_s, EventKind.CLUSTER, change)
        for view in jobs:
            if view.job.cancel_time_s is not None and view.job.cancel_time_s < inf:
                at_s = max(view.job.cancel_time_s, view.submit_time_s)
                if begun_s is None or at_s >= begun_s:
                    self.push(at_s, EventKind.CANCEL, view)
