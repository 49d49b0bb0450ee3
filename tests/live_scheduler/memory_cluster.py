"""A cluster in memory that orders its queue as Slurm does: by submission (priority/basic) or by a formula."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from foundation.errors import ServiceUnavailableError
from live_scheduler.adapter import (
    Advise,
    Change,
    PriorityRange,
    Refusal,
    RestrictToNode,
    ReturnToDefault,
    SetPriority,
    StartAfter,
    WriteBack,
)
from live_scheduler.cluster_state import ClusterState, EndedJob, LiveJob, LiveNode

PRIORITIES = PriorityRange(10_000, 2_000_000_000)
TOP = 4_294_901_760
NODES = (LiveNode("n1", 8, 0, True, ("vc1",)),)


@dataclass
class MemoryCluster:
    """`computed`: priorities are 1000 + the GPUs asked for; else each job gets one less than the last.

    `fails_after`: so many more single changes, then the cluster is away (None: it stays). `stuck` jobs cannot
    be changed; once two of them were tried, nothing further is reached.
    """

    computed: bool = False
    at_s: float = 1_000.0
    name: str = "memory"
    priorities: PriorityRange = PRIORITIES
    jobs: dict[str, LiveJob] = field(default_factory=dict)
    advice: dict[str, str] = field(default_factory=dict)
    fails_after: int | None = None
    away: bool = False
    stuck: frozenset[str] = frozenset()
    asked: list[Change] = field(default_factory=list)
    writing_back: WriteBack | None = None
    _lowest: int = TOP
    _ids: int = 0

    def submit(self, gpus: int = 1, *, held: bool = False) -> str:
        self._ids += 1
        job = LiveJob(str(self._ids), "vc1", "vc1", gpus, self.at_s)
        priority = 0 if held else self._own_priority(job)
        self.jobs[job.job_id] = replace(job, priority=priority, held=held)
        return job.job_id

    def start(self, job_id: str) -> None:
        self.jobs[job_id] = replace(self.jobs[job_id], start_time_s=self.at_s)

    def end(self, job_id: str) -> None:
        del self.jobs[job_id]

    def hold(self, job_id: str) -> None:
        self.jobs[job_id] = replace(self.jobs[job_id], held=True, priority=0)

    def release(self, job_id: str) -> None:
        job = self.jobs[job_id]
        self.jobs[job_id] = replace(job, held=False, priority=self._own_priority(job))

    def order(self) -> list[str]:
        """The waiting jobs that may start, as they would be served; ties by age."""
        waiting = [job for job in self.jobs.values() if job.waiting and not job.held]
        waiting.sort(key=lambda job: (-(job.priority or 0), int(job.job_id)))
        return [job.job_id for job in waiting]

    # ClusterAdapter

    def read(self) -> ClusterState:
        self._answer()
        return ClusterState(self.at_s, tuple(self.jobs.values()), NODES)

    def ended(self, job_ids: Collection[str], since_s: float) -> list[EndedJob]:
        return []

    def ended_since(self, since_s: float) -> list[EndedJob]:
        return []

    def apply(self, changes: Sequence[Change]) -> list[Refusal]:
        refused: list[Refusal] = []
        for change in changes:
            if len(self.stuck.intersection(refusal.change.job_id for refusal in refused)) >= 2:
                refused.append(Refusal(change, "not reached", unreached=True))
                continue
            if self.fails_after is not None:
                self.fails_after -= 1
                self.away = self.fails_after < 0
            self._answer()
            self.asked.append(change)
            if why := self._make(change):
                refused.append(Refusal(change, why))
        return refused

    def own_priorities(self, jobs: Sequence[LiveJob]) -> Mapping[str, bool]:
        if self.computed:
            return {job.job_id: job.priority == self._own_priority(job) for job in jobs}
        return {job.job_id: self._lowest <= (job.priority or 0) <= TOP for job in jobs}

    def write_backs(self) -> WriteBack | None:
        self._answer()
        return self.writing_back

    def _make(self, change: Change) -> str:
        job = self.jobs.get(change.job_id)
        if job is None:
            return "Invalid job id specified"
        if job.job_id in self.stuck:
            return "not now"
        if isinstance(change, Advise):
            self.advice[job.job_id] = change.text
            return ""
        if not job.waiting or job.held:
            return "Job is no longer pending execution"
        if isinstance(change, SetPriority):
            assert self.priorities.least <= change.priority <= self.priorities.most
            self.jobs[job.job_id] = replace(job, priority=change.priority)
        elif isinstance(change, ReturnToDefault):
            known = change.priority if change.by_hand or not self.computed else None
            self.jobs[job.job_id] = replace(job, priority=self._own_priority(job) if known is None else known)
        elif isinstance(change, StartAfter):
            begin_s = self.at_s + change.delay_s if change.delay_s else None
            self.jobs[job.job_id] = replace(job, begin_time_s=begin_s)
        elif isinstance(change, RestrictToNode):
            self.jobs[job.job_id] = replace(job, pinned_to=change.node or "")
        else:
            raise NotImplementedError(change)
        return ""

    def _own_priority(self, job: LiveJob) -> int:
        if self.computed:
            return 1_000 + job.gpus - job.nice
        self._lowest -= 1
        return self._lowest

    def _answer(self) -> None:
        if self.away:
            raise ServiceUnavailableError("The cluster is away.")
