"""Estimates a whole waiting queue at every decision, fast: features and scores once a key, not once a job.

What the duration model knows of a job is statistics of its keys (its user, its name, ...), and a queue holds
far fewer keys than jobs. So the queue keeps, per level, one row per key that occurs in it; a decision brings
the rows up to date whose statistics changed, computes means and shape functions for all rows with a few
NumPy calls, and adds the levels up job by job. Only NumPy is needed, and the estimates equal those of
`DurationScorer.predict`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cluster_logs.errors import BadInputError, NotFoundError
from lucid_models.bin_finder import BinFinder
from lucid_models.duration.features import DurationFeatureState
from lucid_models.duration.key_statistics import NEVER_S, KeyStatistics
from lucid_models.duration.scorer import DurationScorer

Floats = NDArray[np.float64]

_LEAST_WEIGHT = 1e-12
_FIRST_CAPACITY = 64
# What is copied of a key's statistics; "oldest_s" is the start of its oldest running job.
_COLUMNS = (
    "count",
    "weight",
    "log_sum",
    "raw_sum",
    "soft_mean",
    "last",
    "last_two",
    "median",
    "spread",
    "time_s",
    "submit_s",
    "earlier_submit_s",
    "running",
    "oldest_s",
)
# Features that are such a column as it is.
_COPIED = ("last", "last_two", "median", "spread")
_GAP = "log_since_submission"
_AT = {name: position for position, name in enumerate(_COLUMNS)}


class _LevelRows:
    """The keys of one level that occur in the queue: a row each, with the row of the parent's key."""

    def __init__(self) -> None:
        self.row_of: dict[str | int, int] = {}  # a job without a key at this level: its parent's row instead
        self.keys: list[str | int | None] = []
        self.uses: list[int] = []
        self.vacant: list[int] = []
        self.parents = np.zeros(_FIRST_CAPACITY, dtype=np.intp)
        self.values = np.zeros((len(_COLUMNS), _FIRST_CAPACITY))
        self.newest = np.full(_FIRST_CAPACITY, -1, dtype=np.int64)  # serial number of the key's newest job
        self.stale: set[int] = set()

    def use(self, key: str | None, parent: int) -> int:
        """The row of a key, which one more job uses."""
        known: str | int = parent if key is None else key
        row = self.row_of.get(known)
        if row is None:
            if self.vacant:
                row = self.vacant.pop()
            else:
                row = len(self.keys)
                self.keys.append(None)
                self.uses.append(0)
                if row == len(self.parents):
                    self.parents = np.concatenate([self.parents, np.zeros_like(self.parents)])
                    self.newest = np.concatenate([self.newest, np.full_like(self.newest, -1)])
                    self.values = np.concatenate([self.values, np.zeros_like(self.values)], axis=1)
            self.row_of[known] = row
            self.keys[row] = known
            self.parents[row] = max(parent, 0)
        self.stale.add(row)
        self.uses[row] += 1
        return row

    def release(self, row: int) -> None:
        """One job less uses a row."""
        self.uses[row] -= 1
        if not self.uses[row]:
            known = self.keys[row]
            if known is not None:
                del self.row_of[known]
            self.keys[row] = None
            self.stale.discard(row)
            self.vacant.append(row)

    def refresh(self, table: Mapping[str, KeyStatistics], serials: Mapping[str, int]) -> None:
        """Copy the statistics of the rows that may have changed."""
        for row in self.stale:
            key = self.keys[row]
            statistics = table.get(key) if isinstance(key, str) else None
            self.newest[row] = -1 if statistics is None else serials.get(statistics.submit_id, -1)
            self.values[:, row] = _UNKNOWN if statistics is None else _columns(statistics)
        self.stale.clear()


_UNKNOWN = np.zeros(len(_COLUMNS))
for _name in ("submit_s", "earlier_submit_s"):
    _UNKNOWN[_AT[_name]] = NEVER_S
for _name in ("soft_mean", "last", "last_two", "median", "spread", "oldest_s"):
    _UNKNOWN[_AT[_name]] = np.nan


def _columns(statistics: KeyStatistics) -> list[float]:
    ended = statistics.count > 0
    return [
        statistics.count,
        statistics.weight,
        statistics.log_sum,
        statistics.raw_sum,
        statistics.soft_mean if ended else np.nan,
        statistics.last if ended else np.nan,
        statistics.last_two() if ended else np.nan,
        statistics.median() if ended else np.nan,
        statistics.spread(),
        statistics.time_s,
        statistics.submit_s,
        statistics.earlier_submit_s,
        len(statistics.running),
        next(iter(statistics.running.values())) if statistics.running else np.nan,
    ]


