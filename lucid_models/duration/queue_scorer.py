"""Estimates a whole waiting queue at every decision, fast: features and scores once a key, not once a job.

What the duration model knows of a job is statistics of its keys (its user, its name, ...). So the queue keeps
one row per key that occurs in it (`queue_rows`); a decision brings the rows with other statistics
up to date, computes the means of all rows, looks up the shape functions of values that passed into another
bin, and adds the levels up job by job. What pairs of features say is added up again for the jobs alone whose
bins in pairs changed. Only NumPy is needed, and the estimates equal those of `DurationScorer.predict`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foundation.errors import BadInputError, NotFoundError
from lucid_models.additive_scorer import Term
from lucid_models.bin_finder import BinFinder
from lucid_models.duration.calibration import Owner, calibrated_with
from lucid_models.duration.features import DurationFeatureState
from lucid_models.duration.queue_rows import (
    FEATURES,
    GAP,
    MOVING,
    KeyRows,
    Readings,
    StepFunctions,
    with_room,
)
from lucid_models.duration.scorer import DurationScorer

Floats = NDArray[np.float64]
Positions = NDArray[np.intp]

_FIRST_CAPACITY = 64
_OWN_GAP = MOVING[-1]


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
        self._head = _Head(scorer)
        self._keys = KeyRows(self.state, self._head.step_functions())
        self._jobs = _JobColumns(len(self.state.levels), len(self.state.facts))
        self._owners: dict[Owner, int] = {}  # those of jobs that waited, numbered as they come
        self._place: dict[str, int] = {}
        self._serials: dict[str, int] = {}
        self._added = 0

    def __len__(self) -> int:
        return len(self.job_ids)

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._place

    def add(self, jobs: Iterable[Mapping[str, Any]]) -> None:
        """Jobs begin to wait; raises BadInputError for an id that waits already."""
        jobs_added = list(jobs)
        read = zip(
            jobs_added,
            self.state.keys_of_all(jobs_added),
            self.state.facts_of_all(jobs_added).tolist(),
            strict=True,
        )
        for job, keys, facts in read:
            job_id = str(job.get("job_id"))
            if job_id in self._place:
                raise BadInputError(f"Job {job_id!r} is in the queue already.", remedy="Remove it first.")
            place = len(self.job_ids)
            score, bins = self._head.score_facts(facts)
            self._jobs.put(place, self._keys.use(keys), score, bins, self._added)
            self._jobs.owner[place] = self._owners.setdefault(calibrated_with(job), len(self._owners))
            self._serials[job_id] = self._added
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
            self._keys.release(self._jobs.rows[:, place].tolist())
            moved = self.job_ids.pop()
            if moved != job_id:
                self.job_ids[place] = moved
                self._place[moved] = place
                self._jobs.move(len(self.job_ids), place)

    def estimate(self, at_s: float) -> Floats:
        """P50 run times (s) as known at `at_s` (Unix time), calibrated, shape (jobs,), in the order of
        `job_ids`.
        """
        jobs, keys, count = self._jobs, self._keys, len(self.job_ids)
        if not count:
            return np.empty(0)
        changed = keys.follow(at_s, self._serials)
        rows = jobs.rows[:, :count] + keys.firsts[:, None]
        newest = keys.newest.take(rows) == jobs.serial[:count]
        stale = jobs.pairs_stale[:count]
        if changed.size:
            concerned = np.zeros(len(keys.newest), dtype=bool)
            concerned[changed] = True
            stale |= concerned.take(rows).any(axis=0)
        if self._head.newest_in_pairs:
            is_newest = jobs.is_newest[:, :count]
            stale |= (newest != is_newest).any(axis=0)
            is_newest[:] = newest
        at = stale.nonzero()[0]
        if at.size:
            jobs.pairs[at] = self._head.score_pairs(
                keys.pair_bins,
                rows.take(at, axis=1),
                newest.take(at, axis=1),
                jobs.fact_bins.take(at, axis=1),
            )
            stale[:] = False
        rows *= 2
        rows += newest
        total = keys.scores.take(rows).sum(axis=0)
        total += jobs.facts[:count]
        total += jobs.pairs[:count]
        waiting, of_job = np.unique(jobs.owner[:count], return_inverse=True)
        owners = list(self._owners)
        offsets = self.scorer.calibration.offsets_of_jobs([owners[number] for number in waiting.tolist()])
        return self.scorer.p50_of(total, offsets[:, 0].take(of_job))


class _JobColumns:
    """What is known of the jobs, by place: their row in each level, and what was worked out of them."""

    def __init__(self, levels: int, facts: int) -> None:
        self.rows = np.zeros((levels, _FIRST_CAPACITY), dtype=np.intp)  # each counted from the level's first
        self.is_newest = np.zeros((levels, _FIRST_CAPACITY), dtype=bool)  # of its key, when last looked
        self.facts = np.zeros(_FIRST_CAPACITY)  # the scores of a job's plain facts, and the intercept
        self.fact_bins = np.zeros((facts, _FIRST_CAPACITY), dtype=np.intp)  # where pairs need them
        self.serial = np.zeros(_FIRST_CAPACITY, dtype=np.int64)
        self.owner = np.zeros(_FIRST_CAPACITY, dtype=np.intp)  # the number of its owner
        self.pairs = np.zeros(_FIRST_CAPACITY)  # the scores of pairs, added up
        self.pairs_stale = np.zeros(_FIRST_CAPACITY, dtype=bool)

    def put(self, place: int, rows: Sequence[int], facts: float, bins: Sequence[int], serial: int) -> None:
        """A job takes a place."""
        if place == len(self.serial):
            for name, columns in vars(self).items():
                setattr(self, name, with_room(columns, place, place))
        self.rows[:, place] = rows
        self.facts[place] = facts
        self.fact_bins[:, place] = bins
        self.serial[place] = serial
        self.pairs_stale[place] = True

    def move(self, place: int, to: int) -> None:
        """A job takes another's place."""
        for columns in (self.rows, self.is_newest, self.facts, self.fact_bins, self.serial, self.owner):
            columns[..., to] = columns[..., place]
        self.pairs_stale[to] = True


