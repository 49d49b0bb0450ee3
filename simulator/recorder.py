"""What can be watched while a simulation runs."""

from collections.abc import Collection, Sequence
from typing import Literal

from simulator.cluster.placement import Placement
from simulator.job_view import JobView
from simulator.snapshot import NodePool

StopReason = Literal["completed", "preempted", "evicted", "limit", "failed", "cancelled"]


class Recorder:
    """Told of everything that happens to jobs, in order; this one notes nothing.

    A recorder must not change what it is shown. A job that runs again is queued, started and stopped again.
    At `stopped` the job still shows its placement and partner.
    """

    def queued(self, now_s: float, job: JobView, pool: NodePool) -> None:
        """A job begins to wait in a pool; it is in the queue already, or held if the pool is too small."""

    def started(self, now_s: float, job: JobView, pool: NodePool) -> None:
        """A job begins to run, alone or on its partner's GPUs."""

    def resized(self, now_s: float, job: JobView, pool: NodePool, before: Placement) -> None:
        """A running job goes on with other GPUs than `before`; it shows the new ones."""

    def stopped(self, now_s: float, job: JobView, pool: NodePool, reason: StopReason) -> None:
        """A job's run ends; a job that was cancelled while it waited had none."""

    def decided(self, now_s: float, pools: Collection[NodePool]) -> None:
        """The policy decided for these pools and its actions were applied; waiting jobs wait on."""


class RecorderGroup(Recorder):
    """Tells each of its recorders everything, in their order."""

    def __init__(self, recorders: Sequence[Recorder]) -> None:
        self._recorders = tuple(recorders)

    def queued(self, now_s: float, job: JobView, pool: NodePool) -> None:
        """Pass it on."""
        for recorder in self._recorders:
            recorder.queued(now_s, job, pool)

    def started(self, now_s: float, job: JobView, pool: NodePool) -> None:
        """Pass it on."""
        for recorder in self._recorders:
            recorder.started(now_s, job, pool)

    def resized(self, now_s: float, job: JobView, pool: NodePool, before: Placement) -> None:
        """Pass it on."""
        for recorder in self._recorders:
            recorder.resized(now_s, job, pool, before)

    def stopped(self, now_s: float, job: JobView, pool: NodePool, reason: StopReason) -> None:
        """Pass it on."""
        for recorder in self._recorders:
            recorder.stopped(now_s, job, pool, reason)

    def decided(self, now_s: float, pools: Collection[NodePool]) -> None:
        """Pass it on."""
        for recorder in self._recorders:
            recorder.decided(now_s, pools)


def together(recorders: Sequence[Recorder]) -> Recorder | None:
    """Return one recorder for several, itself if it is one, and None for none."""
    if len(recorders) < 2:
        return recorders[0] if recorders else None
    return RecorderGroup(recorders)
