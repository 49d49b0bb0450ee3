"""QSSF's order of a queue in which every job has just arrived, as the authors' simulators have it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from foundation.errors import BadInputError
from simulator.actions import Start
from simulator.policy import start_from_front, start_in_order
from simulator.snapshot import NodePool, Snapshot

FRESH_QUEUE_ORDERS = ("service", "gpus")


@dataclass(frozen=True)
class QssfSettings:
    """Settings of QSSF.

    `fresh_queue` is the order of a queue in which every job arrived at this very moment: "service" as always,
    or "gpus", fewest first, as the authors' simulators have it.
    """

    fresh_queue: Literal["service", "gpus"] = "service"

    def __post_init__(self) -> None:
        if self.fresh_queue not in FRESH_QUEUE_ORDERS:
            raise BadInputError(
                f"fresh_queue is {self.fresh_queue!r}.",
                remedy=f"Choose one of: {', '.join(FRESH_QUEUE_ORDERS)}.",
            )

    def starting_rule(self) -> Callable[[Snapshot], list[Start]]:
        """Return what starts the jobs of each queue that changed."""
        return start_in_order if self.fresh_queue == "service" else _start_fresh_queues_by_gpus


def _start_fresh_queues_by_gpus(snapshot: Snapshot) -> list[Start]:
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
