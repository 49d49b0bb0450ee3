"""Quantiles of run times that stay calibrated while habits change: offsets learned from started jobs.

A quantile q of a job's log run time is the model's prediction plus an offset: the quantile q of the residuals
of the jobs of its virtual cluster that started lately. Jobs that still run are among them, as censored
observations (`residuals`): of ended jobs alone the short ones would be seen first. A virtual cluster with few
jobs is drawn to all jobs' offset (Mondrian conformal prediction; Vovk et al. 2005, section 4.5), and all
jobs' to none. An error that lasts for weeks shifts the quantiles of all jobs (`residuals`).

The offset of P50, which orders queues, is that of the job's owner in the virtual cluster, drawn to the
virtual cluster's. P90 keeps the virtual cluster's: an owner has too few jobs for it.

The predictions of a user's jobs in flight rest on the same observations, and the jobs are mostly alike: the
k-th of them weighs k^-CROWDING of a job, as far as other users have jobs in flight to learn from.

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
    BINS,
    EXPECTED,
    LEVELS,
    MOST,
    SHAPE,
    SHORTEST_S,
    TIERS,
    ResidualCounts,
    RunningJob,
    RunningJobs,
    SlowShifts,
    hazards,
    offsets_from,
    place_of,
)
from lucid_models.model_format import Fields, FormatVersionError, finite_list

Floats = NDArray[np.float64]

CROWDING = 0.75
# Running jobs are looked at by the first event of every so many seconds of Unix time.
LOOK_EVERY_S = 600.0
NEVER_S = -1e15
# The least recently seen go first, and the jobs that were submitted first.
MAX_VIRTUAL_CLUSTERS = 2_000
MAX_OWNERS = 2_000
MAX_AWAITED = 200_000
# Jobs of one owner are much alike: so many of them weigh as much as the virtual cluster's hazards.
OWNER_PRIOR_JOBS = 40.0
_CLUSTERS, _OWNERS = 1, 2  # of the tiers
LAYOUT = 5  # of the saved form
_SIZE = SHAPE[0] * SHAPE[1]
_MOST = 1e15  # of a clock and a time

# A virtual cluster and an owner in it.
Owner = tuple[str, str]


@dataclass(frozen=True, slots=True)
class AwaitedJob:
    """A job that has not ended, with its quantiles of LEVELS at its submission, in log seconds: `said` are
    the model's, `calibrated` those with offsets; `owner` is "" if unknown.
    """

    virtual_cluster: str
    owner: str
    said: tuple[float, ...]
    calibrated: tuple[float, ...]
    weight: float


@dataclass(slots=True)
class _Now:
    """A virtual cluster's hazards and offsets now, and its owners' offsets of P50 by their places, each found
    when it is first asked for.
    """

    hazards: Floats
    offsets: tuple[float, ...]
    of_owners: dict[int, float]


class RunTimeCalibration:
    """The offsets now, and the quantiles at submission of each job that has not ended."""

    def __init__(self) -> None:
        self.all_jobs: ResidualCounts[None] = ResidualCounts(1)
        self.all_jobs.see(None)
        self.clusters: ResidualCounts[str] = ResidualCounts(MAX_VIRTUAL_CLUSTERS)
        self.owners: ResidualCounts[Owner] = ResidualCounts(MAX_OWNERS, levels=1)
        self.awaited: dict[str, AwaitedJob] = {}
        self.running = RunningJobs()
        self.slow = SlowShifts()
        self.last_look_s = NEVER_S
        # Of all jobs, as of the last look; what virtual clusters are drawn to.
        self.usual_hazards: Floats = EXPECTED
        self._in_flight: dict[str, int] = {}
        self._now: dict[int, _Now] = {}  # by the virtual cluster's place, -1: a new one

    @property
    def _tiers(self) -> tuple[ResidualCounts[Any], ...]:
        return self.all_jobs, self.clusters, self.owners

    def follows(self, virtual_cluster: str, owner: str) -> bool:
        """Whether this owner has an offset of P50 of its own."""
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
        return p50 + self.slow.shifts[0], p90 + self.slow.shifts[1]

    def offsets_of_jobs(self, owners: Sequence[Owner]) -> Floats:
        """Offsets of jobs by their virtual clusters and owners, shape (jobs, levels)."""
        distinct = dict.fromkeys(owners)
        self._find_owners(distinct)
        offsets = {owner: self.offsets(*owner) for owner in distinct}
        return np.array([offsets[owner] for owner in owners]).reshape(-1, len(LEVELS))

    def calibrated(self, virtual_cluster: str, owner: str, said: Sequence[float]) -> tuple[float, ...]:
        """A job's quantiles with the offsets of its virtual cluster and owner now, in rising order."""
        moved = (one + offset for one, offset in zip(said, self.offsets(virtual_cluster, owner), strict=True))
        # Each quantile is moved by its own offset, so that they may cross. Then P90 is raised and P50 stays:
        # by P50 queues are ordered.
        return tuple(itertools.accumulate(moved, max))

    def submitted(
        self, job_id: str, at_s: float, virtual_cluster: str, owner: str, said: Sequence[float]
    ) -> None:
        """A job was submitted (again) at `at_s` (Unix time), with these quantiles by the model."""
        self.look(at_s)
        self.withdrawn(job_id)
        mine = 1
        if owner:
            mine = self._in_flight.get(owner, 0) + 1
        # The k-th job of a user in flight is predicted from the same observations as the first, so that both
        # have much the same error: with k^-0.75 a crowd of a hundred counts as nine jobs. Where no other
        # user has a job in flight, k is 1.
        others = len(self.awaited) + 1 - mine
        weight = min(mine, 1 + others) ** -CROWDING
        calibrated = self.calibrated(virtual_cluster, owner, said)
        self.await_end(job_id, AwaitedJob(virtual_cluster, owner, tuple(said), calibrated, weight))

    def started(self, job_id: str, at_s: float) -> None:
        """A job started; repeated starts, and jobs whose submission was not seen, are ignored."""
        self.look(at_s)
        job = self.awaited.get(job_id)
        if job is None or job_id in self.running:
            return
        places = self._see(job.virtual_cluster, job.owner)
        clocks = [
            counts.start(place, job.weight) if place >= 0 else 0.0
            for counts, place in zip(self._tiers, places, strict=True)
        ]
        self._changed(job.virtual_cluster)
        self.running.add(job_id, RunningJob(at_s, job.said, job.weight, places, tuple(clocks)))

    def ended(self, job_id: str, at_s: float, duration_s: float) -> None:
        """A job ended; nothing is learned of one whose submission was not seen."""
        self.look(at_s)
        if job_id not in self.awaited:
            return
        # A job whose start was not reported must be at risk before it ends, or its group's hazard would count
        # an end without a job at risk.
        self.started(job_id, at_s)
        job = self._stop(job_id)
        logarithm = math.log(max(duration_s, SHORTEST_S))
        self.slow.ended(self.awaited[job_id].calibrated, logarithm)
        self._forget(job_id)
        bins = [place_of(logarithm - said) for said in job.said]
        for counts, place, clock in self._tiers_of(job):
            counts.end(place, bins, job.weight, clock)

    def withdrawn(self, job_id: str) -> None:
        """A job will not run (again)."""
        if job_id in self.running:
            self._stop(job_id)
        if job_id in self.awaited:
            self._forget(job_id)

    def look(self, at_s: float) -> None:
        """Update how long jobs have run, if LOOK_EVERY_S have passed."""
        # On a grid of Unix time, not so long after the last look: a calibration that began later then looks
        # at the same events as one that began earlier.
        if at_s // LOOK_EVERY_S <= self.last_look_s // LOOK_EVERY_S:
            return
        self.last_look_s = at_s
        self.count_passed()
        self.usual_hazards = hazards(self.all_jobs.ended[0], self.all_jobs.passed[0], EXPECTED)
        self._now = {}

    def count_passed(self) -> None:
        """Count anew what the running jobs have passed, as of the last look."""
        self.running.count_passed(self.last_look_s, self._tiers)

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
        twin.running, twin.last_look_s = self.running.copy(), self.last_look_s
        twin.slow = SlowShifts(self.slow.shifts)
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

    def _tiers_of(self, job: RunningJob) -> list[tuple[ResidualCounts[Any], int, float]]:
        """Where a job's residual counts: the group's place, and its clock at the job's start."""
        tiers = zip(self._tiers, job.places, job.clocks, strict=True)
        return [(counts, place, clock) for counts, place, clock in tiers if place >= 0]

    def _stop(self, job_id: str) -> RunningJob:
        """A job runs no longer: what it had passed at the last look counts no more."""
        job = self.running.remove(job_id)
        elapsed_s = self.last_look_s - job.start_s
        if elapsed_s >= SHORTEST_S:
            bins = [place_of(math.log(elapsed_s) - said) - 1 for said in job.said]
            for counts, place, clock in self._tiers_of(job):
                counts.stop(place, bins, job.weight, clock)
        self._changed(self.awaited[job_id].virtual_cluster)
        return job

    def _changed(self, virtual_cluster: str) -> None:
        """The offsets of a virtual cluster's jobs are out of date."""
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


