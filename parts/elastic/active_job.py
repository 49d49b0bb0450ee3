"""A job that has been submitted to a pool and has not ended."""

from math import inf

from simulator.workload.job import Job
from simulator.workload.speed_up import Elasticity, SpeedUp


def to_microsecond(time_s: float) -> float:
    """Round a time to a microsecond: at equal times the order of events is settled by rules, not by noise."""
    return (time_s * 1e6 + 0.5) // 1 / 1e6


class ActiveJobCount:
    """Sums up how many jobs were active just before each event: what fair shares are measured by."""

    __slots__ = ("events", "jobs")

    def __init__(self, events: int = 0, jobs: int = 0) -> None:
        self.events = events
        self.jobs = jobs


class ActiveJob:
    """A job and what has happened to it so far. Rules of allocation read it; the simulation writes it.

    Work is measured in seconds on one GPU. `remaining_s` stands as of `since_s`, and `end_at_s` is when the
    job ends at its present rate. As a rule both change only when its rate does, so that an event costs
    nothing for the jobs that it does not touch (AllocationRule.settles_at_events).
    """

    __slots__ = (
        "active_count",
        "cap_rates",
        "caps",
        "count_before",
        "demand",
        "end_at_s",
        "end_time_s",
        "fair_duration_s",
        "first_start_time_s",
        "gpus",
        "held_gpu_s",
        "index",
        "job",
        "min_gpus",
        "predicted_end_time_s",
        "preemptions",
        "queuing_delay_s",
        "rate",
        "remaining_s",
        "resizes",
        "service_s",
        "since_s",
        "size_class",
        "speed_up",
        "submit_time_s",
    )

    def __init__(self, job: Job, index: int, active_count: ActiveJobCount) -> None:
        elasticity = job.elasticity or rigid(job)
        self.job = job
        self.index = index  # position in the workload: earlier submissions are lower
        self.demand = job.gpus  # the most GPUs that it makes use of
        self.min_gpus = elasticity.min_gpus
        self.speed_up: SpeedUp = elasticity.speed_up
        self.service_s = elasticity.service_s  # all of its work
        self.submit_time_s = to_microsecond(job.submit_time_s)
        self.remaining_s = elasticity.service_s
        self.since_s = self.submit_time_s
        self.gpus = 0.0  # that it holds now
        self.rate = 0.0  # seconds of work a second
        self.end_at_s = inf
        self.size_class = 0  # the queue of PCS that it is in
        # At each level of efficiency that its rule asks for, the most GPUs it may hold, and its rate on them.
        self.caps: tuple[float, ...] = ()
        self.cap_rates: tuple[float, ...] = ()
        self.active_count = active_count
        self.count_before = (active_count.events, active_count.jobs)
        self.resizes = 0  # times that its GPUs changed from some to others
        self.preemptions = 0  # times that it lost all
        self.held_gpu_s = 0.0  # GPUs x time, as of since_s; at the end, all
        self.queuing_delay_s = 0.0  # time without GPUs, as of since_s
        self.first_start_time_s: float | None = None
        self.end_time_s: float | None = None
        self.fair_duration_s: float | None = None  # `fair_time_s` as of its end
        self.predicted_end_time_s: float | None = None

    def __repr__(self) -> str:
        return f"<{self.job.job_id} {self.gpus:g} of {self.demand} GPUs>"

    def copy(self, active_count: ActiveJobCount) -> "ActiveJob":
        """Return a copy, to play forward, that counts another active_count from now on."""
        other = ActiveJob.__new__(ActiveJob)
        for name in ActiveJob.__slots__:
            setattr(other, name, getattr(self, name))
        other.active_count = active_count
        return other

    def remaining_at(self, now_s: float) -> float:
        """Work that is left (s on one GPU)."""
        return self.remaining_s - self.rate * (now_s - self.since_s)

    def mean_active_jobs(self) -> float:
        """Mean number of active jobs over the events that it has seen, itself included."""
        events, jobs = self.count_before
        return (self.active_count.jobs - jobs) / (self.active_count.events - events)

    def fair_time_s(self, pool_gpus: float) -> float:
        """Its run time on an equal share of the pool (Themis' fair finish time, as PCS' authors measure it).

        Linear: speed-up curves do not count in it.
        """
        return self.service_s / min(pool_gpus / self.mean_active_jobs(), self.demand)

    def move_on(self, now_s: float) -> bool:
        """Settle what a running job did until now, and return whether its end moves.

        What PCS' simulator does at every event: the time since the last is a whole number of microseconds,
        and so is the time to the end.
        """
        self._settle(now_s, to_microsecond(now_s - self.since_s))
        end_s = to_microsecond(now_s + to_microsecond(self.remaining_s / self.rate))
        moved = end_s != self.end_at_s
        self.end_at_s = end_s
        return moved

    def _settle(self, now_s: float, elapsed_s: float) -> None:
        if self.gpus:
            self.held_gpu_s += self.gpus * elapsed_s
            remaining = self.remaining_s - self.rate * elapsed_s
            self.remaining_s = remaining if remaining > 0.0 else 0.0
        else:
            self.queuing_delay_s += elapsed_s
        self.since_s = now_s

    def hold(self, gpus: float, now_s: float) -> None:
        """Hold so many GPUs from now on: settle what was done until now, and work out when it will end."""
        if not self.gpus:
            if self.first_start_time_s is None:
                self.first_start_time_s = now_s
        elif gpus:
            self.resizes += 1
        else:
            self.preemptions += 1
        self._settle(now_s, now_s - self.since_s)
        self.gpus = gpus
        self.rate = rate = self.speed_up.at(min(gpus, self.demand))
        remaining = self.remaining_s
        if rate:
            self.end_at_s = to_microsecond(now_s + remaining / rate)
        else:  # it may have lost its GPUs at the very moment at which its work was done
            self.end_at_s = inf if remaining else now_s

    def end(self, now_s: float, pool_gpus: float) -> None:
        """Take note that its work is done."""
        self.held_gpu_s += self.gpus * (now_s - self.since_s)
        self.remaining_s = 0.0
        self.end_time_s = now_s
        self.fair_duration_s = self.fair_time_s(pool_gpus)


def rigid(job: Job) -> Elasticity:
    """Describe a job that runs on all of its GPUs or not at all, in its run time."""
    return Elasticity(job.duration_s * job.gpus, SpeedUp.linear(job.gpus), min_gpus=job.gpus)
