"""The running jobs of a pool in the order that a policy declares, kept up to date start by start.

A preemptive policy compares waiting jobs with running ones. A key that stands still while a job runs (its
expected end, the queue that it belongs to) lets the running jobs stay sorted from one decision to the next.
"""

from bisect import bisect_right, insort
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from simulator.job_queue import Entry
from simulator.job_view import JobView

# The key of a running job, lower is served earlier, and the moment after which it has to be asked for again
# (None: it stands as long as the job runs undisturbed).
RunningKey = tuple[Any, float | None]


class RunningOrder:
    """Running jobs by (key, present start), lowest first."""

    __slots__ = ("_by_job", "_entries", "_expiries", "_key_of", "_pushes", "_starts", "gpus", "settled")

    def __init__(self, key_of: Callable[[JobView, float], RunningKey]) -> None:
        self._key_of = key_of
        self._entries: list[Entry] = []
        self._by_job: dict[JobView, Entry] = {}
        self._expiries: list[tuple[float, int, Entry]] = []
        self._pushes = 0
        self._starts = 0
        self.gpus = 0  # that these jobs hold
        # `FreeGpus.gains` when no waiting job could start; None after any key has changed.
        self.settled: int | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, job: JobView, now_s: float) -> None:
        """Insert a job that starts now, or ask again for the key of one that is disturbed while it runs."""
        entry = self._by_job.get(job)
        if entry is None:
            self._starts += 1
            self.gpus += job.gpus
            self._insert(job, self._starts, now_s)
        else:
            self._renew(entry, now_s)

    def _renew(self, entry: Entry, now_s: float) -> None:
        self._drop(entry)
        self._insert(entry[2], entry[1], now_s)
        self.settled = None

    def _insert(self, job: JobView, start: int, now_s: float) -> None:
        key, until_s = self._key_of(job, now_s)
        entry = self._by_job[job] = (key, start, job)
        entries = self._entries
        if entries and entries[-1] > entry:
            insort(entries, entry)
        else:
            entries.append(entry)
        if until_s is not None:
            self._pushes += 1
            heappush(self._expiries, (until_s, self._pushes, entry))

    def remove(self, job: JobView) -> None:
        """Take out a job that has stopped."""
        self.gpus -= job.gpus
        self._drop(self._by_job.pop(job))

    def _drop(self, entry: Entry) -> None:
        entries = self._entries
        del entries[bisect_right(entries, entry) - 1]

    def next_change_s(self) -> float | None:
        """The earliest moment after which a running job's key will differ; None: never."""
        expiries = self._expiries
        while expiries:
            until_s, _, entry = expiries[0]
            if self._by_job.get(entry[2]) is entry:
                return until_s
            heappop(expiries)
        return None

    def at(self, now_s: float) -> list[Entry]:
        """All (key, start, job), lowest first, as of now. Not to be changed."""
        expiries = self._expiries
        if expiries and expiries[0][0] < now_s:
            expired = []
            while expiries and expiries[0][0] < now_s:
                entry = heappop(expiries)[2]
                if self._by_job.get(entry[2]) is entry:
                    expired.append(entry)
            for entry in expired:
                self._renew(entry, now_s)
        return self._entries

    def after(self, limit: Any, now_s: float) -> list[Entry]:
        """Return the jobs with a key greater than `limit`, lowest first."""
        entries = self.at(now_s)
        return entries[bisect_right(entries, limit, key=_key) :]


def _key(entry: Entry) -> Any:
    return entry[0]
