"""PCS: weighted fair queuing over size classes, FIFO within each (PCS, sections 3.1 and 3.2)."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite

from foundation.errors import BadInputError
from parts.elastic.active_job import ActiveJob
from parts.elastic.allocation import AllocationRule, Allocator, Pool
from parts.elastic.rules.rigid_queues import RigidQueues
from parts.elastic.rules.water_filling import NO_GPUS, water_fill
from parts.elastic.rules.wfq_queues import FairQueues
from parts.elastic.rules.whole_shares import whole_shares
from simulator.workload.speed_up import SpeedUp

LEAST_STEP = 1e-3  # of efficiency_step: smaller ones would mean thousands of passes over a queue


@dataclass(frozen=True)
class WfqConfig:
    """A configuration of PCS: what the Pareto search looks for and an operator picks.

    A job belongs to the first class with a threshold not below its size (s on one GPU). Each class owns
    `weights` of the pool, and no job in it is given GPUs that it uses with less than `efficiency_min` (zeta)
    until all others in it have theirs; then zeta is lowered by `efficiency_step` (delta).
    """

    thresholds_s: tuple[float, ...]  # ascending, the last is infinite
    weights: tuple[float, ...]  # of all GPUs, they sum to 1
    efficiency_min: float
    efficiency_step: float

    def __post_init__(self) -> None:
        ascending = all(a < b for a, b in zip(self.thresholds_s, self.thresholds_s[1:], strict=False))
        if not self.thresholds_s or not ascending or self.thresholds_s[-1] != inf:
            raise BadInputError(f"thresholds_s is {self.thresholds_s}.", remedy="Ascend, and end with inf.")
        if len(self.weights) != len(self.thresholds_s):
            raise BadInputError(f"{len(self.weights)} weights for {len(self.thresholds_s)} size classes.")
        if any(not isfinite(w) or w <= 0 for w in self.weights) or abs(sum(self.weights) - 1) > 1e-6:
            raise BadInputError(f"weights are {self.weights}.", remedy="Use shares above 0 that sum to 1.")
        if not 0 <= self.efficiency_min <= 1 or not LEAST_STEP <= self.efficiency_step <= 1:
            raise BadInputError(
                f"efficiency_min is {self.efficiency_min} and efficiency_step {self.efficiency_step}.",
                remedy=f"Use 0 to 1, and a step of {LEAST_STEP} or more.",
            )

    def efficiencies(self) -> tuple[float, ...]:
        """Return the efficiencies that are asked of jobs, one after the other; the last asks for none."""
        levels = []
        zeta = self.efficiency_min
        while zeta > 0:
            levels.append(zeta)
            zeta -= self.efficiency_step
        return (*levels, 0.0)


class WeightedFairQueuing(AllocationRule):
    """Shares of the pool by class; FIFO within a class."""

    keeps_running = True

    def __init__(self, config: WfqConfig) -> None:
        self.config = config
        self._efficiencies = config.efficiencies()
        self._caps: dict[tuple[SpeedUp, int], tuple[tuple[float, ...], tuple[float, ...]]] = {}

    def admit(self, job: ActiveJob) -> None:
        """Put a job into its size class, where it stays, and note how many GPUs it uses how efficiently."""
        job.size_class = bisect_left(self.config.thresholds_s, job.service_s)
        key = (job.speed_up, job.demand)
        levels = self._caps.get(key)
        if levels is None:
            caps = tuple(
                float(job.speed_up.efficient_gpus(job.demand, zeta) if zeta > 0 else job.demand)
                for zeta in self._efficiencies
            )
            levels = self._caps[key] = caps, tuple(job.speed_up.at(cap) for cap in caps)
        job.caps, job.cap_rates = levels

    def allocate(self, jobs: Sequence[ActiveJob], pool: Pool, now_s: float) -> list[float]:
        """Split the pool over classes, then each class' share over its jobs."""
        queues: list[list[ActiveJob]] = [[] for _ in self.config.weights]
        for job in jobs:
            queues[job.size_class].append(job)
        given: dict[ActiveJob, float] = {}
        demands = [sum(job.demand for job in queue) for queue in queues]
        shares = water_fill(self.config.weights, demands, pool.gpus)
        if pool.whole:
            given = whole_shares(queues, shares, pool.gpus, now_s)
            return [given[job] for job in jobs]
        for queue, share in zip(queues, shares, strict=True):
            given.update(zip(queue, self._within(queue, share), strict=True))
        return [given[job] for job in jobs]

    def allocator(self, pool: Pool) -> Allocator:
        """Keep the queues from event to event."""
        if pool.whole:
            return RigidQueues(self, self.config.weights, pool)
        return FairQueues(self.config.weights, pool)

    def _within(self, queue: Sequence[ActiveJob], share: float) -> list[float]:
        """Serve a queue from the front, capped; relax the caps until the share is used."""
        given: list[float] = []
        for level in range(len(self._efficiencies)):
            left = share
            given = []
            for job in queue:
                gpus = min(left, job.caps[level]) if left > NO_GPUS else 0.0
                given.append(gpus)
                left -= gpus
            if left <= NO_GPUS:
                break
        return given