def calibration_to_data(calibration: RunTimeCalibration) -> dict[str, Any]:
    """Plain data for JSON."""
    awaited, running = calibration.awaited.values(), calibration.running
    table = running.table()
    places, clocks = table[:, running.PLACES].astype(np.intp), table[:, running.CLOCKS]
    return {
        "layout": LAYOUT,
        "looked_s": calibration.last_look_s,
        "usual_hazards": finite_list(calibration.usual_hazards.ravel()),
        "shifts": list(calibration.slow.shifts),
        "clock": float(calibration.all_jobs.clocks[0]),
        "ended": finite_list(calibration.all_jobs.ended[0].ravel()),
        "virtual_clusters": list(calibration.clusters.places),
        **_counts_to_data(calibration.clusters, "clusters"),
        "owners": [owner for _, owner in calibration.owners.places],
        "owners_virtual_clusters": [name for name, _ in calibration.owners.places],
        **_counts_to_data(calibration.owners, "owners"),
        "awaited": list(calibration.awaited),
        "awaited_virtual_clusters": [job.virtual_cluster for job in awaited],
        "awaited_users": [job.owner for job in awaited],
        "awaited_weights": [job.weight for job in awaited],
        "awaited_quantiles": [each for job in awaited for each in job.said],
        "awaited_told": [each for job in awaited for each in job.calibrated],
        "running": list(running.job_ids),
        "running_starts_s": finite_list(table[:, running.START]),
        "running_clocks": finite_list(clocks[:, 0]),
        "running_clocks_of_clusters": finite_list(clocks[:, 1]),
        "running_clusters": _turns(calibration.clusters, places[:, 1]),
        "running_clocks_of_owners": finite_list(clocks[:, 2]),
        "running_owners": _turns(calibration.owners, places[:, 2]),
    }