class QueueScorer:
    """The jobs that wait, and their estimates at any moment.

    `add` takes jobs as `DurationScorer.predict` does; `estimate(at_s)` answers in the order of `job_ids`.
    Tell the scorer's state of submissions, starts and ends as they happen (`DurationFeatureState.observe_*`):
    the queue follows it.
    """

    def __init__(self, scorer: DurationScorer) -> None:
        self.scorer = scorer
        self.state: DurationFeatureState = scorer.state
        self.job_ids: list[str] = []
        levels = len(self.state.levels)
        self._levels = [_LevelRows() for _ in range(levels)]
        self._rows = np.zeros((levels, _FIRST_CAPACITY), dtype=np.intp)
        self._facts = np.zeros((len(self.state.facts), _FIRST_CAPACITY))
        self._place: dict[str, int] = {}
        self._serials: dict[str, int] = {}
        self._serial = np.zeros(_FIRST_CAPACITY, dtype=np.int64)
        self._added = 0
        self._changes = self.state.watch()
        self._plan = _ScoringPlan(scorer)

    def __len__(self) -> int:
        return len(self.job_ids)

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._place

    def add(self, jobs: Iterable[Mapping[str, Any]]) -> None:
        """Jobs begin to wait; raises BadInputError for an id that waits already."""
        for job in jobs:
            job_id = str(job.get("job_id"))
            if job_id in self._place:
                raise BadInputError(f"Job {job_id!r} is in the queue already.", remedy="Remove it first.")
            place = len(self.job_ids)
            if place == self._rows.shape[1]:
                self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)], axis=1)
                self._facts = np.concatenate([self._facts, np.zeros_like(self._facts)], axis=1)
                self._serial = np.concatenate([self._serial, np.zeros_like(self._serial)])
            rows: list[int] = []
            for key, level, parent in zip(
                self.state.keys_of(job), self._levels, self.state.parents, strict=True
            ):
                rows.append(level.use(key, rows[parent] if parent >= 0 else -1))
            self._rows[:, place] = rows
            self._facts[:, place] = self.state.facts_of(job)
            self._serial[place] = self._serials[job_id] = self._added
            self._added += 1
            self.job_ids.append(job_id)
            self._place[job_id] = place

    def remove(self, job_ids: Iterable[str]) -> None:
        """Jobs wait no longer, and the last job takes their place; raises NotFoundError for one unknown."""
        for job_id in job_ids:
            place = self._place.pop(job_id, None)
            if place is None:
                raise NotFoundError(f"Job {job_id!r} is not in the queue.")
            del self._serials[job_id]
            for level, row in zip(self._levels, self._rows[:, place].tolist(), strict=True):
                level.release(row)
            last = len(self.job_ids) - 1
            if place != last:
                moved = self.job_ids[last]
                self.job_ids[place] = moved
                self._place[moved] = place
                self._rows[:, place] = self._rows[:, last]
                self._facts[:, place] = self._facts[:, last]
                self._serial[place] = self._serial[last]
            self.job_ids.pop()

    def estimate(self, at_s: float) -> Floats:
        """P50 run times (s) as known at `at_s` (Unix time), shape (jobs,), in the order of `job_ids`."""
        if not self.job_ids:
            return np.empty(0)
        for level, changed, table in zip(self._levels, self._changes, self.state.tables, strict=True):
            if changed:
                row_of = level.row_of
                level.stale.update(row_of[key] for key in changed if key in row_of)
                changed.clear()
            if level.stale:
                level.refresh(table, self._serials)
        scores = self._plan.scores(
            self._levels, self._rows, self._facts, self._serial[: len(self.job_ids)], at_s
        )
        return self.scorer.p50_of(scores)


