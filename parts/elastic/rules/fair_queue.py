"""One queue of weighted fair queuing: the jobs of a size class in the order of submission."""

from math import inf

from parts.elastic.active_job import ActiveJob
from parts.elastic.rules.relaxing import lowest_level
from parts.elastic.rules.water_filling import NO_GPUS


class FairQueue:
    """Jobs are served from the front, so that those that hold GPUs are always the first `served` ones."""

    __slots__ = ("arrived", "demand", "dropped", "gone", "jobs", "level", "served", "share")

    def __init__(self) -> None:
        self.jobs: list[ActiveJob] = []
        self.demand = 0  # GPUs, of all its jobs
        self.share = 0.0  # GPUs, of the pool
        self.level = 0  # how far the caps are relaxed
        self.served = 0
        self.dropped: list[ActiveJob] = []  # lost all their GPUs lately
        self.arrived = 0  # jobs until now
        self.gone = 0  # jobs that have ended

    def append(self, job: ActiveJob) -> bool:
        """Add a job; returns whether that makes no difference to any job but those after it.

        If a job waits in front of it, the queue's demand exceeds its share anyway; and caps that are not
        relaxed stay so.
        """
        self.jobs.append(job)
        self.arrived += 1
        self.demand += job.demand
        if job.gpus:
            self.served = len(self.jobs)
        return self.level == 0 and len(self.jobs) - self.served >= 2

    def remove(self, job: ActiveJob) -> None:
        """Take out a job that has ended."""
        place = self.jobs.index(job)
        del self.jobs[place]
        self.gone += 1
        self.demand -= job.demand
        if place < self.served:
            self.served -= 1

    def serve(self, share: float, changes: list[tuple[ActiveJob, float]]) -> None:
        """Serve jobs from the front, capped, with the caps relaxed until the share is used."""
        self.share = left = share
        self.level = level = lowest_level(self.jobs, share)
        served = 0
        for job in self.jobs:
            if left <= NO_GPUS:
                break
            gpus = job.caps[level]
            if gpus > left:
                gpus = left
            if gpus != job.gpus:
                changes.append((job, gpus))
            left -= gpus
            served += 1
        self.dropped = self.done_without_gpus()
        for job in self.jobs[served : self.served]:
            if job.gpus:
                changes.append((job, 0.0))
                self.dropped.append(job)
        self.served = served

    def done_without_gpus(self) -> list[ActiveJob]:
        """Return the jobs that lost their GPUs at the very moment at which their work was done."""
        return [job for job in self.dropped if not job.gpus and job.end_at_s < inf]
