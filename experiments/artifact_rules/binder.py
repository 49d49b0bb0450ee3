"""The affine-jobpair binder as the Lucid artifact has it, job by job along the queue.

Our own packing (`simulator.stages.indolent_packing`) follows the paper's section 3.3 with what it remembers.
"""

from collections.abc import Sequence

from simulator.actions import Action, Colocate, Start
from simulator.job_view import JobView
from simulator.snapshot import NodePool
from simulator.stages.indolent_settings import IndolentSettings


class AffineJobpairBinder:
    """Indolent packing: only pairs that are unlikely to hurt each other."""

    def __init__(self, settings: IndolentSettings) -> None:
        self.settings = settings

    def is_measured(self, job: JobView) -> bool:
        """Say whether a job's profile may be used."""
        return job.profiled or self.settings.packs_unmeasured

    def partners(self, pool: NodePool, capacity: int, now_s: float) -> dict[int, list[JobView]]:
        """Return the running jobs that may share, by GPU demand, in the order of their start.

        Partners have equal GPU demand, so a job that was too large for the profiler never meets a measured
        one: only profiled jobs are candidates.
        """
        candidates: dict[int, list[JobView]] = {}
        node = pool.free.gpus_per_node  # what one node can hold is on one
        for job in pool.running:
            profile = job.profile
            if (
                job.partner is None
                and job.shareable
                and profile is not None
                and profile.sharing_score is not None
                and profile.sharing_score <= capacity
                and job.gpus <= node
                and self.is_measured(job)
                and job.estimate_s - job.attained_at(now_s) >= self.settings.partner_min_remaining_s
            ):
                candidates.setdefault(job.gpus, []).append(job)
        return candidates

    def best(self, job: JobView, candidates: Sequence[JobView], capacity: int) -> JobView | None:
        """Return the partner with the lowest sharing score that no packing rule forbids, if there is one."""
        mine = job.profile
        if mine is None or mine.sharing_score is None or not self.is_measured(job):
            return None
        memory_mib = self.settings.gpu_memory_mib - mine.gpu_mem_mib
        ratio_max = self.settings.priority_ratio_max
        needed_estimate_s = job.estimate_s / ratio_max if ratio_max else 0.0
        best: JobView | None = None
        best_score = capacity - mine.sharing_score + 1
        for candidate in candidates:
            theirs = candidate.profile
            assert theirs is not None and theirs.sharing_score is not None  # noqa: S101, PT018
            if (
                theirs.sharing_score < best_score
                and theirs.gpu_mem_mib < memory_mib
                and candidate.estimate_s >= needed_estimate_s
            ):
                best, best_score = candidate, theirs.sharing_score
                if not best_score:
                    break
        return best


def pack_after_idle(pool: NodePool, binder: AffineJobpairBinder, capacity: int, now_s: float) -> list[Action]:
    """Start each waiting job on idle GPUs, else pack it if a partner is allowed; go on past failures."""
    actions: list[Action] = []
    plan = pool.plan()
    partners: dict[int, list[JobView]] | None = None
    blocked: set[int] = set()
    for job in pool.queue:
        gpus = job.gpus
        if gpus not in blocked:
            placement = plan.place(gpus)
            if placement is not None:
                actions.append(Start(job, placement))
                continue
            blocked.add(gpus)
        if partners is None:
            partners = binder.partners(pool, capacity, now_s)
        candidates = partners.get(gpus)
        if candidates:
            partner = binder.best(job, candidates, capacity)
            if partner is not None:
                actions.append(Colocate(job, partner))
                candidates.remove(partner)
                if not candidates:
                    del partners[gpus]
        if not plan.total and not partners:
            break
    return actions
