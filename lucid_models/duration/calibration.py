"""Quantiles of run times that stay calibrated while habits change: offsets that started jobs tell.

A quantile q of a job's log run time is what the model says plus an offset: the quantile q of the residuals of
the jobs of its virtual cluster that started lately, those that still run among them (`residuals`: by
how far they have run beyond what was said, they are known to be no shorter). Learning from ended jobs alone
would hear of the short ones first. A virtual cluster with few jobs is drawn to all jobs' offset (Mondrian
conformal prediction; Vovk et al. 2005, section 4.5), and all jobs' to none. What still misses for weeks
shifts the quantiles of all jobs (`residuals`).

The offset of P50, which orders queues, is that of the job's owner in the virtual cluster, drawn to the
virtual cluster's. P90 keeps the virtual cluster's: an owner has too few jobs for it.

The jobs that a user has in flight were answered with the same knowledge and are mostly alike: the k-th of
them weighs k^-CROWDING of a job, as far as others have jobs in flight that speak instead.

Point estimates are the calibrated P50.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cluster_logs.job_facts import owner_of
from lucid_models.duration.residuals import (
    EXPECTED,
    LEVELS,
    SHORTEST_S,
    LastingMisses,
    ResidualNews,
    RunningJob,
    RunningJobs,
    hazards,
    offsets_from,
    place_of,
)

Floats = NDArray[np.float64]

CROWDING = 0.75
# Running jobs are looked at by the first event of every so many seconds of Unix time.
LOOK_EVERY_S = 600.0
NEVER_S = -1e15
# The least recently seen go first, and the jobs that were submitted first.
MAX_VIRTUAL_CLUSTERS = 2_000
MAX_OWNERS = 2_000
MAX_AWAITED = 200_000
# Jobs of one owner are much alike: so many of them speak as loudly as the virtual cluster.
OWNER_PRIOR_JOBS = 40.0
_CLUSTERS, _OWNERS = 1, 2  # of the tiers

# A virtual cluster and an owner in it.
Owner = tuple[str, str]


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


@dataclass(slots=True)
class _Now:
    """What is told now of a virtual cluster's jobs: their hazards, and offsets from them; and the offset of
    P50 by the owners' places, as they are asked for.
    """

    hazards: Floats
    offsets: tuple[float, ...]
    of_owners: dict[int, float]


class RunTimeCalibration:
    """The offsets now, and of each job that has not ended what was said at its submission."""

    def __init__(self) -> None:
        self.all_jobs: ResidualNews[None] = ResidualNews(1)
        self.all_jobs.see(None)
        self.clusters: ResidualNews[str] = ResidualNews(MAX_VIRTUAL_CLUSTERS)
        self.owners: ResidualNews[Owner] = ResidualNews(MAX_OWNERS, levels=1)
        self.awaited: dict[str, AwaitedJob] = {}
        self.running = RunningJobs()
        self.lasting = LastingMisses()
        self.looked_s = NEVER_S
        # Of all jobs, as of the last look; what virtual clusters are drawn to.
        self.usual_hazards: Floats = EXPECTED
        self._in_flight: dict[str, int] = {}
        self._now: dict[int, _Now] = {}  # by the virtual cluster's place, -1: a new one

    @property
    def _tiers(self) -> tuple[ResidualNews[Any], ...]:
        return self.all_jobs, self.clusters, self.owners

    def follows(self, virtual_cluster: str, owner: str) -> bool:
        """Whether the offset of P50 is one of this owner's jobs."""
        return (virtual_cluster, owner) in self.owners.places

    def offsets(self, virtual_cluster: str, owner: str = "") -> tuple[float, ...]:
        """Offsets of log run time of a job of this virtual cluster and owner, one a level; of a new virtual
        cluster those of all jobs, of a new owner (or none) the virtual cluster's.
        """
        now, place = self._now_of(virtual_cluster), self.owners.places.get((virtual_cluster, owner))
        p50, p90 = now.offsets
        if place is not None:
            if place not in now.of_owners:
                self._find_owners([(virtual_cluster, owner)])
            p50 = now.of_owners[place]
        return p50 + self.lasting.shifts[0], p90 + self.lasting.shifts[1]

    def offsets_of_jobs(self, owners: Sequence[Owner]) -> Floats:
        """Offsets of jobs by their virtual clusters and owners, shape (jobs, levels)."""
        distinct = dict.fromkeys(owners)
        self._find_owners(distinct)
        offsets = {owner: self.offsets(*owner) for owner in distinct}
        return np.array([offsets[owner] for owner in owners]).reshape(-1, len(LEVELS))

    def told(self, virtual_cluster: str, owner: str, said: Sequence[float]) -> tuple[float, ...]:
        """Quantiles as a job of this virtual cluster and owner is told now, with offsets; they do not
        cross.
        """
        moved = (one + offset for one, offset in zip(said, self.offsets(virtual_cluster, owner), strict=True))
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
        told = self.told(virtual_cluster, owner, said)
        self.await_end(job_id, AwaitedJob(virtual_cluster, owner, tuple(said), told, weight))

    def started(self, job_id: str, at_s: float) -> None:
        """A job started; that it did so before, and a job that was not seen being submitted, are passed
        over.
        """
        self.look(at_s)
        job = self.awaited.get(job_id)
        if job is None or job_id in self.running:
            return
        places = self._see(job.virtual_cluster, job.owner)
        clocks = [
            news.start(place, job.weight) if place >= 0 else 0.0
            for news, place in zip(self._tiers, places, strict=True)
        ]
        self._changed(job.virtual_cluster)
        self.running.add(job_id, RunningJob(at_s, job.said, job.weight, places, tuple(clocks)))

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
        bins = [place_of(logarithm - said) for said in job.said]
        for news, place, clock in self._told_by(job):
            news.end(place, bins, job.weight, clock)

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
        self.count_passed()
        self.usual_hazards = hazards(self.all_jobs.ended[0], self.all_jobs.passed[0], EXPECTED)
        self._now = {}

    def count_passed(self) -> None:
        """Count anew what the running jobs have passed, as of the last look."""
        self.running.count_passed(self.looked_s, self._tiers)

    def await_end(self, job_id: str, job: AwaitedJob) -> None:
        """Note a job that is in flight; the one that was submitted first is forgotten if there are too
        many.
        """
        self.awaited[job_id] = job
        if job.owner:
            self._in_flight[job.owner] = self._in_flight.get(job.owner, 0) + 1
        if len(self.awaited) > MAX_AWAITED:
            self.withdrawn(next(iter(self.awaited)))

    def copy(self) -> "RunTimeCalibration":
        """An independent copy."""
        twin = RunTimeCalibration()
        twin.all_jobs, twin.clusters = self.all_jobs.copy(), self.clusters.copy()
        twin.owners = self.owners.copy()
        twin.awaited = dict(self.awaited)
        twin.running, twin.looked_s = self.running.copy(), self.looked_s
        twin.lasting = LastingMisses(self.lasting.shifts)
        twin.usual_hazards = self.usual_hazards
        twin._in_flight = dict(self._in_flight)
        return twin

    def _find_owners(self, owners: Iterable[Owner]) -> None:
        """Find the offsets of owners that are known and have none now, together."""
        unknown = []
        for owner in owners:
            here, place = self._now_of(owner[0]), self.owners.places.get(owner)
            if place is not None and place not in here.of_owners:
                unknown.append((here, place))
        if not unknown:
            return
        at = [place for _, place in unknown]
        prior = np.array([here.hazards[0] for here, _ in unknown])
        of_bins = hazards(self.owners.ended[at, 0], self.owners.passed[at, 0], prior, OWNER_PRIOR_JOBS)
        for (here, place), offset in zip(unknown, offsets_from(of_bins, LEVELS[:1] * len(at)), strict=True):
            here.of_owners[place] = offset

    def _now_of(self, virtual_cluster: str) -> _Now:
        place = self.clusters.places.get(virtual_cluster, -1)
        now = self._now.get(place)
        if now is None:
            of_bins = self.usual_hazards
            if place >= 0:
                of_bins = hazards(self.clusters.ended[place], self.clusters.passed[place], of_bins)
            now = _Now(of_bins, tuple(offsets_from(of_bins, LEVELS)), {})
            self._now[place] = now
        return now

    def _see(self, virtual_cluster: str, owner: str) -> tuple[int, ...]:
        """The places of a job's groups, which are now the most recently seen ones; no owner has none."""
        cluster_place = self._seen(_CLUSTERS, virtual_cluster)
        return 0, cluster_place, self._seen(_OWNERS, (virtual_cluster, owner)) if owner else -1

    def _seen(self, tier: int, name: str | Owner) -> int:
        place, forgets = self._tiers[tier].see(name)
        if forgets:
            self.running.forget(tier, place)
            self._now = {}
        return place

    def _told_by(self, job: RunningJob) -> list[tuple[ResidualNews[Any], int, float]]:
        """Where a job's residual is told: the group's place, and its clock at the job's start."""
        told = zip(self._tiers, job.places, job.clocks, strict=True)
        return [(news, place, clock) for news, place, clock in told if place >= 0]

    def _stop(self, job_id: str) -> RunningJob:
        """A job runs no longer: what it had passed at the last look counts no more."""
        job = self.running.remove(job_id)
        elapsed_s = self.looked_s - job.start_s
        if elapsed_s >= SHORTEST_S:
            bins = [place_of(math.log(elapsed_s) - said) - 1 for said in job.said]
            for news, place, clock in self._told_by(job):
                news.stop(place, bins, job.weight, clock)
        self._changed(self.awaited[job_id].virtual_cluster)
        return job

    def _changed(self, virtual_cluster: str) -> None:
        """What is told of a virtual cluster's jobs is to be found anew."""
        self._now.pop(self.clusters.places.get(virtual_cluster, -1), None)

    def _forget(self, job_id: str) -> None:
        owner = self.awaited.pop(job_id).owner
        if owner and self._in_flight[owner] > 1:
            self._in_flight[owner] -= 1
        else:
            self._in_flight.pop(owner, None)


def calibrated_with(job: Mapping[str, Any]) -> Owner:
    """The virtual cluster and the owner that a job is calibrated with; jobs without one are together."""
    return virtual_cluster_of(job), owner_of(job)


def virtual_cluster_of(job: Mapping[str, Any]) -> str:
    """The virtual cluster that a job is calibrated with; jobs without one are together."""
    return _text(job.get("virtual_cluster"))


def _text(name: Any) -> str:
    return "" if name is None or name != name else str(name)