def _counts_to_data(counts: ResidualCounts[Any], which: str) -> dict[str, list[float]]:
    places = list(counts.places.values())
    return {
        f"clocks_of_{which}": finite_list(counts.clocks[places]),
        f"ended_of_{which}": finite_list(counts.ended[places].ravel()),
    }


def _turns(counts: ResidualCounts[Any], places: NDArray[np.intp]) -> list[int]:
    """In the file a group's place is its turn among those named."""
    turns = {place: turn for turn, place in enumerate(counts.places.values())}
    return [turns.get(place, -1) for place in places.tolist()]


def read_calibration(fields: Fields) -> RunTimeCalibration:
    """Read what `calibration_to_data` wrote; raises CorruptModelError and FormatVersionError."""
    layout = fields.integer("layout", 1, 1_000_000)
    if layout != LAYOUT:
        raise FormatVersionError(
            f"{fields.place} has layout {layout} of the calibration; this program reads {LAYOUT}.",
            remedy="Train the duration model again with this version.",
        )
    calibration = RunTimeCalibration()
    calibration.last_look_s = fields.number("looked_s", NEVER_S, _MOST)
    calibration.usual_hazards = _sized(fields, "usual_hazards", _SIZE, 0.0, 1.0).reshape(SHAPE)
    all_jobs = calibration.all_jobs
    all_jobs.ended[0] = _sized(fields, "ended", _SIZE, 0.0, _MOST).reshape(SHAPE)
    all_jobs.clocks[0] = fields.number("clock", 0.0, _MOST)
    clusters = fields.texts("virtual_clusters", most=MAX_VIRTUAL_CLUSTERS, unique=True)
    _read_counts(fields, "clusters", calibration.clusters, clusters)
    _read_owners(fields, calibration)
    calibration.slow = SlowShifts(_sized(fields, "shifts", len(LEVELS), -MOST, MOST).tolist())
    _read_awaited(fields, calibration)
    _read_running(fields, calibration)
    calibration.count_passed()
    return calibration


