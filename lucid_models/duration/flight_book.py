"""Who was in flight when, of which groups and of what weight: the record that the calibration of run times
keeps while it lives through a log, without what residuals say.
"""

import math
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from lucid_models.duration.calibration import (
    CROWDING,
    LOOK_EVERY_S,
    MAX_AWAITED,
    MAX_OWNERS,
    MAX_VIRTUAL_CLUSTERS,
    Owner,
    RunTimeCalibration,
)
from lucid_models.duration.residual_hazards import SHORTEST_S
from lucid_models.duration.running_jobs import TIERS

SUBMISSION, START, END = range(3)
# Groups that a job has none of (its owner is unknown), or that are not known (yet).
NO_GROUP = -1
# When a job started that the calibration has seen to start; of one that never did.
BEFORE, NEVER = -1, -2
ALL_JOBS = 0

Name = TypeVar("Name", str, Owner)
Floats = NDArray[np.float64]


class FlightBook:
    """Entries of a log, told event by event; its lists hold one value a job in flight ("flight") or a group.

    A group is of one tier (all jobs, a virtual cluster, an owner in it) and lives until it is forgotten.
    Flights and groups that `calibration` knows come first; it does not change.
    """

    def __init__(self, calibration: RunTimeCalibration) -> None:
        self.clocks: list[float] = []  # by group: the weight of all starts
        self.ended_before: list[Floats | None] = []  # by group: where jobs ended, as of its first clock
        self.first_clocks: list[float] = []
        self.clusters: dict[str, int] = {}
        self.owners: dict[Owner, int] = {}
        self.flights: dict[str, int] = {}  # who is in flight, by id
        self.ids: list[str] = []
        self.names: list[Owner] = []
        self.weights: list[float] = []
        self.said: list[Sequence[float]] = []
        self.start_s: list[float] = []
        self.started_at: list[int] = []  # events
        self.stopped_at: list[int] = []
        self.log_run: list[float] = []  # log run time; NaN of a flight that did not end
        self.groups: list[tuple[int, ...]] = []  # by tier
        self.clocks_at_start: list[tuple[float, ...]] = []
        # Each look: its event, its moment, and the clock of all jobs then.
        self.looks: list[tuple[int, float, float]] = []
        # Each submission: event, changes before it, look, group and clock of its virtual cluster and owner.
        # Jobs that are submitted between two changes are told the same.
        self.submissions: list[tuple[int, int, int, int, float, int, float]] = []
        self._changes = 0  # how many looks, starts and runs that stopped there have been
        self.turns: list[
            int
        ] = []  # what the slow shift follows: a flight that was submitted, ~ of one that ended
        self._in_flight: dict[str, int] = {}
        self.usual_hazards = calibration.usual_hazards
        self._take_over(calibration)

    def live(
        self,
        events: tuple[Sequence[float], Sequence[int], Sequence[int]],
        ids: Sequence[str],
        names: Sequence[Owner],
        said: Sequence[Sequence[float]],
        run_s: Sequence[float],
    ) -> None:
        """Times, kinds and jobs of what happens, in turn; of each job its id, virtual cluster and owner,
        quantiles as said, and run time (NaN: it ended without one).
        """
        looked = self.looks[-1][1] // LOOK_EVERY_S
        flights, started_at = self.flights, self.started_at
        for event, (at_s, kind, job) in enumerate(zip(*events, strict=True)):
            job_id = ids[job]
            flight = flights.get(job_id)
            run = run_s[job]
            if kind == END and run != run:
                if flight is not None:
                    self._forget(job_id, flight, event)
                continue
            if at_s // LOOK_EVERY_S > looked:
                looked = at_s // LOOK_EVERY_S
                self.looks.append((event, at_s, self.clocks[ALL_JOBS]))
                self._changes += 1
            if kind == SUBMISSION:
                self._submit(event, job_id, names[job], said[job])
            elif flight is not None:
                if started_at[flight] == NEVER:
                    self._start(flight, event, at_s)
                if kind == END:
                    self.log_run[flight] = math.log(max(run, SHORTEST_S))
                    self.turns.append(~flight)
                    self._forget(job_id, flight, event)

    def _submit(self, event: int, job_id: str, name: Owner, said: Sequence[float]) -> None:
        before = self.flights.get(job_id)
        if before is not None:  # requeued
            self._forget(job_id, before, event)
        cluster = self.clusters.get(name[0], NO_GROUP)
        owner = self.owners.get(name, NO_GROUP)
        clocks = self.clocks
        look = len(self.looks) - 1
        self.submissions.append((event, self._changes, look, cluster, clocks[cluster], owner, clocks[owner]))
        mine = self._in_flight.get(name[1], 0) + 1 if name[1] else 1
        others = len(self.flights) + 1 - mine
        self._add(job_id, name, min(mine, 1 + others) ** -CROWDING, said)
        self.turns.append(self.flights[job_id])
        if len(self.flights) > MAX_AWAITED:
            first = next(iter(self.flights))
            self._forget(first, self.flights[first], event)

    def _add(self, job_id: str, name: Owner, weight: float, said: Sequence[float]) -> None:
        self.flights[job_id] = len(self.ids)
        if name[1]:
            self._in_flight[name[1]] = self._in_flight.get(name[1], 0) + 1
        self.ids.append(job_id)
        self.names.append(name)
        self.weights.append(weight)
        self.said.append(said)
        self.start_s.append(math.nan)
        self.started_at.append(NEVER)
        self.stopped_at.append(NEVER)
        self.log_run.append(math.nan)
        self.groups.append((ALL_JOBS, NO_GROUP, NO_GROUP))
        self.clocks_at_start.append((0.0,) * TIERS)

    def _start(self, flight: int, event: int, at_s: float) -> None:
        name, weight, clocks = self.names[flight], self.weights[flight], self.clocks
        cluster = self._seen(self.clusters, name[0], MAX_VIRTUAL_CLUSTERS)
        owner = self._seen(self.owners, name, MAX_OWNERS) if name[1] else NO_GROUP
        clocks[ALL_JOBS] += weight
        clocks[cluster] += weight
        if owner != NO_GROUP:
            clocks[owner] += weight
        self._changes += 1
        self.start_s[flight] = at_s
        self.started_at[flight] = event
        self.groups[flight] = (ALL_JOBS, cluster, owner)
        self.clocks_at_start[flight] = (clocks[ALL_JOBS], clocks[cluster], clocks[owner])

    def _seen(self, groups: dict[Name, int], name: Name, most: int) -> int:
        """The group of this name, which is now the most recently seen one of its tier."""
        group = groups.pop(name, NO_GROUP)
        if group == NO_GROUP:
            if len(groups) == most:
                del groups[next(iter(groups))]
            group = self._new_group(0.0, None)
        groups[name] = group
        return group

    def _new_group(self, clock: float, ended: Floats | None) -> int:
        self.clocks.append(clock)
        self.first_clocks.append(clock)
        self.ended_before.append(ended)
        return len(self.clocks) - 1

    def _forget(self, job_id: str, flight: int, event: int) -> None:
        self._changes += 1
        self.stopped_at[flight] = event
        del self.flights[job_id]
        owner = self.names[flight][1]
        if owner and self._in_flight[owner] > 1:
            self._in_flight[owner] -= 1
        else:
            self._in_flight.pop(owner, None)

    def _take_over(self, calibration: RunTimeCalibration) -> None:
        tiers = (calibration.all_jobs, calibration.clusters, calibration.owners)
        group_of = [
            {
                place: self._new_group(float(news.clocks[place]), news.ended[place])
                for place in news.places.values()
            }
            for news in tiers
        ]
        self.clusters = {name: group_of[1][place] for name, place in calibration.clusters.places.items()}
        self.owners = {name: group_of[2][place] for name, place in calibration.owners.places.items()}
        self.looks.append((BEFORE, calibration.looked_s, self.clocks[ALL_JOBS]))
        for job_id, job in calibration.awaited.items():
            self._add(job_id, (job.virtual_cluster, job.owner), job.weight, job.said)
        running = calibration.running
        for job_id, row in zip(running.job_ids, running.table().tolist(), strict=True):
            flight = self.flights[job_id]
            self.start_s[flight], self.started_at[flight] = row[running.START], BEFORE
            places = map(int, row[running.PLACES])
            self.groups[flight] = tuple(
                groups.get(place, NO_GROUP) for groups, place in zip(group_of, places, strict=True)
            )
            self.clocks_at_start[flight] = tuple(row[running.CLOCKS])
