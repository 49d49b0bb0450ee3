"""The resource orchestrator (Lucid section 3.4): order of service, and exclusive consolidated placement."""

from collections.abc import Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace
from typing import Any, Literal

import numpy as np

from foundation.checked_settings import CheckedSettings
from simulator.actions import Start
from simulator.cluster.placement import FreeGpus
from simulator.job_view import JobView
from simulator.mechanisms.overtaking_bound import OverdueFirst
from simulator.policy import RankByColumns
from simulator.snapshot import NodePool

# GPU-seconds that a job counts as, at least.
_LEAST_SERVICE = 1e-3


@dataclass(frozen=True)
class OrchestratorSettings(CheckedSettings):
    """The order of service.

    - `order`: what is served first. "service" is GPUs x estimated duration (Algorithm 2). "gpus" and
      "submission" know no duration: the ablation without estimator (section 4.5), which packs without regard
      to run times as well.
    - `ageing_s`: with the order "service", waiting so long counts as being smaller by the factor e; 0: the
      paper's order, which large jobs may wait under for as long as small ones come. No job is overtaken by
      one that came more than `ageing_s` x ln(ratio of their services) later.
    """

    order: Literal["service", "gpus", "submission"] = "service"
    ageing_s: float = 0.0


def _by_service(gpus: Any, estimate_s: Any, submit_time_s: Any) -> tuple[Any, ...]:
    return (gpus * estimate_s, submit_time_s)


def _by_gpus(gpus: Any, estimate_s: Any, submit_time_s: Any) -> tuple[Any, ...]:
    return (gpus, submit_time_s)


def _by_submission(gpus: Any, estimate_s: Any, submit_time_s: Any) -> tuple[Any, ...]:
    return (submit_time_s,)


_RANKINGS: Mapping[str, RankByColumns] = {
    "service": _by_service,
    "gpus": _by_gpus,
    "submission": _by_submission,
}


def _by_aged_service(ageing_s: float) -> RankByColumns:
    """Rank by service / e^(wait / ageing_s): its logarithm, less what all waiting jobs have in common."""

    def rank(gpus: Any, estimate_s: Any, submit_time_s: Any) -> tuple[Any, ...]:
        service = np.maximum(gpus * estimate_s, _LEAST_SERVICE)
        return (np.log(service) + submit_time_s / ageing_s, submit_time_s)

    return rank


class ResourceOrchestrator:
    """Ranks jobs, and starts those that find idle GPUs."""

    def __init__(self, settings: OrchestratorSettings) -> None:
        self.settings = settings
        # Ranks jobs in their virtual cluster; then by submission.
        self.rank = _RANKINGS[settings.order]
        if settings.order == "service" and settings.ageing_s:
            self.rank = _by_aged_service(settings.ageing_s)
        self._knows_run_times = settings.order == "service"

    def priority(self, job: JobView) -> tuple[float, ...]:
        """Rank one job."""
        return self.rank(job.gpus, job.estimate_s if self._knows_run_times else None, job.submit_time_s)

    def start_what_fits(self, pool: NodePool) -> list[Start]:
        """Start queued jobs in the queue's order, passing over those that do not fit.

        Looks at each GPU demand in the queue once more than jobs of it start: what does not fit now fits for
        no job of equal demand.
        """
        free = pool.free
        free_gpus = free.total
        if not free_gpus:
            return []
        if pool.masks:
            return _start_on_shared_nodes(pool)
        if pool.queue.length == 1:
            return _start_lone(pool.queue.first, free)
        heads: list[tuple[Any, Any]] = []
        for gpus, part in pool.queue.by_gpus().items():
            if gpus <= free_gpus and free.find(gpus) is not None:
                jobs = iter(part)
                heads.append((next(jobs).queue_entry, jobs))
        heapify(heads)
        plan: FreeGpus | None = None
        actions: list[Start] = []
        while heads:
            entry, jobs = heads[0]
            job = entry[2]
            if plan is None:
                placement = free.find(job.gpus)
                if placement is not None and free_gpus > job.gpus:
                    plan = free.copy()
                    plan.take(placement)
            else:
                placement = plan.place(job.gpus)
            if placement is None:
                heappop(heads)
                continue
            actions.append(Start(job, placement))
            free_gpus -= job.gpus
            if not free_gpus:
                break
            following = next(jobs, None)
            if following is None:
                heappop(heads)
            else:
                heapreplace(heads, (following.queue_entry, jobs))
        return actions

    def start_around(self, pool: NodePool, overdue: OverdueFirst, now_s: float) -> list[Start]:
        """Start queued jobs likewise where that does not delay an overdue one, after those that it starts."""
        plan = overdue.plan
        actions = list(overdue.starts)
        if not plan.total and not overdue.keeps_back:
            return actions
        served = {start.job for start in actions}
        parts: list[tuple[Any, Any]] = []
        for part in pool.queue.by_gpus().values():
            jobs = iter(part)
            first = next((job for job in jobs if job not in served), None)
            if first is not None and (pool.masks or overdue.has_room(first, now_s)):
                parts.append((first.queue_entry, jobs))
        heapify(parts)
        while parts and (plan.total or overdue.keeps_back):
            entry, jobs = parts[0]
            job = entry[2]
            placement = plan.place(job.gpus, job.nodes) or overdue.place_beside(job, now_s)
            following = None
            if placement is not None:
                actions.append(Start(job, placement))
            if placement is not None or pool.masks:  # what does not fit for one may fit for another there
                following = next((job for job in jobs if job not in served), None)
            if following is None:
                heappop(parts)
            else:
                heapreplace(parts, (following.queue_entry, jobs))
        return actions


def _start_lone(job: JobView, free: FreeGpus) -> list[Start]:
    placement = free.find(job.gpus)
    return [] if placement is None else [Start(job, placement)]


def _start_on_shared_nodes(pool: NodePool) -> list[Start]:
    """Do so where virtual clusters share nodes: what does not fit for one may fit for another."""
    plan = pool.plan()
    starts = []
    refused: set[tuple[int, int | None]] = set()
    for job in pool.queue:
        demand = (job.gpus, job.nodes)
        if demand in refused:
            continue
        placement = plan.place(*demand)
        if placement is None:
            refused.add(demand)
            continue
        starts.append(Start(job, placement))
        if not plan.total:
            break
    return starts
