"""A queue that stays sorted by the policy's priority, whatever its length."""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from itertools import chain
from math import inf
from operator import itemgetter
from typing import Any

from simulator.job_view import JobView

# Entries in a block before it is halved: moving so many pointers costs less than a binary search.
BLOCK = 1024

# (priority, arrival, job): arrivals differ, so two jobs are never compared.
Entry = tuple[Any, int, JobView]


class JobQueue:
    """Jobs in the order of (priority, arrival in this queue).

    A sorted array in blocks of bounded length. Adding at the end and taking from the front cost the same at
    any length, anything else two binary searches and a move within one block. That beats a heap here, because
    policies walk the queue past its first job.
    """

    __slots__ = ("_arrivals", "_blocks", "_by_gpus", "_by_wait", "_newcomers", "gpus", "length")

    def __init__(self) -> None:
        self._blocks: list[list[Entry]] = [[]]  # none is empty unless it is the only one
        self.length = 0  # how many jobs wait in it, without a call
        self._arrivals = 0  # breaks ties: the job that waits longest goes first
        self._by_gpus: dict[int, JobQueue] | None = None
        # A heap of (since when it has waited in all, arrival, entry), kept from the first call of
        # longest_waiting on. The entry of a job that has left is found out when it comes up.
        self._by_wait: list[tuple[float, int, Entry]] | None = None
        self._newcomers: list[JobView] | None = None  # kept from the first call of take_newcomers on
        self.gpus = 0  # what its jobs ask for, together

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[JobView]:
        for block in self._blocks:
            for entry in block:
                yield entry[2]

    def entries(self) -> Iterator[Entry]:
        """Iterate over (priority, arrival, job)."""
        return chain.from_iterable(self._blocks)

    def by_arrival(self) -> list[JobView]:
        """Return the jobs in the order in which they came."""
        return [entry[2] for entry in sorted(self.entries(), key=itemgetter(1))]

    @property
    def first(self) -> JobView:
        """The job with the lowest priority value; raises IndexError when the queue is empty."""
        return self._blocks[0][0][2]

    def head(self) -> JobView | None:
        """Return the job with the lowest priority value; None when the queue is empty."""
        block = self._blocks[0]
        return block[0][2] if block else None

    def add(self, priority: Any, job: JobView) -> None:
        """Insert a job; a lower priority value is served earlier."""
        self._arrivals = arrival = self._arrivals + 1
        job.queue_entry = entry = (priority, arrival, job)
        self._insert(entry)
        if self._by_gpus is not None:
            part = self._by_gpus.get(job.gpus)
            if part is None:
                part = self._by_gpus[job.gpus] = JobQueue()
            part._insert(entry)
        if self._newcomers is not None:
            self._newcomers.append(job)
        if self._by_wait is not None:
            heappush(self._by_wait, (job.pending_since_s, arrival, entry))

    def reorder(self, jobs: list[JobView], newcomers: Iterable[JobView], gpus: int) -> None:
        """Hold these jobs in this order, and no others; jobs that left were removed before.

        For a live queue, in which every estimate moves between two decisions; without newcomers, `exchange`
        does. A job's priority is its place. `newcomers` are in no queue yet, `gpus` is what all ask for
        together.
        """
        if self._newcomers is not None:
            self._newcomers += newcomers
        places = range(len(jobs))
        entries: list[Entry] = list(zip(places, places, jobs, strict=True))
        for job, entry in zip(jobs, entries, strict=True):
            job.queue_entry = entry
        self._by_gpus = self._by_wait = None
        self._blocks = _blocks(entries)
        self.length = len(entries)
        self.gpus = gpus

    def exchange(self, places: Sequence[int], jobs: Sequence[JobView]) -> None:
        """At these places, counted from 0, put these jobs: the same that stand there now, in another order.

        Each takes the priority and the arrival of the job that stood at its place.
        """
        entries = list(self.entries())
        for place, job in zip(places, jobs, strict=True):
            priority, arrival, _ = entries[place]
            job.queue_entry = entries[place] = (priority, arrival, job)
        self._by_gpus = self._by_wait = None
        self._blocks = _blocks(entries)

    def remove(self, job: JobView) -> None:
        """Take a job out; raises ValueError when it is not queued here."""
        entry = job.queue_entry
        if entry is None:
            raise ValueError(f"{job!r} is not in this queue")
        block = self._blocks[0]
        if len(block) > 1 and block[0] is entry:  # the usual case, without a call
            del block[0]
            self.length -= 1
            self.gpus -= job.gpus
        else:
            self._take_out(entry)
        if not self.length:
            self._by_gpus = None
        elif self._by_gpus is not None:
            part = self._by_gpus[job.gpus]
            part._take_out(entry)
            if not part.length:
                del self._by_gpus[job.gpus]
        job.queue_entry = None

    def by_gpus(self) -> "Mapping[int, JobQueue]":
        """Return the queue's jobs by GPU demand, each part in this queue's order; only to be read.

        Kept up to date from the first call on. For policies that pass over jobs that do not fit: they need
        not look at each.
        """
        if self._by_gpus is None:
            parts: defaultdict[int, list[Entry]] = defaultdict(list)
            for entry in self.entries():
                parts[entry[2].gpus].append(entry)
            self._by_gpus = {gpus: JobQueue._of(gpus, part) for gpus, part in parts.items()}
        return self._by_gpus

    def walk(self) -> "QueueWalk":
        """Return a walk in the queue's order that can leave out jobs by their demand."""
        return QueueWalk((gpus, part.entries()) for gpus, part in self.by_gpus().items())

    def take_newcomers(self) -> list[JobView]:
        """Return the jobs that were added since the last call (all of them at the first), and forget them.

        They may have left the queue meanwhile. For a policy that remembers what it has looked at.
        """
        newcomers = list(self) if self._newcomers is None else self._newcomers
        if newcomers or self._newcomers is None:
            self._newcomers = []
        return newcomers

    def longest_waiting(self) -> JobView | None:
        """Return the job that has waited longest in all; None when the queue is empty.

        Kept up to date from the first call on, in logarithmic time.
        """
        heap = self._by_wait
        if heap is None:
            entries = [(entry[2].pending_since_s, entry[1], entry) for entry in self.entries()]
            heapify(entries)
            heap = self._by_wait = entries
        while heap:
            entry = heap[0][2]
            if entry[2].queue_entry is entry:
                return entry[2]
            heappop(heap)
        return None

    def by_wait(self) -> Generator[JobView, None, None]:
        """Iterate over the jobs, the longest wait first; a step costs logarithmic time.

        The queue must not change meanwhile.
        """
        taken: list[tuple[float, int, Entry]] = []
        try:
            while (job := self.longest_waiting()) is not None and self._by_wait:
                taken.append(heappop(self._by_wait))
                yield job
        finally:
            if self._by_wait is not None:
                for each in taken:
                    heappush(self._by_wait, each)

    @classmethod
    def _of(cls, gpus: int, entries: list[Entry]) -> "JobQueue":
        """Return a part of a queue, of entries in order, of jobs that all ask for so many GPUs."""
        part = cls()
        part._blocks = _blocks(entries)
        part.length = len(entries)
        part.gpus = gpus * len(entries)
        return part

    def _insert(self, entry: Entry) -> None:
        self.length += 1
        self.gpus += entry[2].gpus
        blocks = self._blocks
        block = blocks[-1]
        if not block or block[-1] < entry:
            block.append(entry)
        else:
            if len(blocks) > 1:
                block = blocks[self._block_of(entry)]
            insort(block, entry)
        if len(block) > BLOCK:
            at = self._block_of(entry)
            blocks.insert(at + 1, block[BLOCK // 2 :])
            del block[BLOCK // 2 :]

    def _take_out(self, entry: Entry) -> None:
        blocks = self._blocks
        block = blocks[0]
        if block and block[0] is entry:
            del block[0]
        else:
            block = blocks[self._block_of(entry)]
            position = bisect_left(block, entry)
            if position == len(block) or block[position] is not entry:
                raise ValueError(f"{entry[2]!r} is not in this queue")
            del block[position]
        self.length -= 1
        self.gpus -= entry[2].gpus
        if not block and len(blocks) > 1:
            blocks.remove(block)

    def _block_of(self, entry: Entry) -> int:
        """Return the index of the block in which an entry lies or belongs."""
        blocks = self._blocks
        low, high = 0, len(blocks) - 1
        while low < high:
            middle = (low + high) // 2
            if blocks[middle][-1] < entry:
                low = middle + 1
            else:
                high = middle
        return low


def _blocks(entries: list[Entry]) -> list[list[Entry]]:
    return [entries[at : at + BLOCK] for at in range(0, len(entries), BLOCK)] or [[]]


class QueueWalk:
    """A walk along a queue in its order, past the jobs that ask for `below` GPUs or more.

    `below` may be lowered on the way. A step costs the logarithm of the number of distinct demands, however
    many jobs are left out. The queue must not change meanwhile. `parts` are (GPUs, their entries in order,
    one at least).
    """

    __slots__ = ("_heads", "below")

    def __init__(self, parts: Iterable[tuple[int, Iterator[Entry]]]) -> None:
        self.below: float = inf
        heads = [(next(rest), gpus, rest) for gpus, rest in parts]
        heapify(heads)
        self._heads = heads

    def __iter__(self) -> Iterator[Entry]:
        heads = self._heads
        while heads:
            entry, gpus, rest = heads[0]
            # With this entry go all others of its demand, which are not looked at.
            if gpus >= self.below:
                heappop(heads)
                continue
            yield entry
            following = next(rest, None)
            if following is None:
                heappop(heads)
            else:
                heapreplace(heads, (following, gpus, rest))
