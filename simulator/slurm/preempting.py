"""Who has to go for a job of higher QOS: Slurm's preempt/qos with select/cons_tres.

The running jobs of lower QOS are taken away one by one, those of the lowest QOS and the fewest nodes first,
until the job fits; then again with the last one first, so that as few as possible go. Of these, only jobs on
the nodes that it takes are stopped.
"""

from collections.abc import Callable, Iterable, Sequence

from cluster_logs.site.rules import Qos, SiteRules
from simulator.cluster.placement import NOWHERE, Placement
from simulator.slurm.ranking import QueueStanding
from simulator.slurm.room import NodeRoom, mask_of

# A job that preempted others waits for them before it preempts again: KillWait, and MessageTimeout of 10 s.
_MESSAGE_TIMEOUT_S = 10.0


class Preemption:
    """Finds the running jobs that a waiting one may stop."""

    def __init__(self, site: SiteRules) -> None:
        self.rules = site.preemption
        self.on = self.rules.type == "qos" and self.rules.mode in ("requeue", "cancel")
        self._patience_s = site.scheduler.kill_wait_s + _MESSAGE_TIMEOUT_S
        self._qos: dict[str, Qos] = {qos.name: qos for qos in site.qos}

    def may(self, standing: QueueStanding) -> bool:
        """Whether there are jobs that one might stop, running or not."""
        qos = self._qos.get(standing.qos)
        return self.on and qos is not None and bool(qos.preempts)

    def candidates(
        self, standing: QueueStanding, running: Iterable[QueueStanding], now_s: float
    ) -> list[QueueStanding]:
        """Return the jobs that a job may stop, the first to go first."""
        qos = self._qos.get(standing.qos)
        if not self.on or qos is None or not qos.preempts:
            return []
        found = [each for each in running if each.qos in qos.preempts and self._may_go(each, now_s)]
        if self.rules.youngest_first:
            found.sort(key=lambda each: (-each.job.start_time_s, each.job.index))
        else:
            found.sort(key=lambda each: (self._qos[each.qos].priority, each.nodes, each.job.index))
        return found

    def _may_go(self, each: QueueStanding, now_s: float) -> bool:
        qos = self._qos[each.qos]
        mode = qos.preempt_mode or self.rules.mode
        exempt_s = self.rules.exempt_time_s if qos.exempt_time_s is None else qos.exempt_time_s
        return mode in ("requeue", "cancel") and now_s >= each.job.start_time_s + exempt_s

    def waits(self, standing: QueueStanding, now_s: float) -> bool:
        """Return whether a job still waits for those that it stopped."""
        return now_s < standing.preempting_s + self._patience_s

    def victims(
        self,
        standing: QueueStanding,
        room: NodeRoom,
        among: int,
        candidates: Sequence[QueueStanding],
    ) -> list[QueueStanding] | None:
        """Return what has to go for a job that does not fit among these nodes; None: not even then."""
        order = list(candidates)
        passes = 0
        while True:
            plan = room.copy()
            placement: Placement | None = None
            gone: list[QueueStanding] = []
            for each in order:
                plan.give(each.job.placement or NOWHERE)
                gone.append(each)
                placement = plan.find(standing.job.gpus, among, whole=standing.whole)
                if placement is not None:
                    break
            if placement is None:
                return None
            passes += 1
            if passes > self.rules.reorder_count + 1 or len(order) <= passes:
                nodes = mask_of(placement)
                return [each for each in gone if nodes & mask_of(each.job.placement or NOWHERE)]
            last, nodes = gone[-1], mask_of(placement)
            ahead = sorted(gone[:-1], key=_overlap(nodes), reverse=True)
            order = [last, *ahead, *order[len(gone) :]]


def _overlap(nodes: int) -> Callable[[QueueStanding], int]:
    return lambda each: (nodes & mask_of(each.job.placement or NOWHERE)).bit_count()
