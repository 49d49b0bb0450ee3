"""Quasi-shortest service first (Helios, SC '21, section 4.2, Algorithm 1)."""

from dataclasses import dataclass
from typing import Literal

from foundation.errors import BadInputError
from simulator.actions import Start
from simulator.policy import Policy, start_from_front, start_in_order
from simulator.snapshot import JobView, NodePool, Snapshot

FRESH_QUEUE_ORDERS = ("service", "gpus")


@dataclass(frozen=True)
class QssfSettings:
    """Settings of QSSF.

    `fresh_queue` is the order of a queue in which every job arrived at this very moment: "service" as always,
    or "gpus", fewest first, as the authors' simulator has it.
    """

    fresh_queue: Literal["service", "gpus"] = "service"

    def __post_init__(self) -> None:
        if self.fresh_queue not in FRESH_QUEUE_ORDERS:
            raise BadInputError(
                f"fresh_queue is {self.fresh_queue!r}.",
                remedy=f"Choose one of: {', '.join(FRESH_QUEUE_ORDERS)}.",
            )


class Qssf(Policy):
    """Jobs start in the order of GPUs x estimated duration; no preemption."""

    in_order = True
    needs_estimates = True
    Settings = QssfSettings

    def __init__(self, settings: QssfSettings | None = None) -> None:
        self.settings = settings or QssfSettings()

    def priority(self, job: JobView) -> tuple[float, int]:
        """Order by expected service (GPU seconds), then by GPUs."""
        return (job.estimate_s * job.gpus, job.gpus)

    def decide(self, snapshot: Snapshot) -> list[Start]:
        """Start from the front of each changed queue."""
        if self.settings.fresh_queue == "service":
            return start_in_order(snapshot)
        now_s = snapshot.now_s
        return [start for pool in snapshot.changed for start in _start_with_fresh_queue_by_gpus(pool, now_s)]


def _start_with_fresh_queue_by_gpus(pool: NodePool, now_s: float) -> list[Start]:
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
