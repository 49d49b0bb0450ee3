"""The seam of elastic policies: which job holds how many GPUs of a pool.

A rule says in `allocate` which job gets what, from all active jobs: plainly, and the same at every call. A
simulation asks an `Allocator`, which gets what comes and ends, and returns only what changes. A rule
overrides `AllocationRule.allocator` where its answer can be kept up to date, or its future predicted, in less
time than by asking it anew at each event; whatever that returns must agree with `allocate` exactly.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from parts.elastic.active_job import ActiveJob


@dataclass(frozen=True)
class Pool:
    """The GPUs that a rule hands out, in fractions as the reference does, or whole as a cluster needs."""

    gpus: int
    whole: bool = False


class AllocationRule(ABC):
    """A rule of allocation. It keeps no record: what it says follows from the jobs, the time and the pool.

    `arrivals_never_delay`: what is submitted later never changes what an earlier job gets, so that the
    simulation itself shows when each job ends. `keeps_running`: in whole GPUs, what runs keeps its minimum.
    `settles_at_events`: it orders jobs by what they have left, where rounding tells equal ones apart, so that
    work is summed up event by event, as in PCS' simulator. `at_events_only`: see `Policy`.
    """

    oracle: ClassVar[bool] = True  # it reads true sizes, as all of PCS' rivals but FIFO do
    arrivals_never_delay: ClassVar[bool] = False
    keeps_running: ClassVar[bool] = False
    settles_at_events: ClassVar[bool] = False
    at_events_only: ClassVar[bool] = False

    def admit(self, job: ActiveJob) -> None:  # noqa: B027  (most fix nothing)
        """Fix what is decided once, at submission."""

    @abstractmethod
    def allocate(self, jobs: Sequence[ActiveJob], pool: Pool, now_s: float) -> Sequence[float]:
        """Return the GPUs of each job; `jobs` are all that have not ended, in the order of submission.

        Never more than `pool.gpus` in all, nor more than a job's demand. In whole GPUs a job gets none or at
        least its minimum.
        """

    def next_change_s(self, jobs: Sequence[ActiveJob], pool: Pool, now_s: float) -> float | None:
        """When the answer could change although no job comes or ends; None: never."""
        return None

    def allocator(self, pool: Pool) -> "Allocator":
        """Return what keeps this rule's answer up to date in one simulation, from its start."""
        return PlainAllocator(self, pool)


class Allocator(ABC):
    """A rule at work in one pool. `active` are the jobs that have not ended, in the order of submission."""

    def __init__(self) -> None:
        self.active: dict[int, ActiveJob] = {}  # by ActiveJob.index

    def submit(self, job: ActiveJob) -> None:
        """Take note of a job that the rule has admitted."""
        self.active[job.index] = job

    def end(self, job: ActiveJob) -> None:
        """Take note that a job has ended."""
        del self.active[job.index]

    def holders(self) -> Iterable[ActiveJob]:
        """Return the jobs that hold GPUs."""
        return [job for job in self.active.values() if job.gpus]

    @abstractmethod
    def changes(self, now_s: float) -> Iterable[tuple[ActiveJob, float]]:
        """Return the jobs that are to hold other GPUs than they do, with what they are to hold."""

    def next_change_s(self, now_s: float) -> float | None:
        """When `changes` must be asked although no job comes or ends; None: never."""
        return None

    def predict_end_s(self, job: ActiveJob, now_s: float) -> float | None:
        """Return when an active job ends if nothing more is submitted; None: play the pool forward.

        Exactly what playing it forward shows, sooner. It is asked right after `changes` was, and changes
        nothing.
        """
        return None


class PlainAllocator(Allocator):
    """Asks the rule about all jobs, each time."""

    def __init__(self, rule: AllocationRule, pool: Pool) -> None:
        super().__init__()
        self.rule = rule
        self.pool = pool

    def changes(self, now_s: float) -> list[tuple[ActiveJob, float]]:
        """Compare what each job should hold with what it does."""
        jobs = list(self.active.values())
        given = self.rule.allocate(jobs, self.pool, now_s)
        return [(job, gpus) for job, gpus in zip(jobs, given, strict=True) if gpus != job.gpus]

    def next_change_s(self, now_s: float) -> float | None:
        """Ask the rule."""
        return self.rule.next_change_s(list(self.active.values()), self.pool, now_s)
