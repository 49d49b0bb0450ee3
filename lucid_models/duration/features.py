"""Causal statistics of run times, kept up to date job by job.

What a new job will do is read off what jobs like it did, which have facts in common with it: the user, the
queue, the size and combinations of these (*levels*). Each key of a level carries a time-decayed mean of log
run time that is shrunk towards the level above it, a fast moving average, the last run times, their spread,
and which jobs are running now and for how long. A run time enters the statistics when the job ends and never
before, so features of a job depend only on what was known at its submission. The same object computes the
features for training and on a live scheduler.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foundation.errors import BadInputError
from lucid_models.duration.job_columns import FACTS, JobColumns, KeyColumn, keys_of
from lucid_models.duration.key_statistics import (
    KeyColumns,
    KeyStatistics,
    LevelTable,
    forget_oldest,
    numbers_of,
    read_level,
    write_level,
)
from lucid_models.duration.levels import LAYOUT, MOST_LEVELS, FeatureLayout, Level, read_levels
from lucid_models.duration.name_buckets import NameBuckets, log_duration, number_or_nan
from lucid_models.model_format import Fields

_DAY_S = 86_400.0


@dataclass(frozen=True)
class DurationFeatureSettings:
    """Constants of the statistics (times in seconds).

    `prior_jobs`: how many jobs' worth of the level above a key's mean contains; `soft_weight`: weight of the
    newest job in the fast moving average; `max_keys`: the most keys a level remembers, the least recently
    seen go first.
    """

    half_life_s: float = 30 * _DAY_S
    prior_jobs: float = 1.0
    soft_weight: float = 0.3
    max_keys: int = 200_000
    utc_offset_s: int = 0


class DurationFeatureState:
    """The statistics of all levels at one moment (`now_s`, Unix time) and the jobs in flight.

    A job is a mapping with any of the facts that models read (`job_columns.MODEL_FACTS`) and submit_time_s
    (Unix time). What is missing counts as unknown. `levels` as in `FeatureLayout`.
    """

    def __init__(
        self,
        levels: Sequence[Level],
        facts: Sequence[str],
        settings: DurationFeatureSettings | None = None,
        buckets: NameBuckets | None = None,
    ) -> None:
        self.layout = FeatureLayout(levels)
        self.levels = self.layout.levels
        self.facts = tuple(name for name in FACTS if name in facts)
        self.settings = settings or DurationFeatureSettings()
        self.buckets = buckets
        self.now_s = -math.inf
        self.tables: tuple[LevelTable, ...] = tuple({} for _ in self.levels)
        self.flights: dict[str, _Flight] = {}
        self._started: dict[str, None] = {}  # the running jobs, in the order in which they were seen to start
        self.tracks_flights = self.layout.tracks_flights
        self.names = (*self.layout.names, *self.facts)
        self._watchers: list[tuple[set[str], ...]] = []

    def watch(self) -> tuple[set[str], ...]:
        """Return sets, one a level, to which every key is added from now on when its statistics change.

        Whoever watches empties them.
        """
        changes: tuple[set[str], ...] = tuple(set() for _ in self.levels)
        self._watchers.append(changes)
        return changes

    # -- what happens in the cluster
    # ------------------------------------------------------------------------------

    def observe_submit(self, job: Mapping[str, Any]) -> None:
        """A job was submitted (it may be scored before or after)."""
        self.submit(str(job.get("job_id")), self.keys_of(job), self._time_of(job))

    def observe_start(self, job_id: str, start_s: float) -> None:
        """A job that was observed at its submission started; unknown ids are ignored."""
        self.start(job_id, start_s)

    def observe_end(self, job: Mapping[str, Any]) -> None:
        """A job ended: needs job_id, end_time_s and duration_s, and the job's facts unless it was observed
        before.

        Raises BadInputError for a run time that is missing, negative or not finite.
        """
        duration, end = number_or_nan(job.get("duration_s")), number_or_nan(job.get("end_time_s"))
        if not duration >= 0 or math.isnan(end):
            raise BadInputError(
                f"Job {job.get('job_id')!r} ended at {job.get('end_time_s')!r} after "
                f"{job.get('duration_s')!r} s.",
                remedy="Give the end as Unix time and a run time of at least 0 s.",
            )
        job_id = str(job.get("job_id"))
        flight = self.flights.get(job_id)
        self.end(job_id, self.keys_of(job) if flight is None else flight.keys, end, duration)

    def observe_withdrawal(self, job_id: str) -> None:
        """A job will not run (again) and is in flight no longer; unknown ids are ignored."""
        flight = self.flights.pop(job_id, None)
        if flight is None:
            return
        self._started.pop(job_id, None)
        for tracked, key, table in zip(self.tracks_flights, flight.keys, self.tables, strict=True):
            if tracked and key is not None and key in table:
                table[key].stopped(job_id)
        if self._watchers:
            self._note(flight.keys, self.tracks_flights)

    # -- the same on keys that are known already (replay of a log)
    # --------------------------------------------------

    def submit(self, job_id: str, keys: Sequence[str | None], time_s: float) -> None:
        """`observe_submit` with the job's keys, one per level (None: unknown)."""
        self.now_s = max(self.now_s, time_s)
        earlier = self.flights.pop(job_id, None)
        if earlier is not None:  # requeued: it waits again, behind the others
            self._started.pop(job_id, None)
            for tracked, key, table in zip(self.tracks_flights, earlier.keys, self.tables, strict=True):
                if tracked and key is not None and key in table:
                    table[key].stopped(job_id)
        self.flights[job_id] = _Flight(tuple(keys))
        for tracked, key, table in zip(self.tracks_flights, keys, self.tables, strict=True):
            if tracked and key is not None:
                statistics = table.get(key)
                if statistics is None:
                    statistics = table[key] = KeyStatistics()
                statistics.submitted(job_id, time_s)
        if self._watchers:
            self._note(keys, self.tracks_flights)
            if earlier is not None:
                self._note(earlier.keys, self.tracks_flights)

    def start(self, job_id: str, time_s: float) -> None:
        """`observe_start`."""
        self.now_s = max(self.now_s, time_s)
        flight = self.flights.get(job_id)
        if flight is None:
            return
        flight.start_s = time_s
        self._started.pop(job_id, None)
        self._started[job_id] = None
        for tracked, key, table in zip(self.tracks_flights, flight.keys, self.tables, strict=True):
            if tracked and key is not None:
                # A key may have been forgotten while the job waited.
                table.setdefault(key, KeyStatistics()).started(job_id, time_s)
        if self._watchers:
            self._note(flight.keys, self.tracks_flights)

    def end(self, job_id: str, keys: Sequence[str | None], time_s: float, duration_s: float) -> None:
        """`observe_end` with the job's keys."""
        self.now_s = max(self.now_s, time_s)
        self.flights.pop(job_id, None)
        self._started.pop(job_id, None)
        logarithm = log_duration(duration_s)
        half_life, weight = self.settings.half_life_s, self.settings.soft_weight
        for position, (key, table) in enumerate(zip(keys, self.tables, strict=True)):
            if key is None:
                continue
            statistics = table.get(key)
            if statistics is None:
                statistics = table[key] = KeyStatistics()
            statistics.ended(job_id, time_s, duration_s, logarithm, half_life, weight)
            if len(table) > 2 * self.settings.max_keys:
                dropped = forget_oldest(table, self.settings.max_keys)
                for changes in self._watchers:
                    changes[position].update(dropped)
        if self._watchers:
            self._note(keys, (True,) * len(keys))

    def _note(self, keys: Sequence[str | None], levels: Sequence[bool]) -> None:
        """Tell the watchers which keys' statistics have changed, at the levels concerned."""
        for changes in self._watchers:
            for changed, key, concerned in zip(changes, keys, levels, strict=True):
                if concerned and key is not None:
                    changed.add(key)

    # -- features
    # -------------------------------------------------------------------------------------------------

    def keys_of(self, job: Mapping[str, Any]) -> tuple[str | None, ...]:
        """The job's key in each level; None where a part of the key is unknown."""
        return keys_of(job, self.layout.of, self._bucket_of)

    def keys_of_all(self, jobs: Sequence[Mapping[str, Any]]) -> list[tuple[str | None, ...]]:
        """`keys_of` of each job."""
        columns = JobColumns(jobs).keys(self.layout.of, self._bucket_of)
        return list(zip(*(column.each() for column in columns), strict=True))

    def facts_of_all(self, jobs: Sequence[Mapping[str, Any]]) -> NDArray[np.float64]:
        """The jobs' plain facts in the order of `self.facts`, shape (jobs, facts); NaN where unknown."""
        columns = JobColumns(jobs)
        return columns.facts(self.facts, columns.submit_s(self.now_s) + self.settings.utc_offset_s).T

    def features(self, job: Mapping[str, Any], at_s: float | None = None) -> list[float]:
        """Features of one job in the order of `names`, as known at `at_s` (default: the job's submission)."""
        row: list[float] = self.known_of([job], at_s).features()[0].tolist()
        return row

    def known_of(self, jobs: Sequence[Mapping[str, Any]], at_s: float | None = None) -> "KnownOfJobs":
        """What is known of jobs at `at_s` (default: at each job's submission)."""
        columns = JobColumns(jobs)
        submit_s = columns.submit_s(self.now_s)
        time_s = submit_s if at_s is None else np.full(len(jobs), at_s)
        keys = columns.keys(self.layout.of, self._bucket_of)
        statistics = [
            None if key is None else table.get(key)
            for column, table in zip(keys, self.tables, strict=True)
            for key in column.keys
        ]
        firsts = np.cumsum([0, *(len(column.keys) for column in keys)])[:-1]
        ids = columns.ids()
        place = dict(zip(ids, range(len(ids)), strict=True))  # of two jobs with one id, the last
        newest = np.array(
            [-1 if one is None else place.get(one.submit_id, -1) for one in statistics], np.intp
        )
        rows = np.array([column.of + first for column, first in zip(keys, firsts, strict=True)])
        own = np.fromiter(map(place.__getitem__, ids), np.intp, len(ids))
        return KnownOfJobs(
            keys,
            KeyColumns(
                self.layout,
                numbers_of(statistics),
                rows,
                newest.take(rows[self.layout.flights]) == own,
                time_s,
                self.settings.half_life_s,
                self.settings.prior_jobs,
            ),
            columns.facts(self.facts, submit_s + self.settings.utc_offset_s),
        )

    # -- saving
    # ---------------------------------------------------------------------------------------------------

    def to_data(self) -> dict[str, Any]:
        """Plain data for JSON; nothing that a later estimate reads is lost, beyond `max_keys` keys a
        level.
        """
        settings = self.settings
        for table in self.tables:
            forget_oldest(table, settings.max_keys)
        return {
            "layout": LAYOUT,
            "levels": [level.to_data() for level in self.layout.of],
            "facts": list(self.facts),
            "half_life_s": settings.half_life_s,
            "prior_jobs": settings.prior_jobs,
            "soft_weight": settings.soft_weight,
            "max_keys": settings.max_keys,
            "utc_offset_s": settings.utc_offset_s,
            "buckets": None if self.buckets is None else self.buckets.to_data(),
            "now_s": self.now_s if math.isfinite(self.now_s) else None,
            "tables": [write_level(table) for table in self.tables],
            "flights": [
                {"job_id": job_id, "start_s": flight.start_s, "keys": list(flight.keys)}
                for job_id, flight in (
                    *((job_id, self.flights[job_id]) for job_id in self._started),
                    *(item for item in self.flights.items() if item[1].start_s is None),
                )
            ],
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any] | Fields) -> "DurationFeatureState":
        """Read what `to_data` wrote; raises CorruptModelError."""
        fields = data if isinstance(data, Fields) else Fields(data, "state")
        state = cls(
            read_levels(fields),
            fields.texts("facts", most=len(FACTS), unique=True),
            DurationFeatureSettings(
                half_life_s=fields.number("half_life_s", 1.0, 1e12),
                prior_jobs=fields.number("prior_jobs", 0.0, 1e9),
                soft_weight=fields.number("soft_weight", 1e-9, 1.0),
                max_keys=fields.integer("max_keys", 1, 10_000_000),
                utc_offset_s=fields.integer("utc_offset_s", -86_400, 86_400),
            ),
            NameBuckets.from_data(fields.child("buckets")) if fields.has("buckets") else None,
        )
        if list(state.facts) != fields.texts("facts"):
            raise fields.fail("facts", "name something unknown, or are not in their order")
        if fields.has("now_s"):
            state.now_s = fields.number("now_s", -1e15, 1e15)
        tables = fields.children("tables", most=MOST_LEVELS)
        if len(tables) != len(state.levels):
            raise fields.fail("tables", f"has {len(tables)} entries for {len(state.levels)} levels")
        state.tables = tuple(read_level(table, state.settings.max_keys) for table in tables)
        for item in fields.children("flights", most=10_000_000):
            state._restore_flight(item)
        # They are saved in the order in which they were seen to start: the oldest running job comes first.
        for job_id, flight in list(state.flights.items()):
            if flight.start_s is not None:
                state.start(job_id, flight.start_s)
        return state

    def _restore_flight(self, item: Fields) -> None:
        keys = item.items("keys", most=MOST_LEVELS)
        if len(keys) != len(self.levels) or any(key is not None and not isinstance(key, str) for key in keys):
            raise item.fail("keys", "does not hold one key a level")
        flight = _Flight(tuple(keys))
        job_id = item.text("job_id")
        self.flights[job_id] = flight
        if item.has("start_s"):
            flight.start_s = item.number("start_s", -1e15, 1e15)

    def copy(self) -> "DurationFeatureState":
        """An independent copy."""
        twin = DurationFeatureState(self.layout.of, self.facts, self.settings, self.buckets)
        twin.now_s = self.now_s
        twin.tables = tuple({key: value.copy() for key, value in table.items()} for table in self.tables)
        twin.flights = {
            job_id: _Flight(flight.keys, flight.start_s) for job_id, flight in self.flights.items()
        }
        twin._started = dict(self._started)
        return twin

    # -- details
    # --------------------------------------------------------------------------------------------------

    def _time_of(self, job: Mapping[str, Any]) -> float:
        time_s = number_or_nan(job.get("submit_time_s"))
        return self.now_s if math.isnan(time_s) else time_s

    def _bucket_of(self, name: str) -> str | None:
        return None if self.buckets is None else self.buckets.bucket_of(name)


@dataclass(frozen=True)
class KnownOfJobs:
    """What is known of jobs: their keys in each level, the statistics of these, their facts (facts, jobs)."""

    keys: Sequence[KeyColumn]
    columns: KeyColumns
    facts: NDArray[np.float64]

    def features(self) -> NDArray[np.float64]:
        """Features in the order of `DurationFeatureState.names`, shape (jobs, features)."""
        matrix: NDArray[np.float64] = np.concatenate([self.columns.statistics(), self.facts]).T
        return matrix


@dataclass
class _Flight:
    keys: tuple[str | None, ...]
    start_s: float | None = None
