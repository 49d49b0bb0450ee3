"""What was decided at one moment, as a value: the order in which jobs are served, and why."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any, NamedTuple


class QueuePlace(NamedTuple):  # thousands are made at each decision: a dataclass takes five times as long
    """A waiting job and its place in the queue that it waits in.

    `pool` is the partition in which the policy serves it (the profiling partition while it is to be
    measured), `place` counts from 1 there. `rank` is what the policy ordered it by, lowest first.
    `starts_now`: the policy would start it at this moment. `overdue`: it has waited so long that it goes
    first. `partner`: the running job whose GPUs it is to share. `limit_s`: for how long, on the profiler.
    `gpus_on`: where the policy would start it, as (node, GPUs there); a cluster that places jobs by itself
    may choose otherwise.
    """

    job_id: str
    pool: str
    place: int
    starts_now: bool
    estimated_duration_s: float | None
    rank: Any
    overdue: bool = False
    partner: str | None = None
    limit_s: float | None = None
    gpus_on: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Decision:
    """The order of all queues at `at_s` (Unix time).

    `sends_home` are runs on the profiling partition that are over by the policy. `left_alone` says why jobs
    that wait were not ranked. `latency_s` is what the decision took, features and inference included;
    `problem` why the release or the policy could not be used, if so (`ranked` is empty then).
    `profiling_limit_s`: the policy ends a run on the profiling partition after so long.
    """

    at_s: float
    release: str
    release_version: int | None
    policy: str
    ranked: tuple[QueuePlace, ...]
    sends_home: tuple[str, ...]
    left_alone: Mapping[str, str]
    latency_s: float
    problem: str | None = None
    profiling_limit_s: float = inf

    @cached_property
    def by_id(self) -> Mapping[str, QueuePlace]:
        """The ranked jobs by their ids."""
        return {job.job_id: job for job in self.ranked}

    @cached_property
    def places(self) -> Mapping[str, int]:
        """The places of the ranked jobs in their queues, from 1."""
        return {job.job_id: job.place for job in self.ranked}
