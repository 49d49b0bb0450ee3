"""One job and what has happened to it so far: what policies read, and what only the engine writes."""

from copy import deepcopy
from enum import Enum
from operator import attrgetter
from typing import Any

from simulator.cluster.placement import NOWHERE, Placement
from simulator.workload.job import Job, JobProfile


class ElasticRun:
    """An elastic job's books beside its view: what a rigid job has no need of.

    GPU time is kept as what it was *spared*: its full demand for as long as it ran, less what it held. While
    it pauses (it was resized, or resumes after a preemption) it holds its GPUs and makes no progress.
    """

    __slots__ = ("pause_s", "resizes", "spared_gpu_s", "spared_lost_gpu_s", "spared_overhead_gpu_s")

    def __init__(self) -> None:
        self.pause_s = 0.0  # still to pass before it makes progress, as of `JobView.run_since_s`
        self.resizes = 0  # times that its GPUs changed while it ran
        self.spared_gpu_s = 0.0  # as of `JobView.run_since_s`
        self.spared_overhead_gpu_s = 0.0  # of that, in pauses
        self.spared_lost_gpu_s = 0.0  # of that, in runs that were thrown away

    def copy(self) -> "ElasticRun":
        """Return a copy."""
        other = ElasticRun.__new__(ElasticRun)
        for name in ElasticRun.__slots__:
            setattr(other, name, getattr(self, name))
        return other

    def paused_of(self, elapsed_s: float) -> float:
        """Return how much of the time since the last settlement was pause (s)."""
        return min(self.pause_s, elapsed_s)

    def pass_time(self, elapsed_s: float, spared_gpus: int) -> float:
        """Count time in which it held so many GPUs less than it could use; return the pause in it (s)."""
        paused_s = min(self.pause_s, elapsed_s)
        self.pause_s -= paused_s
        self.spared_gpu_s += spared_gpus * elapsed_s
        self.spared_overhead_gpu_s += spared_gpus * paused_s
        return paused_s

    def pause(self, cost_s: float) -> None:
        """Hold it up for so long from now on; a pause that is not over begins anew, and is not added."""
        self.pause_s = max(self.pause_s, cost_s)

    def lose_progress(self) -> None:
        """All that it held GPUs for is lost, pauses included."""
        self.pause_s = 0.0
        self.spared_lost_gpu_s = self.spared_gpu_s
        self.spared_overhead_gpu_s = 0.0


class RunState(Enum):
    """Where a job is in its life."""

    SUBMITTED = "submitted"  # not seen yet
    PENDING = "pending"
    HELD = "held"  # waits beside the queue: its virtual cluster is smaller than it at present
    RUNNING = "running"
    COMPLETED = "completed"
    CANCELLED = "cancelled"  # withdrawn by its user


