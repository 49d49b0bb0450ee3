"""What a replay's summary does not say of loans: usage by hour, jobs on loaned servers, what went back.

Lyra, section 7.2: how much of what is asked back the servers with flexible workers alone satisfy.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.cluster.placement import Placement
from simulator.job_view import JobView
from simulator.recorder import Recorder, StopReason
from simulator.recorders.usage import StepLog, binned
from simulator.snapshot import NodePool

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class _Hold:
    """The GPUs of a running job by server, those of its flexible workers, and how many of all are loaned."""

    all: dict[int, int]
    flexible: dict[int, int]
    loaned: int

    def base_on(self, server: int) -> int:
        return self.all.get(server, 0) - self.flexible.get(server, 0)


class LoanWatch(Recorder):
    """A `simulator.recorder.Recorder` of one pool that borrows servers."""

    def __init__(self) -> None:
        self.on_loan: set[int] = set()  # indices of jobs that ever ran on a loaned server
        self._with_base = self._flexible_only = 0  # servers that went back in use, by what was on them
        self._log = StepLog(3)
        self._own = self._loaned = 0
        self._holds: dict[int, _Hold] = {}  # by JobView.index
        self._taken: dict[int, _Hold] = {}  # what the present decision has taken from jobs
        self._borrower: NodePool | None = None
        self._guests: set[int] = set()

    @property
    def flexible_share(self) -> float:
        """The share of servers that went back in use that held flexible workers only; 0 where none did."""
        used = self._flexible_only + self._with_base
        return self._flexible_only / used if used else 0.0

    def means(self, edges_s: Floats) -> tuple[Floats, Floats, Floats]:
        """Return own GPUs in use, loaned GPUs in use, and servers on loan: means between edges (s)."""
        at_s, own, loaned, servers = self._log.steps()
        return binned(at_s, own, edges_s), binned(at_s, loaned, edges_s), binned(at_s, servers, edges_s)

    def queued(self, now_s: float, job: JobView, pool: NodePool) -> None:
        """It holds nothing; its pool is the one that borrows."""
        self._borrower = pool

    def started(self, now_s: float, job: JobView, pool: NodePool) -> None:
        """Its GPUs are in use."""
        self._take(now_s, job, pool)

    def resized(self, now_s: float, job: JobView, pool: NodePool, before: Placement) -> None:
        """Others of its GPUs are in use."""
        self._taken.setdefault(job.index, self._leave(job.index))
        self._take(now_s, job, pool)

    def stopped(self, now_s: float, job: JobView, pool: NodePool, reason: StopReason) -> None:
        """Its GPUs come free."""
        if job.index in self._holds:
            held = self._leave(job.index)
            if reason in ("preempted", "evicted"):
                self._taken.setdefault(job.index, held)
            self._note(now_s)

    def decided(self, now_s: float, pools: Collection[NodePool]) -> None:
        """Servers may have come on loan, or gone home."""
        if self._borrower is not None and self._borrower.guests.keys() != self._guests:
            guests = set(self._borrower.guests)
            self._count_back(self._guests - guests)
            self._guests = guests
            self._note(now_s)
        self._taken = {}

    def _take(self, now_s: float, job: JobView, pool: NodePool) -> None:
        placement = job.placement or ()
        loaned = sum(gpus for server, gpus in placement if server in pool.guests)
        self._holds[job.index] = _Hold(dict(placement), dict(job.flexible), loaned)
        if loaned:
            self.on_loan.add(job.index)
        self._loaned += loaned
        self._own += sum(gpus for _, gpus in placement) - loaned
        self._note(now_s)

    def _leave(self, index: int) -> _Hold:
        held = self._holds.pop(index)
        self._loaned -= held.loaned
        self._own -= sum(held.all.values()) - held.loaned
        return held

    def _count_back(self, back: set[int]) -> None:
        """Take note of servers that went back, as they were before the decision."""
        if not back:
            return
        held = [hold for hold in (self._holds | self._taken).values() if hold.loaned]
        with_base = {server for hold in held for server in back if hold.base_on(server)}
        used = {server for hold in held for server in back if hold.all.get(server)}
        self._with_base += len(with_base)
        self._flexible_only += len(used - with_base)

    def _note(self, now_s: float) -> None:
        self._log.note(now_s, (self._own, self._loaned, len(self._guests)))
