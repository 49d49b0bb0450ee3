"""Who was in flight when, of which groups and of what weight: the record that the calibration of run times
keeps while it lives through a log, without what residuals say.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
from lucid_models.duration.residuals import (
    BIN_WIDTH,
    BINS,
    LEVELS,
    LOWEST,
    SHAPE,
    SHORTEST_S,
    TIERS,
    WINDOW,
    places_passed,
)

SUBMISSION, START, END = range(3)
# Groups that a job has none of (its owner is unknown), or that are not known (yet).
NO_GROUP = -1
# When a job started that the calibration has seen to start; of one that never did.
BEFORE, NEVER = -1, -2
ALL_JOBS = 0
Rows = NDArray[np.intp]
_CELLS = SHAPE[0] * SHAPE[1]
_AT_ONCE = 512
# Weights fall as e^(-clock / WINDOW). Written from one reference for all rows of a segment they span at most
# e^300: well within a double (e^709), and what is e^-300 of another vanishes beside it as it should.
_LONGEST = 300.0 * WINDOW
# What happens at one event, in turn: a look, what is asked for at it, a run that stops, a submission (of the
# same job, if it is requeued).
LOOK, AFTER_LOOK, STOPPED, SUBMITTED = range(4)
_TURNS = 4

Name = TypeVar("Name", str, Owner)
Floats = NDArray[np.float64]


class FlightBook:
    """Entries of a log, made event by event; its lists hold one value a job in flight ("flight") or a group.

    A group is of one tier (all jobs, a virtual cluster, an owner in it) and lives until it is forgotten.
    Flights and groups that `calibration` knows come first; it does not change.
    """

    def __init__(self, calibration: RunTimeCalibration) -> None:
        self.clocks: list[float] = []  # by group: the weight of all starts
        self.ended_before: list[Floats | None] = []  # by group: where jobs ended, as of its first clock
        self.first_clocks: list[float] = []
        self.clusters: dict[str, int] = {}
        self.owners: dict[Owner, int] = {}
        self.flights: dict[str, int] = {}  # jobs in flight, by id
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
        # Jobs that are submitted between two changes get the same offsets.
        self.submissions: list[tuple[int, int, int, int, float, int, float]] = []
        self._changes = 0  # how many looks, starts and runs that stopped there have been
        # What the slow shift follows: a flight that was submitted, ~ of one that ended.
        self.turns: list[int] = []
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
                place: self._new_group(float(counts.clocks[place]), counts.ended[place])
                for place in counts.places.values()
            }
            for counts in tiers
        ]
        self.clusters = {name: group_of[1][place] for name, place in calibration.clusters.places.items()}
        self.owners = {name: group_of[2][place] for name, place in calibration.owners.places.items()}
        self.looks.append((BEFORE, calibration.last_look_s, self.clocks[ALL_JOBS]))
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


def turn(events: Rows, what: int) -> Rows:
    """When something happens at events, as numbers that can be compared."""
    return (events + 1) * _TURNS + what


@dataclass(frozen=True)
class Asked:
    """What is asked for: of each question the group, the moment (`turn`) and the group's clock then."""

    groups: Rows
    turns: Rows
    clocks: Floats


@dataclass(frozen=True)
class _Changes:
    """Weights of flights that come to a cell of a table of levels and bins, or leave it."""

    flights: Rows
    turns: Rows
    cells: Rows
    signs: Floats

    def of(self, places: Rows) -> "_Changes":
        """Some of the changes."""
        return _Changes(self.flights[places], self.turns[places], self.cells[places], self.signs[places])

    @classmethod
    def by_turn(cls, *parts: "_Changes") -> "_Changes":
        """All changes of the parts in the order of time."""
        names = ("flights", "turns", "cells", "signs")
        every = cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))
        return every.of(np.argsort(every.turns, kind="stable"))


