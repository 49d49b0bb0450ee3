"""Which jobs have base workers on which servers, as numbers: what the rules of reclaiming search in."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
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
