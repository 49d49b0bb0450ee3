"""Reclaiming pick by pick: the server that costs least goes back, its jobs are preempted, and so on.

The paper's cost is by server fractions (Lyra, section 4): a job on n servers costs each of them 1/n, since to
give all of them back preempts it once. With one server still to pick there is nothing to share, and the cost
is the number of jobs (the paper's special case N_R = 1). The paper leaves ties open; here the pick wins whose
preempted jobs leave the fewest GPUs idle elsewhere (its figure 5 comes out right then), then the one that
empties most servers, then the lowest.
"""

from collections import Counter
from enum import Enum

from simulator.loaning.base_layout import BaseLayout

DIGITS = 9  # to which costs are compared, since sums of fractions are not exact


class ReclaimCost(Enum):
    """What a pick costs. Only the first is the paper's; which preempts the fewest jobs differs by case."""

    FRACTIONS = "fractions"
    CAPPED_FRACTIONS = "capped fractions"  # 1 / min(n, servers still to pick): to share more does not help
    JOBS_PER_SERVER = "jobs per server"  # its jobs by the servers that they leave idle, at most those to pick


def pick_in_order(layout: BaseLayout, count: int, measure: ReclaimCost = ReclaimCost.FRACTIONS) -> list[int]:
    """Return `count` servers of the layout (it has as many), in the order of picking."""
    search = _Search(layout, measure)
    return [search.pick(remaining) for remaining in range(count, 0, -1)]


class _Search:
    """The servers not picked yet, with the jobs that still run on them."""

    def __init__(self, layout: BaseLayout, measure: ReclaimCost) -> None:
        self._layout = layout
        self._measure = measure
        self._gpus_on = [dict(gpus_by_job) for gpus_by_job in layout.gpus_on]
        self._costs = dict.fromkeys(range(len(layout.gpus_on)), 0.0)  # of the servers not picked
        self._stale = set(self._costs)
        self._widest = max((len(servers) for servers in layout.servers_of), default=1)
        # The GPUs that preempting a server's jobs frees, and those on the servers that it leaves idle.
        self._freed: dict[int, tuple[int, list[int]]] = {}

    def pick(self, remaining: int) -> int:
        """Take the next server, with `remaining` to pick, this one included."""
        if remaining < self._widest and (self._measure is not ReclaimCost.FRACTIONS or remaining == 1):
            self._stale = set(self._costs)
        for server in self._stale:
            self._costs[server] = round(self._cost(server, remaining), DIGITS)
        least = min(self._costs.values())
        tied = [server for server, cost in self._costs.items() if cost == least]
        server = tied[0] if len(tied) == 1 else min(tied, key=lambda each: self._tie_break(each, remaining))
        del self._costs[server]
        self._preempt(server)
        return server

    def _cost(self, server: int, remaining: int) -> float:
        jobs = self._gpus_on[server]
        if self._measure is ReclaimCost.JOBS_PER_SERVER:
            left_idle = len(self._freed_by(server)[1])
            self._widest = max(self._widest, left_idle)
            return len(jobs) / min(left_idle, remaining)
        most = self._widest if self._measure is ReclaimCost.FRACTIONS and remaining > 1 else remaining
        servers_of = self._layout.servers_of
        return sum([1 / min(len(servers_of[job]), most) for job in jobs])

    def _tie_break(self, server: int, remaining: int) -> tuple[int, int, int]:
        gpus, idle_gpus = self._freed_by(server)
        of_use = idle_gpus[:remaining]
        return gpus - sum(of_use), -len(of_use), server

    def _freed_by(self, server: int) -> tuple[int, list[int]]:
        """Return the GPUs that preempting a server's jobs frees, and by server left idle, most first."""
        if server not in self._freed:
            jobs = self._gpus_on[server]
            shared = Counter([other for job in jobs for other in self._layout.servers_of[job]])
            shared[server] = len(jobs)  # a server without jobs is idle itself
            idle_gpus = [
                sum(self._gpus_on[other].values())
                for other, jobs_shared in shared.items()
                if jobs_shared == len(self._gpus_on[other])
            ]
            gpus = sum([self._layout.gpus_of[job] for job in jobs])
            self._freed[server] = gpus, sorted(idle_gpus, reverse=True)
        return self._freed[server]

    def _preempt(self, server: int) -> None:
        """Take the server's jobs off all their servers, and forget what that changes there and beside."""
        gone = list(self._gpus_on[server])
        changed = {other for job in gone for other in self._layout.servers_of[job]} - {server}
        self._gpus_on[server] = {}
        beside = set(changed)
        for other in changed:
            for job in gone:
                self._gpus_on[other].pop(job, None)
            for job in self._gpus_on[other]:
                beside.update(self._layout.servers_of[job])
        for near in beside:
            self._freed.pop(near, None)
        self._stale = beside if self._measure is ReclaimCost.JOBS_PER_SERVER else changed