class _ScoringPlan:
    """Which shape functions read which statistic of which level, worked out once."""

    def __init__(self, scorer: DurationScorer) -> None:
        self._state = scorer.state
        self._intercept = scorer.log_head.intercept
        self._functions: dict[str, list[tuple[BinFinder, Floats]]] = {}
        self._pairs: list[tuple[str, str, int, Floats]] = []
        pair_cuts: dict[str, Floats] = {}
        for term in scorer.log_head.terms:
            names = [scorer.log_head.feature_names[feature] for feature in term.features]
            if len(names) == 1:
                self._functions.setdefault(names[0], []).append((BinFinder(term.cuts[0]), term.scores))
                continue
            for name, cuts in zip(names, term.cuts, strict=True):
                if not np.array_equal(pair_cuts.setdefault(name, cuts), cuts):
                    raise BadInputError(
                        f"The feature {name!r} has other cuts in each of its pairs.",
                        remedy="Use DurationScorer.predict for this model.",
                    )
            self._pairs.append((names[0], names[1], term.scores.shape[1], term.scores.ravel()))
        self._pair_bins = {name: BinFinder(cuts) for name, cuts in pair_cuts.items()}

    def scores(
        self,
        levels: Sequence[_LevelRows],
        rows: NDArray[np.intp],
        facts: Floats,
        serials: NDArray[np.int64],
        at_s: float,
    ) -> Floats:
        """The log head's scores, shape (jobs,)."""
        jobs = len(serials)
        total = np.full(jobs, self._intercept)
        bins: dict[str, NDArray[np.intp]] = {}
        means: list[Floats] = []
        raw_means: list[Floats] = []
        state = self._state
        for position, (name, level) in enumerate(zip(state.levels, levels, strict=True)):
            used = len(level.keys)
            value = dict(zip(_COLUMNS, level.values[:, :used], strict=True))
            mean, raw = self._means(position, value, level.parents[:used], means, raw_means, at_s)
            means.append(mean)
            raw_means.append(raw)
            with np.errstate(divide="ignore", invalid="ignore"):
                log_raw = np.where(raw > 0, np.log(raw), np.nan)
            features = {"mean": mean, "raw_mean": log_raw, "soft_mean": value["soft_mean"]}
            if not state.coarse[position]:
                features |= {statistic: value[statistic] for statistic in _COPIED}
                features["log_count"] = np.log1p(value["count"])
            if state.tracks_flights[position]:
                features["log_running"] = np.log1p(value["running"])
                features["log_oldest_age"] = np.log1p(np.maximum(at_s - value["oldest_s"], 0.0))
                features[_GAP] = _gap(value["submit_s"], at_s)
            of_key = np.zeros(used)
            own = rows[position, :jobs]
            for statistic, values in features.items():
                feature = f"{name}:{statistic}"
                for finder, scores in self._functions.get(feature, ()):
                    of_key += scores.take(finder.of(values))
                if feature in self._pair_bins:
                    bins[feature] = self._pair_bins[feature].of(values)[own]
            total += of_key[own]
            if state.tracks_flights[position]:
                newest = np.flatnonzero(level.newest[own] == serials)
                if newest.size:
                    before = features[_GAP][own[newest]]
                    after = _gap(value["earlier_submit_s"][own[newest]], at_s)
                    self._correct(f"{name}:{_GAP}", newest, before, after, total, bins)
        for name, column in zip(state.facts, facts, strict=True):
            for finder, scores in self._functions.get(name, ()):
                total += scores.take(finder.of(column[:jobs]))
            if name in self._pair_bins:
                bins[name] = self._pair_bins[name].of(column[:jobs])
        for one, other, width, table in self._pairs:
            total += table[bins[one] * width + bins[other]]
        return total

    def _correct(
        self,
        feature: str,
        jobs: NDArray[np.intp],
        before: Floats,
        after: Floats,
        total: Floats,
        bins: Mapping[str, NDArray[np.intp]],
    ) -> None:
        """The newest job of a key looks at the submission before its own: `after` in place of `before`."""
        for finder, scores in self._functions.get(feature, ()):
            total[jobs] += scores.take(finder.of(after))
            total[jobs] -= scores.take(finder.of(before))
        if feature in bins:
            bins[feature][jobs] = self._pair_bins[feature].of(after)

    def _means(
        self,
        position: int,
        value: Mapping[str, Floats],
        parents: NDArray[np.intp],
        means: Sequence[Floats],
        raw_means: Sequence[Floats],
        at_s: float,
    ) -> tuple[Floats, Floats]:
        """Decayed means of log run time and of run time, each shrunk towards the parent's."""
        settings = self._state.settings
        parent = self._state.parents[position]
        if parent >= 0:
            above, raw_above = means[parent][parents], raw_means[parent][parents]
        else:
            above = raw_above = np.full(len(parents), np.nan)
        ended = value["count"] > 0
        decay = np.exp2(np.minimum(value["time_s"] - at_s, 0.0) / settings.half_life_s)
        prior = np.where(np.isnan(above), 0.0, settings.prior_jobs)
        raw_prior = np.where(np.isnan(raw_above), 0.0, settings.prior_jobs)
        weight = np.maximum(value["weight"] * decay + prior, _LEAST_WEIGHT)
        mean = (value["log_sum"] * decay + np.where(prior > 0, prior * above, 0.0)) / weight
        raw = (value["raw_sum"] * decay + np.where(raw_prior > 0, raw_prior * raw_above, 0.0)) / weight
        return np.where(ended, mean, above), np.where(ended, raw, raw_above)


def _gap(since_s: Floats, at_s: float) -> Floats:
    return np.where(since_s > NEVER_S, np.log1p(np.maximum(at_s - since_s, 0.0)), np.nan)
