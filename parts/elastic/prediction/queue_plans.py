"""When a job of weighted fair queuing ends if nothing more is submitted (PCS, section 3.4: JCTpred).

A prediction drains all queues until the job has ended. A job that is submitted behind others that wait
changes nothing before its own turn: the drain of the job in front of it is still what will happen. So the
state just before a queue's last job had its turn is kept, and the next prediction in that queue goes on from
there. It no longer holds when a job is submitted that is served at once, or in a queue that has run empty of
waiting jobs by then.
"""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from math import inf

from parts.elastic.active_job import ActiveJob
from parts.elastic.prediction.queue_drain import QueueDrain, Stop
from parts.elastic.rules.fair_queue import FairQueue
from parts.elastic.rules.water_filling import WaterFilledShares
from simulator.actions import PolicyError


class QueuePlans:
    """Predicts ends in a set of queues, and keeps what it has played that still holds."""

    def __init__(self, queues: Sequence[FairQueue], shares: WaterFilledShares) -> None:
        self._queues = queues
        self._shares = shares
        self._kept: dict[int, dict[int, QueueDrain]] = {}  # by queue: all drains, before its last job's turn

    def forget(self) -> None:
        """Drop what was played: something has come that changes what others get."""
        self._kept.clear()

    def end_of(self, job: ActiveJob) -> float:
        """Return when an active job ends."""
        at = job.size_class
        last = self._queues[at].jobs[-1] is job
        drains = self._kept.pop(at, None) if last else None
        if drains is None or not all(drain.catch_up() for drain in drains.values()):
            drains = {i: QueueDrain(queue) for i, queue in enumerate(self._queues) if queue.jobs}
        return self._play(drains, job, keep=last)

    def _play(self, drains: dict[int, QueueDrain], asked: ActiveJob, *, keep: bool) -> float:
        goal, goal_at = asked.index, asked.size_class
        own = drains[goal_at]
        demands = [0] * len(self._queues)
        heads = [(*drain.head(), at) for at, drain in drains.items()]
        heapify(heads)
        while True:
            end_s, index, at = heappop(heads)
            if end_s == inf:
                raise PolicyError(f"Nothing would ever end {asked!r}.")
            drain = drains[at]
            if drain.at < len(drain.jobs):
                until_s, until_index = heads[0][:2] if heads else (inf, -1)
                stop = drain.run(until_s, until_index, goal)
                if stop is Stop.GOAL:
                    return drain.now_s
                end_s, index = drain.head()
                if stop is Stop.UNTIL:
                    heappush(heads, (end_s, index, at))
                    continue
                if keep and drain is own:
                    self._kept[at] = {i: other.copy() for i, other in drains.items()}
                    keep = False
            # No job waits in it any more: how much it demands matters to all queues.
            if index == goal:
                return end_s
            drain.end_next()
            for i, other in drains.items():
                demands[i] = other.demand
            given = self._shares.of(demands)
            changed = [at, *(i for i, other in drains.items() if given[i] != other.share and i != at)]
            for i in changed:
                drains[i].take(given[i], end_s)
            if own.share == own.demand and self._shares.stays_met(goal_at, demands, given):
                return own.end_of(goal)
            if len(changed) == 1:
                heappush(heads, (*drain.head(), at))
            else:
                heads = [(*other.head(), i) for i, other in drains.items()]
                heapify(heads)