class _Head:
    """The log head's shape functions, by what they read: keys' statistics, plain facts, or two of these."""

    def __init__(self, scorer: DurationScorer) -> None:
        self._state, self._intercept = scorer.state, scorer.log_head.intercept
        self._functions: dict[str, list[tuple[Floats, Floats]]] = {}
        self._pair_cuts: dict[str, Floats] = {}
        pairs: list[tuple[str, str, Term]] = []
        for term in scorer.log_head.terms:
            names = [scorer.log_head.feature_names[feature] for feature in term.features]
            if len(names) == 1:
                self._functions.setdefault(names[0], []).append((term.cuts[0], term.scores))
                continue
            for name, cuts in zip(names, term.cuts, strict=True):
                if not np.array_equal(self._pair_cuts.setdefault(name, cuts), cuts):
                    raise BadInputError(
                        f"The feature {name!r} has other cuts in each of its pairs.",
                        remedy="Use DurationScorer.predict for this model.",
                    )
            pairs.append((names[0], names[1], term))
        self._facts = [
            (
                [(BinFinder(cuts), scores.tolist()) for cuts, scores in self._functions.get(name, ())],
                BinFinder(self._pair_cuts[name]) if name in self._pair_cuts else None,
            )
            for name in self._state.facts
        ]
        self._set_out(pairs)

    def _set_out(self, pairs: Sequence[tuple[str, str, Term]]) -> None:
        """Note where the bins of pairs are found (features of keys first, then facts), and their scores."""
        in_pairs = [
            (name, at, feature)
            for at, level in enumerate(self._state.levels)
            for feature, statistic in enumerate(FEATURES)
            if (name := f"{level}:{statistic}") in self._pair_cuts
        ]
        position = {name: at for at, (name, _, _) in enumerate(in_pairs)}
        position |= {name: len(in_pairs) + at for at, name in enumerate(self._state.facts)}
        self._level = np.array([level for _, level, _ in in_pairs], dtype=np.intp)
        self._feature = np.array([[feature] for _, _, feature in in_pairs], dtype=np.intp).reshape(-1, 1)
        self._is_gap = self._feature == FEATURES.index(GAP)
        self.newest_in_pairs = bool(self._is_gap.any())
        self._sides = np.array([[position[name] for name in pair[:2]] for pair in pairs], dtype=np.intp)
        self._width = np.array([[term.scores.shape[1]] for _, _, term in pairs], dtype=np.intp)
        sizes = np.array([term.scores.size for _, _, term in pairs], dtype=np.intp)
        self._start = (np.cumsum(sizes) - sizes)[:, None]
        self._tables = np.concatenate([*(term.scores.ravel() for _, _, term in pairs), ()])

    def step_functions(self) -> StepFunctions:
        """What is read off the FEATURES of all levels, level after level."""
        return StepFunctions(
            [
                Readings(self._functions.get(name, ()), self._pair_cuts.get(name))
                for level in self._state.levels
                for statistic in FEATURES
                for name in [f"{level}:{GAP if statistic == _OWN_GAP else statistic}"]
            ]
        )

    def score_facts(self, facts: Sequence[float]) -> tuple[float, list[int]]:
        """The scores of a job's plain facts, added up with the intercept, and their bins in pairs."""
        total = self._intercept
        bins = []
        for value, (functions, in_pairs) in zip(facts, self._facts, strict=True):
            for finder, scores in functions:
                total += scores[finder.of_one(value)]
            bins.append(0 if in_pairs is None else in_pairs.of_one(value))
        return total, bins

    def score_pairs(
        self, key_bins: Positions, rows: Positions, newest: NDArray[np.bool_], fact_bins: Positions
    ) -> Floats:
        """The scores of pairs, added up, shape (jobs,), of jobs with these rows, shape (levels, jobs)."""
        if not self._tables.size:
            return np.zeros(rows.shape[1])
        # The newest job of a key has the feature behind the others' gap.
        feature = self._feature + (self._is_gap & newest.take(self._level, axis=0))
        places = feature * key_bins.shape[1] + rows.take(self._level, axis=0)
        bins = np.concatenate([key_bins.take(places), fact_bins])
        one, other = bins.take(self._sides.T, axis=0)
        scores: Floats = self._tables.take(one * self._width + other + self._start).sum(axis=0)
        return scores