class ResidualSums:
    """The flights of a book by where they ended, or what they had passed at looks while they ran: what the
    started jobs of groups had shown of residuals at many moments, as running sums over a log.

    `ResidualCounts` lets the weights of a group's jobs fade at each start. Here a job keeps the weight that
    it had at one clock of its group, and what is asked for at another clock is scaled: sums over time then
    only grow.
    """

    def __init__(self, book: FlightBook) -> None:
        self._book = book
        self._weights = np.array(book.weights)
        self._groups = np.array(book.groups, dtype=np.intp).reshape(-1, 3)
        self._clocks = np.array(book.clocks_at_start).reshape(-1, 3)
        self._said = np.array(book.said, dtype=np.float64).reshape(-1, len(LEVELS))
        self._started = np.array(book.started_at, dtype=np.intp)
        self._stopped = np.array(book.stopped_at, dtype=np.intp)
        self._ended = self._changes_of_ends()
        self._passed = self._changes_of_looks()

    def of(self, tier: int, asked: Asked) -> Iterator[tuple[Rows, Floats, Floats]]:
        """Which questions are answered, and where the jobs of their groups had ended by then, or what they
        had passed, shape (questions, levels, BINS) each.
        """
        order = np.lexsort((asked.turns, asked.groups))
        groups, turns, clocks = asked.groups[order], asked.turns[order], asked.clocks[order]
        span = int(turns.max(initial=0)) + 1
        keys = groups * span + turns
        ended, passed = (
            self._placed(tier, changes, keys, groups, span) for changes in (self._ended, self._passed)
        )
        of_ended, of_passed, before = np.zeros(_CELLS), np.zeros(_CELLS), 0.0
        for first, last in _segments(groups, clocks):
            reference = clocks[first]  # of what comes later nothing is known, not even by rounding
            if first == 0 or groups[first] != groups[first - 1]:
                of_ended, of_passed = self._before(groups[first], reference), np.zeros(_CELLS)
            else:
                faded = np.exp((before - reference) / WINDOW)
                of_ended, of_passed = faded * of_ended, faded * of_passed
            scale = np.exp((reference - clocks[first:last]) / WINDOW)[:, None]
            tables = []
            for changes, carried in ((ended, of_ended), (passed, of_passed)):
                table = self._summed(tier, changes, first, last, reference)
                table[0] += carried
                np.cumsum(table, axis=0, out=table)
                tables.append(table)
            of_ended, of_passed = tables[0][-1].copy(), tables[1][-1].copy()
            before = reference
            # Flights that came and left again cancel but for rounding, which must not make a weight negative.
            shown = [np.maximum(table * scale, 0.0).reshape(-1, *SHAPE) for table in tables]
            yield order[first:last], shown[0], shown[1]

    def _before(self, group: int, clock: float) -> Floats:
        ended = self._book.ended_before[group]
        table = np.zeros(SHAPE)
        if ended is not None:
            table[: len(ended)] = ended * np.exp((self._book.first_clocks[group] - clock) / WINDOW)
        return table.ravel()

    def _placed(
        self, tier: int, changes: _Changes, keys: Rows, groups: Rows, span: int
    ) -> tuple[Rows, _Changes]:
        """The changes of groups that are asked about, by the first question that they count in."""
        if not len(groups):
            return np.empty(0, dtype=np.intp), changes.of(np.empty(0, dtype=np.intp))
        group = self._groups[changes.flights, tier]
        order = np.argsort(group.astype(np.int16 if group.max(initial=0) < 2**15 else np.intp), kind="stable")
        group = group[order]
        row = np.searchsorted(keys, group * span + changes.turns[order])
        known = (group >= 0) & (groups[np.minimum(row, len(groups) - 1)] == group) & (row < len(groups))
        return row[known], changes.of(order[known])

    def _summed(
        self, tier: int, placed: tuple[Rows, _Changes], first: int, last: int, reference: float
    ) -> Floats:
        rows, changes = placed
        begin, end = np.searchsorted(rows, (first, last))
        flights = changes.flights[begin:end]
        weights = self._weights[flights] * np.exp((self._clocks[flights, tier] - reference) / WINDOW)
        cells = (rows[begin:end] - first) * _CELLS + changes.cells[begin:end]
        table = np.bincount(cells, changes.signs[begin:end] * weights, (last - first) * _CELLS)
        return table.astype(np.float64, copy=False).reshape(-1, _CELLS)

    def _changes_of_ends(self) -> _Changes:
        log_run = np.array(self._book.log_run)
        flights = np.flatnonzero(~np.isnan(log_run))
        residual = log_run[flights, None] - self._said[flights]
        bins = np.clip(np.floor((residual - LOWEST) / BIN_WIDTH), 0, BINS - 1).astype(np.intp)
        turns = turn(self._stopped[flights], STOPPED)
        return _Changes.by_turn(_each_level(flights, turns, bins, 1.0))

    def _changes_of_looks(self) -> _Changes:
        events, moments = (np.array(one) for one in list(zip(*self._book.looks, strict=True))[:2])
        started = np.flatnonzero(self._started != NEVER)
        first = np.searchsorted(events, self._started[started], side="right")
        first[self._started[started] < 0] = 0
        stopped = self._stopped[started]
        last = np.where(stopped == NEVER, len(events), np.searchsorted(events, stopped, side="right")) - 1
        seen = last >= first
        flights, first, last = started[seen], first[seen], last[seen]
        start_s, said = np.array(self._book.start_s)[flights], self._said[flights]
        at_first = places_passed(moments[first] - start_s, said)
        at_last = places_passed(moments[last] - start_s, said)
        comes = _each_level(flights, turn(events[first], LOOK), at_first, 1.0)
        has_stopped = self._stopped[flights] != NEVER
        goes = _each_level(
            flights[has_stopped],
            turn(self._stopped[flights[has_stopped]], STOPPED),
            at_last[has_stopped],
            -1.0,
        )
        # Each bin that it passed between the first look and the last.
        steps = (at_last - at_first).ravel()
        at = np.repeat(np.arange(steps.size), steps)
        bins = at_first.ravel()[at] + 1 + np.arange(len(at)) - np.repeat(np.cumsum(steps) - steps, steps)
        job, level = np.divmod(at, len(LEVELS))
        after_s = np.maximum(np.exp(said[job, level] + LOWEST + (bins + 1) * BIN_WIDTH), SHORTEST_S)
        look = np.clip(np.searchsorted(moments, start_s[job] + after_s), first[job], last[job])
        # Of bins that are passed between two looks the last one counts.
        is_last = np.diff(look, append=-1) != 0
        is_last[np.flatnonzero(np.diff(at))] = True
        job, level, bins, look, at = (each[is_last] for each in (job, level, bins, look, at))
        left = np.where(np.diff(at, prepend=-1) != 0, at_first[job, level], np.roll(bins, 1))
        when, cells = turn(events[look], LOOK), level * BINS
        steps_up = _Changes(flights[job], when, cells + bins, np.ones(len(job)))
        steps_off = _Changes(flights[job], when, cells + left, -np.ones(len(job))).of(
            np.flatnonzero(left >= 0)
        )
        return _Changes.by_turn(comes, goes, steps_up, steps_off)


def _each_level(flights: Rows, turns: Rows, bins: Rows, sign: float) -> _Changes:
    job, level = (bins >= 0).nonzero()
    return _Changes(flights[job], turns[job], level * BINS + bins[job, level], np.full(len(job), sign))


def _segments(groups: Rows, clocks: Floats) -> list[tuple[int, int]]:
    """Rows that are summed together: of one group, few, and of clocks that are not too far apart."""
    if not len(groups):
        return []
    begins = np.flatnonzero(np.diff(groups, prepend=-1))
    of_group = np.repeat(begins, np.diff(begins, append=len(groups)))
    far = np.floor((clocks - clocks[of_group]) / _LONGEST)
    full = (np.arange(len(groups)) - of_group) // _AT_ONCE
    edges = np.flatnonzero(
        (np.diff(groups, prepend=-1) != 0) | (np.diff(far, prepend=0) != 0) | (np.diff(full, prepend=0) != 0)
    )
    return list(zip(edges.tolist(), [*edges[1:].tolist(), len(groups)], strict=True))
