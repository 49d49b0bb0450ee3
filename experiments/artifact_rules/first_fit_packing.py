"""How the Lucid artifact's simulator packs jobs: before it looks for idle GPUs, with the first partner."""

from collections.abc import Sequence
from math import inf

from experiments.artifact_rules.binder import AffineJobpairBinder
from simulator.actions import Action, Colocate, Start
from simulator.job_view import JobView
from simulator.snapshot import NodePool
from simulator.stages.indolent_settings import IndolentSettings


def may_share(binder: AffineJobpairBinder, job: JobView) -> bool:
    """Say whether a job may share its GPUs at all."""
    profile = job.profile
    return (
        job.partner is None
        and job.shareable
        and profile is not None
        and profile.sharing_score is not None
        and binder.is_measured(job)
    )


class _Candidates:
    """Jobs of one GPU demand that may get a partner, in the order of starts.

    The least score and memory and the longest estimate among them show at once that most jobs find none.
    """

    __slots__ = ("jobs", "least_memory_mib", "least_score", "longest_s")

    def __init__(self, jobs: list[JobView]) -> None:
        self.jobs = jobs
        self.least_score = self.least_memory_mib = inf
        self.longest_s = 0.0
        for job in jobs:
            self._widen(job)

    def _widen(self, job: JobView) -> None:
        profile = job.profile
        if profile is not None and profile.sharing_score is not None:
            self.least_score = min(self.least_score, profile.sharing_score)
            self.least_memory_mib = min(self.least_memory_mib, profile.gpu_mem_mib)
            self.longest_s = max(self.longest_s, job.estimate_s)

    def with_one_more(self, job: JobView) -> "_Candidates":
        self.jobs.append(job)
        self._widen(job)
        return self

    def without(self, job: JobView) -> "_Candidates":
        self.jobs.remove(job)
        return _Candidates(self.jobs)

    def may_suit(self, job: JobView, capacity: int, settings: IndolentSettings) -> bool:
        mine = job.profile
        if mine is None or mine.sharing_score is None or mine.sharing_score + self.least_score > capacity:
            return False
        if not self.least_memory_mib < settings.gpu_memory_mib - mine.gpu_mem_mib:
            return False
        ratio_max = settings.priority_ratio_max
        return not ratio_max or self.longest_s >= job.estimate_s / ratio_max


def pack_before_idle(
    pool: NodePool, binder: AffineJobpairBinder, capacity: int, now_s: float
) -> list[Action]:
    """Pack each waiting job if a partner is allowed, else start it on idle GPUs; go on past failures.

    A job that starts in this very walk may be the partner of a later one.
    """
    if not len(pool.queue):
        return []
    actions: list[Action] = []
    plan = pool.plan()
    node = plan.gpus_per_node
    running = binder.partners(pool, capacity, now_s)
    partners: dict[int, _Candidates] = {}  # of the demands that were asked for
    hopeless: set[int] = set()  # demands for which no GPUs are idle: in this walk there will be none
    for job in pool.queue:
        gpus = job.gpus
        candidates = partners.get(gpus)
        if candidates is None and gpus in running:
            candidates = partners[gpus] = _Candidates(running.pop(gpus))
        if candidates is not None and candidates.may_suit(job, capacity, binder.settings):
            partner = binder.best(job, candidates.jobs, capacity)
            if partner is not None:
                actions.append(Colocate(job, partner))
                partners[gpus] = candidates.without(partner)
                continue
        if gpus in hopeless:
            continue
        placement = plan.place(gpus)
        if placement is None:
            hopeless.add(gpus)
            continue
        actions.append(Start(job, placement))
        if gpus <= node and may_share(binder, job):
            partners[gpus] = _Candidates([job]) if candidates is None else candidates.with_one_more(job)
    return actions


class FirstPartnerBinder(AffineJobpairBinder):
    """The first running job, in the order of starts, that memory, sharing scores and priorities allow."""

    def partners(self, pool: NodePool, capacity: int, now_s: float) -> dict[int, list[JobView]]:
        """Return the running jobs that may share, by GPU demand, in the order of their start."""
        found: dict[int, list[JobView]] = {}
        node = pool.free.gpus_per_node  # what one node can hold is on one
        for job in [job for job in pool.running if job.partner is None and job.gpus <= node]:
            if may_share(self, job):
                found.setdefault(job.gpus, []).append(job)
        return found

    def best(self, job: JobView, candidates: Sequence[JobView], capacity: int) -> JobView | None:
        """Return the first candidate that no rule forbids."""
        mine = job.profile
        if mine is None or mine.sharing_score is None or not self.is_measured(job):
            return None
        memory_mib = self.settings.gpu_memory_mib - mine.gpu_mem_mib
        score = capacity - mine.sharing_score
        ratio_max = self.settings.priority_ratio_max
        needed_estimate_s = job.estimate_s / ratio_max if ratio_max else 0.0
        for candidate in candidates:
            theirs = candidate.profile
            if (
                theirs is not None
                and theirs.sharing_score is not None
                and theirs.sharing_score <= score
                and theirs.gpu_mem_mib < memory_mib
                and candidate.estimate_s >= needed_estimate_s
            ):
                return candidate
        return None
