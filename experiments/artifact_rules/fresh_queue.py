"""QSSF's order of a queue in which every job has just arrived, as the authors' simulators have it."""

from dataclasses import dataclass
from typing import Literal

from simulator.actions import Start
from simulator.policies.qssf import Qssf, QssfSettings
from simulator.policy import start_from_front
from simulator.snapshot import NodePool, Snapshot


@dataclass(frozen=True)
class FreshQueueSettings(QssfSettings):
    """Settings of QSSF under the authors' rules.

    `fresh_queue` is the order of a queue in which every job arrived at this very moment: "service" as always,
    or "gpus", fewest first, as the authors' simulators have it.
    """

    fresh_queue: Literal["service", "gpus"] = "service"


class FreshQueueQssf(Qssf):
    """QSSF that may order a queue anew in which every job has just arrived."""

    unequal_nodes = False
    Settings = FreshQueueSettings

    def __init__(self, settings: FreshQueueSettings | None = None) -> None:
        self.ways = settings or FreshQueueSettings()
        super().__init__(self.ways)

    def decide(self, snapshot: Snapshot) -> list[Start]:
        """Start from the front of each changed queue."""
        if self.ways.fresh_queue == "service":
            return super().decide(snapshot)
        return [start for pool in snapshot.changed for start in _start_from(pool, snapshot.now_s)]


def _start_from(pool: NodePool, now_s: float) -> list[Start]:
    queue = pool.queue
    if (
        len(queue) < 2
        or queue.first.submit_time_s != now_s
        or any(job.submit_time_s != now_s for job in queue)
    ):
        return start_from_front(pool)
    plan = pool.plan()
    actions: list[Start] = []
    for job in sorted(queue, key=lambda job: (job.gpus, job.index)):
        placement = plan.place(job.gpus)
        if placement is None:
            break
        actions.append(Start(job, placement))
    return actions