class JobView:
    """A job and what has happened to it so far. Policies read it; the engine writes it.

    Progress is stored as of `run_since_s` and extrapolated on demand, so an event costs nothing for the jobs
    that it does not touch.
    """

    __slots__ = (
        "attained_s",
        "colocated_s",
        "elastic",
        "end_time_s",
        "estimated_duration_s",
        "failures",
        "first_start_time_s",
        "flexible",
        "gpus",
        "home",
        "index",
        "job",
        "joined",
        "lost_s",
        "nodes",
        "overhead_s",
        "partner",
        "placement",
        "pool",
        "predicted_end_time_s",
        "preemptions",
        "profile",
        "profiled",
        "queue_entry",
        "queued_since_s",
        "queuing_delay_s",
        "remaining_s",
        "run_limit_s",
        "run_since_s",
        "shareable",
        "speed",
        "start_time_s",
        "state",
        "submit_time_s",
        "unstable",
        "version",
        "was_colocated",
    )

    def __init__(self, job: Job, index: int) -> None:
        self.job = job
        self.home = job.virtual_cluster  # the pool that serves its virtual cluster
        # The nodes of its pool that it may use, bit *i* for node *i*; None: all.
        self.nodes: int | None = None
        self.index = index  # position in the workload
        # Its demand of what its pool serves: GPUs, or CPU cores for a CPU job. An elastic job may hold less.
        self.gpus = job.gpus or job.cpus
        self.elastic = None if job.elasticity is None and job.workers is None else ElasticRun()
        # What a policy believes now; a live scheduler estimates a waiting job anew at each decision.
        self.estimated_duration_s = job.estimated_duration_s
        # What is measured of it, as a value; a policy decides from when on it may know it.
        self.profile: JobProfile | None = job.profile
        self.unstable = False  # its utilisation has been seen to change
        self.submit_time_s = job.submit_time_s
        # At full speed (on all of `gpus`, alone), as of run_since_s; a rigid job's overheads are included.
        self.remaining_s = job.duration_s
        self.attained_s = 0.0  # seconds for which it held its GPUs, as of run_since_s
        self.run_since_s = 0.0
        self.speed = 1.0
        self.state = RunState.SUBMITTED
        self.pool = ""
        self.placement: Placement | None = None
        self.flexible: Placement = NOWHERE  # the part of it that flexible workers hold
        self.partner: JobView | None = None
        self.joined = False  # it came to its partner's GPUs, and not its partner to its
        self.shareable = True  # in this run: a partner may come, or its GPUs may change
        self.start_time_s = 0.0  # of the present run
        self.run_limit_s: float | None = None  # of the present run
        self.queued_since_s = job.submit_time_s
        self.queuing_delay_s = 0.0
        self.first_start_time_s: float | None = None
        self.end_time_s: float | None = None
        self.predicted_end_time_s: float | None = None  # as predicted when it was submitted
        self.preemptions = 0
        self.failures = 0  # times that its node failed under it
        self.profiled = False
        self.was_colocated = False
        self.colocated_s = 0.0
        self.overhead_s = 0.0
        self.lost_s = 0.0  # run time of which the progress was thrown away
        self.queue_entry: tuple[object, int, JobView] | None = None
        self.version = 0

    def __repr__(self) -> str:
        return f"<{self.job.job_id} {self.gpus} GPUs {self.state.value}>"

    def copy(self) -> "JobView":
        """Return a copy that is in no queue; its partner is still the partner of the original."""
        other = JobView.__new__(JobView)
        for put, value in zip(_setters, _everything_of(self), strict=True):
            put(other, value)
        other.queue_entry = None
        if self.elastic is not None:
            other.elastic = self.elastic.copy()
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> "JobView":
        """Return the job itself once it has ended, when nothing happens to it any more; else a copy.

        Policies remember jobs that have ended, and what a policy remembers is copied for each prediction.
        """
        if self.state in (RunState.COMPLETED, RunState.CANCELLED):
            return self
        other = memo[id(self)] = self.copy()
        other.partner = deepcopy(self.partner, memo)
        return other

    @property
    def estimate_s(self) -> float:
        """The estimated duration. Policies that need one declare `needs_estimates`; the engine checks."""
        estimate = self.estimated_duration_s
        if estimate is None:
            raise ValueError(f"job {self.job.job_id!r} has no estimated duration")
        return estimate

    @property
    def pending_since_s(self) -> float:
        """When a job that waits would have begun to, had it waited without a break."""
        return self.queued_since_s - self.queuing_delay_s

    @property
    def request_s(self) -> float:
        """The run time that its user asked for (s): its time limit, else the estimate that came with it."""
        limit_s = self.job.time_limit_s
        return self.estimate_s if limit_s is None else limit_s

    @property
    def held_gpus(self) -> int:
        """GPUs (or cores) that it holds now; those of a pair are held by both."""
        return 0 if self.placement is None else self.placement.gpus

    @property
    def counts_for_pair(self) -> bool:
        """Whether its GPUs count where those of a pair, which holds them together, count once."""
        return self.partner is None or self.index < self.partner.index

    @property
    def min_gpus(self) -> int:
        """The least that it runs on: its demand, unless it is elastic; one GPU at least."""
        if self.job.workers is not None:
            return self.job.workers.base_gpus
        elasticity = self.job.elasticity
        return self.gpus if elasticity is None else max(1, elasticity.min_gpus)

    @property
    def resizes(self) -> int:
        """Times that its GPUs changed while it ran."""
        return 0 if self.elastic is None else self.elastic.resizes

    def speed_on(self, gpus: int) -> float:
        """Return its speed, alone, on so many GPUs (none on loan); 1 on all that it asks for."""
        workers = self.job.workers
        if workers is not None:
            return workers.rate(gpus / workers.gpus_each) / workers.rate(workers.most)
        elasticity = self.job.elasticity
        if elasticity is None or gpus == self.gpus:
            return 1.0
        return elasticity.speed_up.at(gpus) / elasticity.speed_up.at(self.gpus)

    def remaining_at(self, now_s: float) -> float:
        """The true remaining run time at full speed (s). Only an oracle reads it."""
        if self.state is not RunState.RUNNING:
            return self.remaining_s
        elapsed_s = now_s - self.run_since_s
        if self.elastic is not None:
            elapsed_s -= self.elastic.paused_of(elapsed_s)
        return max(0.0, self.remaining_s - elapsed_s * self.speed)

    def attained_at(self, now_s: float) -> float:
        """Seconds for which it has held its GPUs so far, overheads included."""
        if self.state is not RunState.RUNNING:
            return self.attained_s
        return self.attained_s + (now_s - self.run_since_s)


def outlasting(estimate_s: float, done_s: float) -> float:
    """Return how long a job is believed to run that has run for so long: what it outlived was too short.

    It is doubled until it is not (as EASY takes it); the estimate is above 0.
    """
    while estimate_s <= done_s:
        estimate_s *= 2
    return estimate_s


_everything_of = attrgetter(*JobView.__slots__)
_setters = [getattr(JobView, name).__set__ for name in JobView.__slots__]