def _read_owners(fields: Fields, calibration: RunTimeCalibration) -> None:
    owners, clusters = (fields.texts(name, most=MAX_OWNERS) for name in ("owners", "owners_virtual_clusters"))
    pairs = list(zip(clusters, owners, strict=False))
    if len(owners) != len(clusters) or len(set(pairs)) < len(pairs):
        raise fields.fail("owners", "do not match their virtual clusters, or repeat")
    _read_counts(fields, "owners", calibration.owners, pairs)


def _read_counts(fields: Fields, which: str, counts: ResidualCounts[Any], names: Sequence[Any]) -> None:
    clocks = _sized(fields, f"clocks_of_{which}", len(names), 0.0, _MOST).tolist()
    size = len(names) * counts.levels * BINS
    ended = _sized(fields, f"ended_of_{which}", size, 0.0, _MOST).reshape(-1, counts.levels, BINS)
    for name, clock, of_group in zip(names, clocks, ended, strict=True):
        place, _ = counts.see(name)
        counts.clocks[place], counts.ended[place] = clock, of_group


def _read_awaited(fields: Fields, calibration: RunTimeCalibration) -> None:
    jobs = fields.texts("awaited", most=MAX_AWAITED, unique=True)
    clusters, users = (
        fields.texts(f"awaited_{name}", most=MAX_AWAITED) for name in ("virtual_clusters", "users")
    )
    if not len(jobs) == len(clusters) == len(users):
        raise fields.fail("awaited", "does not match its virtual clusters and users")
    weights = _sized(fields, "awaited_weights", len(jobs), 0.0, 1.0).tolist()
    said, calibrated = (_quantiles(fields, name, len(jobs)) for name in ("awaited_quantiles", "awaited_told"))
    for job_id, *job in zip(jobs, clusters, users, said, calibrated, weights, strict=True):
        calibration.await_end(job_id, AwaitedJob(*job))


def _read_running(fields: Fields, calibration: RunTimeCalibration) -> None:
    jobs = fields.texts("running", most=MAX_AWAITED, unique=True)
    if not set(jobs) <= calibration.awaited.keys():
        raise fields.fail("running", "names a job that is not awaited")
    starts_s = _sized(fields, "running_starts_s", len(jobs), NEVER_S, _MOST)
    places, clocks = np.full((len(jobs), TIERS), -1, dtype=np.intp), np.zeros((len(jobs), TIERS))
    # A clock at a start that is ahead of the clock now would give a job any weight.
    places[:, 0] = 0
    clocks[:, 0] = _sized(fields, "running_clocks", len(jobs), 0.0, float(calibration.all_jobs.clocks[0]))
    tiers: list[tuple[str, ResidualCounts[Any]]] = [
        ("clusters", calibration.clusters),
        ("owners", calibration.owners),
    ]
    for tier, (which, counts) in enumerate(tiers, 1):
        turns = _sized(fields, f"running_{which}", len(jobs), -1, len(counts.places) - 1).astype(np.intp)
        at_start = _sized(fields, f"running_clocks_of_{which}", len(jobs), 0.0, _MOST)
        if (at_start > np.append(counts.clocks[: len(counts.places)], _MOST)[turns]).any():
            raise fields.fail(f"running_clocks_of_{which}", "are ahead of their clocks now")
        places[:, tier], clocks[:, tier] = turns, at_start
    rows = zip(starts_s.tolist(), places.tolist(), clocks.tolist(), strict=True)
    for job_id, (start_s, where, at) in zip(jobs, rows, strict=True):
        job = calibration.awaited[job_id]
        calibration.running.add(job_id, RunningJob(start_s, job.said, job.weight, tuple(where), tuple(at)))


def _quantiles(fields: Fields, name: str, jobs: int) -> list[tuple[float, ...]]:
    numbers = _sized(fields, name, jobs * len(LEVELS), -1e3, 1e3).reshape(-1, len(LEVELS))
    return [tuple(of_job) for of_job in numbers.tolist()]


def _sized(fields: Fields, name: str, size: int, low: float, high: float) -> NDArray[np.float64]:
    numbers = fields.numbers(name, low, high)
    if numbers.size != size:
        raise fields.fail(name, f"holds {numbers.size} numbers, not {size}")
    return numbers
