"""Reclaiming pick by pick: the server that costs least goes back, its jobs are preempted, and so on.

The paper's cost is by server fractions (Lyra, section 4): a job on n servers costs each of them 1/n, since to
give all of them back preempts it once. With one server still to pick there is nothing to share, and the cost
is the number of jobs (the paper's special case N_R = 1). The paper leaves ties open; here the pick wins whose
preempted jobs leave the fewest GPUs idle elsewhere (its figure 5 comes out right then), then the one that
empties most servers, then the lowest.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

JobT = TypeVar("JobT", bound=Hashable)


@dataclass(frozen=True, slots=True)
class BaseLayout:
    """Servers 0, 1, ... in the order of their ids and the jobs on them, numbered in no order that matters.

    `gpus_on` has, by server, the GPUs of each job with base workers there; `servers_of` and `gpus_of`, by
    job, the servers with its base workers, and the GPUs that these hold in all.
    """

    gpus_on: Sequence[Mapping[int, int]]
    servers_of: Sequence[Sequence[int]]
    gpus_of: Sequence[int]

    @classmethod
    def of(cls, base: Iterable[Mapping[JobT, int]]) -> "BaseLayout":
        """Return the layout of servers with so many GPUs by job; a job with none on a server is not on it."""
        numbers: dict[JobT, int] = {}
        gpus_on = [
            {numbers.setdefault(job, len(numbers)): gpus for job, gpus in gpus_by_job.items() if gpus}
            for gpus_by_job in base
        ]
        servers_of: list[list[int]] = [[] for _ in numbers]
        gpus_of = [0] * len(numbers)
        for server, gpus_by_job in enumerate(gpus_on):
            for job, gpus in gpus_by_job.items():
                servers_of[job].append(server)
                gpus_of[job] += gpus
        return cls(gpus_on, servers_of, gpus_of)

    def cost(self, servers: Iterable[int]) -> tuple[int, int]:
        """Return what giving these servers back costs: jobs preempted, and their GPUs elsewhere."""
        picked = [self.gpus_on[server] for server in servers]
        jobs = {job for gpus_by_job in picked for job in gpus_by_job}
        given_gpus = sum(sum(gpus_by_job.values()) for gpus_by_job in picked)
        return len(jobs), sum(self.gpus_of[job] for job in jobs) - given_gpus


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
        self._where = [frozenset(servers) for servers in layout.servers_of]  # by job
        self._widest = max(map(len, self._where), default=1)
        # By server: its jobs, the GPUs that these have in all, and the servers that preempting them leaves
        # idle, itself included.
        self._gpus_on = [dict(gpus_by_job) for gpus_by_job in layout.gpus_on]
        self._freed_gpus = [sum([layout.gpus_of[job] for job in jobs]) for jobs in self._gpus_on]
        self._left_idle = [{server} for server in range(len(self._gpus_on))]
        for server in range(len(self._gpus_on)):
            for beside in self._runs_all_of(server):
                self._left_idle[beside].add(server)
        self._costs = dict.fromkeys(range(len(layout.gpus_on)), 0.0)  # of the servers not picked
        self._stale = set(self._costs)

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
            left_idle = len(self._left_idle[server])
            self._widest = max(self._widest, left_idle)
            return len(jobs) / min(left_idle, remaining)
        most = self._widest if self._measure is ReclaimCost.FRACTIONS and remaining > 1 else remaining
        return sum([1 / min(len(self._where[job]), most) for job in jobs])

    def _tie_break(self, server: int, remaining: int) -> tuple[int, int, int]:
        idle_gpus = [sum(self._gpus_on[idle].values()) for idle in self._left_idle[server]]
        of_use = sorted(idle_gpus, reverse=True)[:remaining]
        return self._freed_gpus[server] - sum(of_use), -len(of_use), server

    def _runs_all_of(self, server: int) -> frozenset[int]:
        """Return the servers that run all jobs of a server, itself included; of one without jobs no other."""
        jobs = [self._where[job] for job in self._gpus_on[server]]
        return jobs[0].intersection(*jobs[1:]) if jobs else frozenset((server,))

    def _preempt(self, server: int) -> None:
        """Take the server's jobs off all their servers, and look anew at these and at those beside them."""
        gone = list(self._gpus_on[server])
        changed = set().union(*(self._where[job] for job in gone))
        for job in gone:
            for other in self._where[job]:
                del self._gpus_on[other][job]
                self._freed_gpus[other] -= self._layout.gpus_of[job]
        stale = set(changed)
        for other in changed:
            if self._gpus_on[other]:
                for beside in self._runs_all_of(other):
                    if other not in self._left_idle[beside]:
                        self._left_idle[beside].add(other)
                        stale.add(beside)
            else:  # no preemption leaves it idle now: it is
                for beside in changed:
                    if beside != other:
                        self._left_idle[beside].discard(other)
        self._stale = (stale if self._measure is ReclaimCost.JOBS_PER_SERVER else changed) - {server}
