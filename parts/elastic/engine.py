"""Plays elastic jobs on one pool of GPUs, event by event, and predicts when each will have ended.

The order of things is that of PCS' authors' simulator: one event at a time, ends before a rule's own moments
before submissions, equal ends and equal submissions in the order of submission, and after each the rule of
allocation is asked anew. Times are rounded to a microsecond.
"""

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from math import inf, isfinite
from time import process_time

from foundation.errors import BadInputError
from foundation.progress import Progress, silent
from parts.elastic.active_job import ActiveJob, ActiveJobCount, to_microsecond
from parts.elastic.allocation import AllocationRule, Allocator, PlainAllocator, Pool
from simulator.actions import PolicyError
from simulator.workload.job import Job
from simulator.workload.workload import Workload

PROGRESS_EVERY = 250  # completed jobs
STALE_ENDS = 256  # ends that no longer hold are swept out when they are more than this and than half
Predictor = Callable[["ElasticSimulation", ActiveJob], float]


class ElasticSimulation:
    """One rule on one pool: look at `now_s` and `active`, `step()`, `run(until_s)`."""

    def __init__(
        self,
        workload: Workload,
        pool: Pool,
        rule: AllocationRule,
        *,
        active: Sequence[ActiveJob] = (),
        now_s: float = 0.0,
        predict: bool | Predictor = False,
        progress: Progress | None = None,
        name: str = "elastic",
    ) -> None:
        """Begin at `now_s` with `active` jobs, which may have run already, in the order of submission.

        `predict` predicts each job's end at its submission, as quickly as the rule allows, or in the way that
        is given. Raises BadInputError for a job that no GPUs of this pool could ever end.
        """
        if pool.gpus < 1:
            raise BadInputError(f"The pool has {pool.gpus} GPUs.", remedy="Give it one at least.")
        self.pool = pool
        self.rule = rule
        self.name = name
        self.now_s = to_microsecond(now_s)
        self.ended: list[ActiveJob] = []
        self.active_count = active[0].active_count if active else ActiveJobCount()
        self.cpu_s = 0.0
        self._to_come = workload.jobs
        self._submitted = 0
        self._first_index = active[-1].index + 1 if active else 0  # of the workload's jobs
        self._total = len(active) + len(workload)
        self._allocator: Allocator = rule.allocator(pool)
        self._ends: list[tuple[float, int, ActiveJob]] = []  # a heap; it holds ends that were put off, too
        self._predicts_at_end = predict is True and rule.arrivals_never_delay
        self._predictor: Predictor | None = None
        if callable(predict):
            self._predictor = predict
        elif predict and not rule.arrivals_never_delay:
            self._predictor = ElasticSimulation.predict_end_s
        self._progress = progress or silent
        self._wake_s = inf  # when the rule has to be asked although nothing happens
        for job in workload.jobs:
            _refuse_endless(job, pool)
        for last, active_job in enumerate(active, start=-1):
            _refuse_endless(active_job.job, pool)
            if active_job.active_count is not self.active_count or (
                last >= 0 and active[last].index >= active_job.index
            ):
                raise BadInputError(
                    f"Active job {active_job!r} is out of order, or has another ActiveJobCount.",
                    remedy="Give active jobs by ascending index, all with the same ActiveJobCount.",
                )
            rule.admit(active_job)
            self._allocator.submit(active_job)
            if active_job.end_at_s < inf:
                heappush(self._ends, (active_job.end_at_s, active_job.index, active_job))
        if active:
            if not self.active_count.events:  # they see the beginning as an event
                self.active_count.events, self.active_count.jobs = 1, len(active)
            self._reallocate()

    @property
    def active(self) -> list[ActiveJob]:
        """The jobs that have been submitted and have not ended, in the order of submission."""
        return list(self._allocator.active.values())

    def state(self) -> "ElasticSimulation":
        """Return the pool as it is now, with nothing more to come: to be played forward.

        The copy asks the rule anew about all jobs at each event.
        """
        other = ElasticSimulation(Workload((), {}), self.pool, self.rule, now_s=self.now_s, name=self.name)
        other.active_count = ActiveJobCount(self.active_count.events, self.active_count.jobs)
        other._allocator = PlainAllocator(self.rule, self.pool)
        for job in self._allocator.active.values():
            copy = job.copy(other.active_count)
            other._allocator.submit(copy)
            if copy.end_at_s < inf:
                other._ends.append((copy.end_at_s, copy.index, copy))
        heapify(other._ends)
        other._wake_s = self._wake_s
        return other

    def run(self, until_s: float = inf) -> None:
        """Run to the end, or until the next event lies after `until_s`."""
        began = process_time()
        while self.step(until_s):
            pass
        self.cpu_s += process_time() - began

    def step(self, until_s: float = inf) -> bool:
        """Let the next event happen; returns False when there is none until `until_s`."""
        ends = self._ends
        while ends and ends[0][0] != ends[0][2].end_at_s:
            heappop(ends)
        end_s = ends[0][0] if ends else inf
        at = self._submitted
        submit_s = to_microsecond(self._to_come[at].submit_time_s) if at < len(self._to_come) else inf
        now = min(end_s, submit_s, self._wake_s)
        if now > until_s:
            return False
        active = self._allocator.active
        if now == inf:
            if active:
                first = next(iter(active.values()))
                raise PolicyError(f"{self.name} left {len(active)} jobs, the first: {first!r}.")
            return False
        self.now_s = now
        active_count = self.active_count
        active_count.events += 1
        active_count.jobs += len(active)
        ended = heappop(ends)[2] if end_s == now else None
        if self.rule.settles_at_events:
            for job in self._allocator.holders():
                if job.move_on(now):
                    heappush(ends, (job.end_at_s, job.index, job))
        arrived: ActiveJob | None = None
        if ended is not None:
            self._end(ended)
        elif submit_s == now < self._wake_s:  # the rule goes before a submission at the same moment
            arrived = ActiveJob(self._to_come[at], self._first_index + at, active_count)
            self._submitted += 1
            self.rule.admit(arrived)
            self._allocator.submit(arrived)
            # The first of the counts that it sees is that with itself.
            arrived.count_before = (active_count.events - 1, active_count.jobs - len(active))
        self._reallocate()
        if arrived is not None and self._predictor is not None:
            arrived.predicted_end_time_s = self._predictor(self, arrived)
        return True

    def predict_end_s(self, job: ActiveJob) -> float:
        """Return when an active job will have ended if nothing more is submitted: JCTpred, the quick way."""
        end_s = self._allocator.predict_end_s(job, self.now_s)
        return play_forward(self, job) if end_s is None else end_s

    def _end(self, job: ActiveJob) -> None:
        job.end(self.now_s, self.pool.gpus)
        job.end_at_s = inf
        if self._predicts_at_end:
            job.predicted_end_time_s = self.now_s
        self._allocator.end(job)
        self.ended.append(job)
        if not len(self.ended) % PROGRESS_EVERY or len(self.ended) == self._total:
            self._progress(len(self.ended), self._total, self.name)

    def _reallocate(self) -> None:
        now = self.now_s
        ends = self._ends
        for job, gpus in self._allocator.changes(now):
            job.hold(gpus, now)
            if job.end_at_s < inf:
                heappush(ends, (job.end_at_s, job.index, job))
        if len(ends) > STALE_ENDS and len(ends) > 2 * len(self._allocator.active):
            self._ends = [entry for entry in ends if entry[0] == entry[2].end_at_s]
            heapify(self._ends)
        wake_s = self._allocator.next_change_s(now)
        self._wake_s = inf if wake_s is None else to_microsecond(wake_s)


def play_forward(simulation: ElasticSimulation, job: ActiveJob) -> float:
    """Return when a job will have ended if nothing more is submitted (PCS, section 3.4: JCTpred).

    Copies the pool and plays it: what every quicker predictor must equal.
    """
    ahead = simulation.state()
    played = next(copy for copy in ahead.active if copy.index == job.index)
    while played.end_time_s is None:
        if not ahead.step():
            raise PolicyError(f"{simulation.name} would never end {job!r}.")
    return played.end_time_s


def _refuse_endless(job: Job, pool: Pool) -> None:
    """Raise BadInputError for a job that this pool cannot run."""
    least = 0 if not pool.whole else job.gpus if job.elasticity is None else job.elasticity.min_gpus
    if job.gpus < 1 or least > pool.gpus or (job.elasticity is None and not isfinite(job.duration_s)):
        raise BadInputError(
            f"Job {job.job_id!r} asks for {job.gpus} GPUs, {least} at least, of a pool of {pool.gpus}.",
            remedy="Leave it out, or give the pool more GPUs.",
        )
