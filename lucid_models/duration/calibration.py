"""Quantiles of run times that stay calibrated while habits change: offsets that started jobs tell.

A quantile q of a job's log run time is what the model says plus an offset: the quantile q of the residuals of
the jobs of its virtual cluster that started lately, those that still run among them (`residual_hazards`: by
how far they have run beyond what was said, they are known to be no shorter). Learning from ended jobs alone
would hear of the short ones first. A virtual cluster with few jobs is drawn to all jobs' offset (Mondrian
conformal prediction; Vovk et al. 2005, section 4.5), and all jobs' to none. What still misses for weeks
shifts the quantiles of all jobs (`lasting_misses`).

The jobs that a user has in flight were answered with the same knowledge and are mostly alike: the k-th of
them weighs k^-CROWDING of a job, as far as others have jobs in flight that speak instead.

Point estimates are the calibrated P50.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucid_models.duration.lasting_misses import LastingMisses
from lucid_models.duration.residual_hazards import EXPECTED, LEVELS, SHORTEST_S, offsets_from, place_of
from lucid_models.duration.residual_news import ResidualNews, RunningJob, RunningJobs

Floats = NDArray[np.float64]

CROWDING = 0.75
# Running jobs are looked at by the first event of every so many seconds of Unix time.
LOOK_EVERY_S = 600.0
NEVER_S = -1e15
# The least recently seen go first, and the jobs that were submitted first.
MAX_VIRTUAL_CLUSTERS = 2_000
MAX_AWAITED = 200_000


@dataclass(frozen=True, slots=True)
class AwaitedJob:
    """A job that has not ended, with its quantiles of LEVELS at its submission in log seconds: as the model
    `said`, and as they were `told`, with offsets; `owner`: "" if unknown.
    """

    virtual_cluster: str
    owner: str
    said: tuple[float, ...]
    told: tuple[float, ...]
    weight: float


class RunTimeCalibration:
    """The offsets now, and of each job that has not ended what was said at its submission."""

    def __init__(self) -> None:
        self.of_all = ResidualNews()
        self.of_clusters: list[ResidualNews] = []
        # Places in `of_clusters`, the least recently seen first.
        self.clusters: dict[str, int] = {}
        self.awaited: dict[str, AwaitedJob] = {}
        self.running = RunningJobs()
        self.lasting = LastingMisses()
        self.looked_s = NEVER_S
        # Of all jobs, as of the last look; what virtual clusters are drawn to.
        self.usual_hazards: Floats = EXPECTED
        self._in_flight: dict[str, int] = {}
        self._offsets: dict[int, tuple[float, ...]] = {}

    def offsets(self, virtual_cluster: str) -> tuple[float, ...]:
        """Offsets of log run time of a job of this virtual cluster, one a level; of a new one those of all
        jobs.
        """
        place = self.clusters.get(virtual_cluster, -1)
        offsets = self._offsets.get(place)
        if offsets is None:
            usual = self.usual_hazards
            offsets = offsets_from(usual if place < 0 else self.of_clusters[place].hazards(usual))
            self._offsets[place] = offsets
        return tuple(offset + shift for offset, shift in zip(offsets, self.lasting.shifts, strict=True))

    def offsets_of_jobs(self, virtual_clusters: Sequence[str]) -> Floats:
        """Offsets of jobs by their virtual clusters, shape (jobs, levels)."""
        offsets = {name: self.offsets(name) for name in set(virtual_clusters)}
        return np.array([offsets[name] for name in virtual_clusters]).reshape(-1, len(LEVELS))

    def told(self, virtual_cluster: str, said: Sequence[float]) -> tuple[float, ...]:
        """Quantiles as a job of this virtual cluster is told now, with offsets; they do not cross."""
        moved = (one + offset for one, offset in zip(said, self.offsets(virtual_cluster), strict=True))
        return tuple(itertools.accumulate(moved, max))

    def submitted(
        self, job_id: str, at_s: float, virtual_cluster: str, owner: str, said: Sequence[float]
    ) -> None:
        """A job was submitted (again) at `at_s` (Unix time), and its quantiles were said to be these."""
        self.look(at_s)
        self.withdrawn(job_id)
        mine = 1
        if owner:
            mine = self._in_flight.get(owner, 0) + 1
        others = len(self.awaited) + 1 - mine
        weight = min(mine, 1 + others) ** -CROWDING
        told = self.told(virtual_cluster, said)
        self.await_end(job_id, AwaitedJob(virtual_cluster, owner, tuple(said), told, weight))

    def started(self, job_id: str, at_s: float) -> None:
        """A job started; that it did so before, and a job that was not seen being submitted, are passed
        over.
        """
        self.look(at_s)
        job = self.awaited.get(job_id)
        if job is None or job_id in self.running:
            return
        place = self._place_of(job.virtual_cluster)
        own = self.of_clusters[place]
        self.of_all.start(job.weight)
        own.start(job.weight)
        self._offsets.pop(place, None)
        clocks = self.of_all.clock, own.clock
        self.running.add(job_id, RunningJob(at_s, job.said, job.weight, *clocks, place))

    def ended(self, job_id: str, at_s: float, duration_s: float) -> None:
        """A job ended; of one that was not seen being submitted nothing is learned."""
        self.look(at_s)
        if job_id not in self.awaited:
            return
        self.started(job_id, at_s)  # if nobody saw it start
        job = self._stop(job_id)
        logarithm = math.log(max(duration_s, SHORTEST_S))
        self.lasting.ended(self.awaited[job_id].told, logarithm)
        self._forget(job_id)
        places = [place_of(logarithm - said) for said in job.said]
        for news, clock in self._told_by(job):
            weight = news.weight_now(job.weight, clock)
            for level, place in enumerate(places):
                news.ended[level, place] += weight

    def withdrawn(self, job_id: str) -> None:
        """A job will not run (again)."""
        if job_id in self.running:
            self._stop(job_id)
        if job_id in self.awaited:
            self._forget(job_id)

    def look(self, at_s: float) -> None:
        """Take in how long jobs have run, if it is time to (LOOK_EVERY_S)."""
        if at_s // LOOK_EVERY_S <= self.looked_s // LOOK_EVERY_S:
            return
        self.looked_s = at_s
        self.running.count_passed(at_s, self.of_all, self.of_clusters)
        self.usual_hazards = self.of_all.hazards(EXPECTED)
        self._offsets = {}

    def await_end(self, job_id: str, job: AwaitedJob) -> None:
        """Note a job that is in flight; the one that was submitted first is forgotten if there are too
        many.
        """
        self.awaited[job_id] = job
        if job.owner:
            self._in_flight[job.owner] = self._in_flight.get(job.owner, 0) + 1
        if len(self.awaited) > MAX_AWAITED:
            self.withdrawn(next(iter(self.awaited)))

    def know_cluster(self, virtual_cluster: str, news: ResidualNews) -> None:
        """Take a virtual cluster as known, the most recently seen one."""
        if len(self.clusters) < MAX_VIRTUAL_CLUSTERS:
            self.clusters[virtual_cluster] = len(self.of_clusters)
            self.of_clusters.append(news)
            return
        place = self.clusters.pop(next(iter(self.clusters)))
        self.running.forget_place(place)
        self._offsets.pop(place, None)
        self.clusters[virtual_cluster] = place
        self.of_clusters[place] = news

    def copy(self) -> "RunTimeCalibration":
        """An independent copy."""
        twin = RunTimeCalibration()
        twin.of_all = self.of_all.copy()
        twin.of_clusters = [news.copy() for news in self.of_clusters]
        twin.clusters, twin.awaited = dict(self.clusters), dict(self.awaited)
        twin.running, twin.looked_s = self.running.copy(), self.looked_s
        twin.lasting = LastingMisses(self.lasting.shifts)
        twin.usual_hazards = self.usual_hazards
        twin._in_flight, twin._offsets = dict(self._in_flight), dict(self._offsets)
        return twin

    def _place_of(self, virtual_cluster: str) -> int:
        place = self.clusters.pop(virtual_cluster, None)
        if place is None:
            self.know_cluster(virtual_cluster, ResidualNews())
            return self.clusters[virtual_cluster]
        self.clusters[virtual_cluster] = place
        return place

    def _told_by(self, job: RunningJob) -> list[tuple[ResidualNews, float]]:
        """Whom a job's residual is told to, with the clock of its start there."""
        told = [(self.of_all, job.clock_of_all)]
        if job.place >= 0:
            told.append((self.of_clusters[job.place], job.clock))
        return told

    def _stop(self, job_id: str) -> RunningJob:
        """A job runs no longer: what it had passed at the last look counts no more."""
        job = self.running.remove(job_id)
        elapsed_s = self.looked_s - job.start_s
        if elapsed_s >= SHORTEST_S:
            places = [place_of(math.log(elapsed_s) - said) - 1 for said in job.said]
            for news, clock in self._told_by(job):
                weight = news.weight_now(job.weight, clock)
                for level, place in enumerate(places):
                    if place >= 0:
                        news.passed[level, place] = max(news.passed[level, place] - weight, 0.0)
        self._offsets.pop(job.place, None)
        return job

    def _forget(self, job_id: str) -> None:
        owner = self.awaited.pop(job_id).owner
        if owner and self._in_flight[owner] > 1:
            self._in_flight[owner] -= 1
        else:
            self._in_flight.pop(owner, None)


def virtual_cluster_of(job: Mapping[str, Any]) -> str:
    """The virtual cluster that a job is calibrated with; jobs without one are together."""
    return _text(job.get("virtual_cluster"))


def _text(name: Any) -> str:
    return "" if name is None or name != name else str(name)
