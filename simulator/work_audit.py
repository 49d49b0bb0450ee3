"""Whether jobs that are given other GPUs do all of their work: reckoned anew from the GPUs that they hold."""

from math import inf

from foundation.errors import LucidError
from simulator.engine.simulation import Simulation
from simulator.job_view import JobView, RunState

TOLERANCE_S = 1e-6


class ConformanceError(LucidError):
    """A policy, or the engine, broke a rule that always holds."""


class _Work:
    """What an elastic job has done so far, as a watcher of its GPUs reckons."""

    __slots__ = ("due_s", "held", "lost_s", "paused_until_s", "preemptions", "resizes", "speed", "worked_s")

    def __init__(self) -> None:
        self.worked_s = 0.0  # at full speed
        self.paused_until_s = -inf
        self.due_s: float | None = None  # pause that it owes when it resumes
        self.held = 0
        self.speed = 0.0
        self.resizes = 0
        self.preemptions = 0
        self.lost_s = 0.0


class WorkAudit:
    """Reckons the work of elastic jobs, and of jobs in workers, from what they hold moment by moment."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._costs = simulation.policy.costs
        self._work: dict[JobView, _Work] = {}
        for job in simulation.jobs:
            if job.elastic is None:
                continue
            self._work[job] = work = _Work()
            work.worked_s = job.job.duration_s - job.remaining_s
            work.resizes, work.preemptions, work.lost_s = job.resizes, job.preemptions, job.lost_s
            if job.state is RunState.RUNNING:
                work.paused_until_s = job.run_since_s + job.elastic.pause_s
                work.worked_s = job.job.duration_s - job.remaining_at(simulation.now_s)
            else:
                work.due_s = job.elastic.pause_s

    def look(self, now_s: float) -> None:
        """Note what each job holds before a step."""
        for job, work in self._work.items():
            work.held = job.held_gpus
            work.speed = self.speed_of(job) if work.held else 0.0

    def speed_of(self, job: JobView) -> float:
        """Return the speed of a job on what it holds: of workers, three (say) on loan are worth one."""
        workers, service = job.job.workers, self._simulation.lender
        if workers is None:
            return job.speed_on(job.held_gpus)
        pool = self._simulation.pools[job.pool]
        own = loaned = 0.0
        for node, gpus in job.placement or ():
            if service is not None and pool.is_lent_by(service.name, node):
                loaned += gpus / workers.gpus_each / service.loaned_workers_per_worker
            else:
                own += gpus / workers.gpus_each
        mixed = service.mixed_speed if service is not None and own and loaned else 1.0
        return mixed * workers.rate(own + loaned) / workers.rate(workers.most)

    def compare(self, before_s: float, now_s: float) -> None:
        """Reckon what was done in a step; raises ConformanceError when a job ends too early or too late."""
        for job, work in list(self._work.items()):
            if work.held:
                passed_s = max(0.0, now_s - max(before_s, work.paused_until_s))
                work.worked_s += passed_s * work.speed
            if job.state is RunState.COMPLETED:
                slack_s = TOLERANCE_S * max(1.0, now_s)
                held_on = self._costs.completion_s * work.speed  # no work, but the GPUs are held
                if not job.was_colocated and abs(work.worked_s - held_on - job.job.duration_s) > slack_s:
                    raise ConformanceError(
                        f"{self._simulation.name}: {job!r} ended at {now_s} s with {work.worked_s} s of work "
                        f"done, and had {job.job.duration_s} s to do."
                    )
            if job.state in (RunState.COMPLETED, RunState.CANCELLED):
                del self._work[job]
                continue
            if job.lost_s != work.lost_s:
                work.worked_s, work.lost_s, work.paused_until_s, work.due_s = 0.0, job.lost_s, -inf, None
                if job.preemptions != work.preemptions:
                    work.due_s = self._costs.restart_s
            elif job.preemptions != work.preemptions:
                cost_s = self._costs.preemption_of(work.held, self._simulation.cluster.gpus_per_node)
                resize_s = self._costs.resize_s if job.resizes != work.resizes else 0.0  # at the same moment
                work.due_s = max(work.paused_until_s - now_s, resize_s, cost_s)
            if job.state is RunState.RUNNING and work.due_s is not None:
                work.paused_until_s, work.due_s = job.start_time_s + work.due_s, None
            if job.resizes != work.resizes:
                work.paused_until_s = max(work.paused_until_s, now_s + self._costs.resize_s)
            work.resizes, work.preemptions = job.resizes, job.preemptions
