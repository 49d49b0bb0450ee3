"""Gandiva's growth: elastic jobs take what is free where they are while no job waits (OSDI '18)."""

from collections.abc import Sequence
from dataclasses import dataclass

from parts.lending.workers.draft import Draft, DraftedJob
from parts.lending.workers.scalable_job import ScalableJob
from parts.lending.workers.server_pools import ServerPool
from parts.lending.workers.settings import Order, WorkerSettings
from parts.lending.workers.worker_placement import WorkerKind
from parts.lending.workers.worker_policy import WorkerPolicy


@dataclass(frozen=True)
class GandivaSettings(WorkerSettings):
    """First come first served, and nothing on loan."""

    loaning: bool = False
    order: Order = "submission"


class Gandiva(WorkerPolicy):
    """Jobs start in order; while no job waits, those that run grow where they are, one worker at a time."""

    Settings = GandivaSettings

    def scale_out(self, draft: Draft, now_s: float) -> None:
        """Let jobs grow in the order of their starts, round after round.

        All workers that came so are dropped once a job waits, if only until now.
        """
        waited = len(draft.nodes.queue)
        if waited > len(draft.starting):
            return
        growing = [job for job in (*draft.running, *draft.starting) if job.workers.elastic]
        growing = [job for job in growing if job.pool is ServerPool.TRAINING]
        for job in growing if not waited else ():
            draft.keep(job, job.workers.most - job.workers.least)
        while growing:
            growing = [job for job in growing if _grows(draft, job)]

    def extra_workers(self, jobs: Sequence[ScalableJob], capacity_gpus: int) -> Sequence[int]:
        """Give none beside those of `scale_out`, which knows where they would be."""
        return [0] * len(jobs)


def _grows(draft: Draft, job: DraftedJob) -> bool:
    """Have a job grow by one worker, on its lowest-numbered server with room; False if it cannot."""
    gpus = job.workers.gpus_each
    if sum(job.flexible.values()) >= (job.workers.most - job.workers.least) * gpus:
        return False
    for server in sorted({*job.base, *job.flexible}):
        if draft.plan.take(server, WorkerKind.FLEXIBLE, gpus):
            job.flexible[server] = job.flexible.get(server, 0) + gpus
            return True
    return False
