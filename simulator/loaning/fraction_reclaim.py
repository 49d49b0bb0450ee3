"""Reclaiming pick by pick, by server fractions (Lyra, section 4).

A job on n servers costs each of them 1/n: to give all of them back preempts it once. With one server still
to pick there is nothing to share, and the cost is the number of jobs (the paper's special case N_R = 1). The
paper leaves ties open; here the pick wins whose preempted jobs leave the fewest GPUs idle elsewhere (its
figure 5 comes out right then), then the one that empties most servers, then the lowest.
"""

from collections import Counter

from simulator.loaning.base_layout import BaseLayout

DIGITS = 9  # to which costs are compared, since sums of fractions are not exact


def pick_by_fractions(layout: BaseLayout, count: int, *, capped: bool = False) -> list[int]:
    """Return `count` servers of the layout in the order of picking.

    `capped`: a job's fraction is 1 / min(n, servers still to pick), since to share out what is not asked for
    does not help. It preempts fewer jobs in general, and is not the paper's.
    """
    search = _Search(layout)
    return [search.pick(remaining, capped=capped) for remaining in range(count, 0, -1)]


class _Search:
    """The servers not picked yet, with the jobs that still run on them."""

    def __init__(self, layout: BaseLayout) -> None:
        self._layout = layout
        self._gpus_on = [dict(gpus_by_job) for gpus_by_job in layout.gpus_on]
        self._widest = max((len(servers) for servers in layout.servers_of), default=1)
        self._cap = 0
        self._costs = dict.fromkeys(range(len(layout.gpus_on)), 0.0)  # of the servers not picked
        # The GPUs that preempting a server's jobs frees, and those on the servers that it leaves idle.
        self._freed: dict[int, tuple[int, list[int]]] = {}

    def pick(self, remaining: int, *, capped: bool) -> int:
        """Take the next server, with `remaining` to pick, this one included."""
        cap = min(remaining, self._widest) if capped or remaining == 1 else self._widest
        if cap != self._cap:
            self._cap = cap
            for server in self._costs:
                self._costs[server] = self._cost(server)
        least = min(self._costs.values())
        tied = [server for server, cost in self._costs.items() if cost == least]
        server = tied[0] if len(tied) == 1 else min(tied, key=lambda each: self._tie_break(each, remaining))
        del self._costs[server]
        self._preempt(server)
        return server

    def _cost(self, server: int) -> float:
        servers_of, cap = self._layout.servers_of, self._cap
        return round(sum([1 / min(len(servers_of[job]), cap) for job in self._gpus_on[server]]), DIGITS)

    def _tie_break(self, server: int, remaining: int) -> tuple[int, int, int]:
        if server not in self._freed:
            self._freed[server] = self._freed_by(server)
        gpus, emptied = self._freed[server]
        of_use = emptied[:remaining]
        return gpus - sum(of_use), -len(of_use), server

    def _freed_by(self, server: int) -> tuple[int, list[int]]:
        jobs = self._gpus_on[server]
        shared = Counter([other for job in jobs for other in self._layout.servers_of[job]])
        shared[server] = len(jobs)  # a server without jobs leaves itself idle
        emptied = [
            sum(self._gpus_on[other].values())
            for other, n in shared.items()
            if n == len(self._gpus_on[other])
        ]
        return sum([self._layout.gpus_of[job] for job in jobs]), sorted(emptied, reverse=True)

    def _preempt(self, server: int) -> None:
        """Take the server's jobs off all their servers, and forget what was computed of their neighbours."""
        gone = list(self._gpus_on[server])
        changed = {other for job in gone for other in self._layout.servers_of[job]} - {server}
        self._gpus_on[server] = {}
        for other in changed:
            for job in gone:
                self._gpus_on[other].pop(job, None)
            self._costs[other] = self._cost(other)
            self._freed.pop(other, None)
            for job in self._gpus_on[other]:
                for neighbour in self._layout.servers_of[job]:
                    self._freed.pop(neighbour, None)
