"""A queue that stays sorted by the policy's priority."""

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulator.snapshot import JobView

# Served jobs leave a gap at the front; it is closed once it is this long and longer than what is left.
COMPACT_AFTER = 256


class JobQueue:
    """Jobs in the order of (priority, arrival in this queue).

    A sorted array with a moving head: taking from the front is O(1), inserting a binary search and one block
    move. That beats a heap here, because policies walk the queue past its first job.
    """

    __slots__ = ("_arrivals", "_by_gpus", "_entries", "_head", "_newcomers", "gpus")

    def __init__(self) -> None:
        self._entries: list[Any] = []
        self._head = 0
        self._arrivals = 0  # breaks ties: who waits longest goes first
        self._by_gpus: dict[int, JobQueue] | None = None
        self._newcomers: list[JobView] = []
        self.gpus = 0  # what its jobs ask for, together

    def __len__(self) -> int:
        return len(self._entries) - self._head

    def __iter__(self) -> "Iterator[JobView]":
        entries = self._entries
        for i in range(self._head, len(entries)):
            yield entries[i][2]

    @property
    def first(self) -> "JobView":
        """The job with the lowest priority value; raises IndexError when the queue is empty."""
        job: JobView = self._entries[self._head][2]
        return job

    def add(self, priority: Any, job: "JobView") -> None:
        """Insert a job; a lower priority value is served earlier."""
        self._arrivals += 1
        entry = (priority, self._arrivals, job)
        job.queue_entry = entry
        self._insert(entry)
        if self._by_gpus is not None:
            part = self._by_gpus.get(job.gpus)
            if part is None:
                part = self._by_gpus[job.gpus] = JobQueue()
            part._insert(entry)
            self._newcomers.append(job)

    def remove(self, job: "JobView") -> None:
        """Take a job out; raises ValueError when it is not queued here."""
        self._take_out(job)
        if self._by_gpus is not None:
            part = self._by_gpus[job.gpus]
            part._take_out(job)
            if not len(part):
                del self._by_gpus[job.gpus]
        job.queue_entry = None

    def by_gpus(self) -> "Mapping[int, JobQueue]":
        """Return the queue's jobs by GPU demand, each part in this queue's order; only to be read.

        Kept up to date from the first call on. For policies that pass over jobs that do not fit: they need
        not look at each.
        """
        if self._by_gpus is None:
            self._by_gpus = {}
            for i in range(self._head, len(self._entries)):
                job = self._entries[i][2]
                self._by_gpus.setdefault(job.gpus, JobQueue())._insert(self._entries[i])
                self._newcomers.append(job)
        return self._by_gpus

    def take_newcomers(self) -> "list[JobView]":
        """Return the jobs that were added since the last call (all of them at the first), and forget them.

        They may have left the queue meanwhile. For a policy that remembers what it has looked at.
        """
        self.by_gpus()
        newcomers = self._newcomers
        if newcomers:
            self._newcomers = []
        return newcomers

    def _insert(self, entry: Any) -> None:
        self.gpus += entry[2].gpus
        entries = self._entries
        if not entries or entries[-1] < entry:
            entries.append(entry)
        else:
            insort(entries, entry, lo=self._head)

    def _take_out(self, job: "JobView") -> None:
        entry = job.queue_entry
        entries = self._entries
        head = self._head
        at = head
        if at >= len(entries) or entries[at] is not entry:
            at = -1 if entry is None else bisect_left(entries, entry, lo=head)
            if at < 0 or at >= len(entries) or entries[at] is not entry:
                raise ValueError(f"{job!r} is not in this queue")
            del entries[at]
        else:
            entries[at] = None
            self._head = head = head + 1
            if head == len(entries) or (head > COMPACT_AFTER and head > len(entries) // 2):
                del entries[:head]
                self._head = 0
        self.gpus -= job.gpus
