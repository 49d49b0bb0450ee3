"""Several recorders at once."""

from collections.abc import Collection, Sequence

from simulator.job_view import JobView
from simulator.placement import Placement
from simulator.recorder import Recorder, StopReason
from simulator.snapshot import NodePool


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
