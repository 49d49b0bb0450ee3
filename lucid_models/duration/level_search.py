"""Finds which facts of jobs, and which combinations of them, predict how long jobs run: in a log's own
history.

The newest jobs of the training table are replayed once with a level for every single part and every pair,
and once more for each round that joins a further part to a level that was chosen. Each candidate thus has its
causal statistics, which are what the model itself would know. Levels are taken one after another (greedy
forward selection): given what is predicted so far, a candidate moves the prediction towards its own mean and
last run times, by weights that least absolute deviations give on the earlier jobs, and the one that lowers
the error of the later jobs most is taken. What the choice costs does not depend on the log's length.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lucid_models.duration.bucket_learning import learn_buckets
from lucid_models.duration.features import DurationFeatureSettings, DurationFeatureState
from lucid_models.duration.job_columns import JobColumns, KeyColumn
from lucid_models.duration.job_replay import replay
from lucid_models.duration.levels import ALL, NAIVE, PARTS, TOP, Level, hierarchy, is_coarser, level_name
from lucid_models.duration.name_buckets import NameBuckets
from lucid_models.duration.tables import (
    ends_and_run_times,
    epoch_seconds,
    job_mappings,
    job_stream,
    usable_parts,
)
from lucid_models.groups import joint_codes
from lucid_models.series.windows import DAY_S

Floats = NDArray[np.float64]
Parts = tuple[str, ...]

# A level of which hardly any key comes twice predicts nothing: at least this share of jobs must not be the
# first of their key.
_LEAST_RECURRING = 0.05
# The jobs that ended first are learned from, the others judge: a random split would let runs of one script
# stand on both sides.
_LEARNED_SHARE = 0.7
# How sure a key is: jobs with one finished job of it, with some, with many.
_COUNT_EDGES = (1.0, 2.0, 6.0, np.inf)
_MOVERS = ("mean", "soft_mean", "last", "median")
_ROUNDS_OF_WEIGHTS = 4
# Closer to the truth than this (log seconds), least absolute deviations turn into least squares.
_EVEN_WITHIN = 0.25
_LEAST_JOBS = 100
_STANDARD_ERRORS = 3.0
# An amount of memory is that of a script, which is submitted for days: a level with it must also pay by
# several standard errors over days, of which there must be so many (decision 74).
_OF_SCRIPTS = "requested_memory"
_LEAST_DAYS = 10
_DAY_STANDARD_ERRORS = 2.0
# What people ask about, and the family of a name, which answers for names that are new.
_ALWAYS = ("size", "virtual_cluster", "user", "family", "name")
_LN_10 = float(np.log(10.0))
_MOST_PARTS = 4  # of a level
_MOST_JOINED = 3  # of a level that is only tried for the naive estimate
# More of the newest jobs cost time and say the same of a naive estimate.
_MOST_JOBS = 4_000


@dataclass(frozen=True)
class LevelSearchSettings:
    """What the search may cost and when it ends.

    `trial_jobs`: the newest jobs that it looks at, or those that ended within the last `trial_days` if they
    are more, at most `most_trial_jobs`: a day of thousands of jobs is a few crowds; `most_levels`: of those
    that are chosen; `least_gain`: by which share of itself a level must lower the error to be taken.
    """

    trial_jobs: int = 20_000
    trial_days: float = 4.0
    most_trial_jobs: int = 60_000
    most_levels: int = 12
    least_gain: float = 0.001


@dataclass(frozen=True)
class LevelChoice:
    """The levels to learn from, the buckets of names that they need (None: none), and what was measured."""

    levels: tuple[Level, ...]
    buckets: NameBuckets | None = None
    record: dict[str, Any] = field(default_factory=dict)


def choose_levels(
    jobs: pd.DataFrame,
    features: DurationFeatureSettings,
    settings: LevelSearchSettings,
    known_until_s: float = np.inf,
) -> LevelChoice:
    """The levels that predict run times of `jobs`, in the order of submission.

    Run times of jobs that ended after `known_until_s` (Unix time) are not known. Every part of a chosen
    level, and what people ask about (_ALWAYS), also has a level of its own, with means alone: it answers for
    keys that are new, and can say so. A table that is too small to try has a level for each of its parts,
    those with the fewest keys first.
    """
    trial = _Trial.of(jobs, settings, known_until_s)
    parts = usable_parts(jobs)
    buckets = _buckets(trial.jobs[trial.learned]) if "bucket" in parts else None
    search = _Search(trial, parts, features, buckets)
    if not search.can_measure:
        record = {"why": f"{len(trial.jobs)} jobs are too few to try levels on", "chosen": []}
        alone = [(part,) for part in parts if part != "bucket"]
        alone.sort(key=lambda one: (search.count_keys(one), _rank(one)))
        return LevelChoice(hierarchy(alone), None, record)
    search.offer_all()
    search.run(settings)
    chosen = [parts for parts, _ in search.chosen]
    parts_in_use = {*_ALWAYS, *(part for parts in chosen for part in parts)}
    carried = {(part,) for part in parts_in_use if (part,) in search.keys} - set(chosen)
    in_order = _the_best_last({*chosen, *carried}, search.errors_alone)
    with_buckets = any("bucket" in one for one in chosen)
    return LevelChoice(
        hierarchy(in_order, means_only=sorted(carried)),
        _buckets(jobs) if with_buckets else None,
        search.record(),
    )


def _buckets(jobs: pd.DataFrame) -> NameBuckets:
    return learn_buckets(jobs["name"].dropna().astype(str))


def further_levels(
    jobs: pd.DataFrame, state: DurationFeatureState, settings: LevelSearchSettings
) -> dict[str, Any]:
    """What levels that a model with this state does not have would bring on the newest of `jobs`.

    A record as that of `LevelChoice`: its errors begin where those of the model's levels are taken that have
    more than means.
    """
    trial = _Trial.of(jobs, settings)
    search = _Search(trial, usable_parts(jobs), state.settings, state.buckets)
    if not search.can_measure:
        return {"why": f"{len(trial.jobs)} jobs are too few to try levels on", "chosen": []}
    search.begin_with([level.parts for level in state.layout.of if level.last_runs])
    search.offer_all()
    search.run(settings)
    return search.record()


def _the_best_last(levels: Iterable[Parts], errors: Mapping[Parts, float]) -> list[Parts]:
    """Levels by what each predicts alone, the least first, but a level behind all that are coarser."""
    waiting = sorted(levels, key=lambda parts: (-errors[parts], _rank(parts)))
    placed: list[Parts] = []
    while waiting:
        ready = (one for one in waiting if not any(is_coarser(other, one) for other in waiting))
        placed.append(next(ready))
        waiting.remove(placed[-1])
    return placed


def _rank(parts: Parts) -> list[int]:
    return [PARTS.index(part) for part in parts]


@dataclass(frozen=True)
class _Trial:
    """The jobs of which run times became known last, in the order of submission: those that ended earlier are
    learned from, the others judge.

    By when jobs ended: among those submitted lately, only the short ones have.
    """

    jobs: pd.DataFrame
    learned: NDArray[np.bool_]

    @classmethod
    def of(cls, jobs: pd.DataFrame, settings: LevelSearchSettings, known_until_s: float = np.inf) -> "_Trial":
        """The newest of the jobs that ended by `known_until_s`, as many as the settings say."""
        end_s, duration_s = ends_and_run_times(jobs)
        ended = np.flatnonzero(~np.isnan(duration_s) & (end_s <= known_until_s))
        in_order = ended[np.argsort(end_s[ended], kind="stable")]
        submitted_s = epoch_seconds(jobs, "submit_time").max(initial=-np.inf)
        since_s = min(known_until_s, submitted_s) - settings.trial_days * DAY_S
        lately = int(np.count_nonzero(end_s[ended] > since_s))
        most = max(settings.trial_jobs, min(lately, settings.most_trial_jobs))
        in_order = in_order[-most:]
        rows, earlier = np.sort(in_order), in_order[: int(_LEARNED_SHARE * len(in_order))]
        return cls(jobs.iloc[rows].reset_index(drop=True), np.isin(rows, earlier))


class _Search:
    """Candidates, what each knows of the trial's jobs, and the prediction as levels are taken."""

    def __init__(
        self,
        trial: _Trial,
        parts: Sequence[str],
        features: DurationFeatureSettings,
        buckets: NameBuckets | None,
    ) -> None:
        self._jobs, self._learned, self._judged = trial.jobs, trial.learned, ~trial.learned
        self._features, self._buckets = features, buckets
        self._parts = tuple(sorted(parts, key=PARTS.index))
        columns = JobColumns(job_mappings(trial.jobs))
        self._codes = {part: _codes(columns.part(part, self._bucket_of)) for part in self._parts}
        self.keys: dict[Parts, int] = {(): 1}  # the candidates, and how many keys each has
        self._moves: dict[Parts, Floats] = {}
        self.errors_alone: dict[Parts, float] = {}  # of the prediction that knows this level only
        self.chosen: list[tuple[Parts, float]] = []
        self._taken: set[Parts] = set()
        self.can_measure = min(int(self._learned.sum()), int(self._judged.sum())) >= _LEAST_JOBS
        if self.can_measure:
            state = self._state([TOP])
            stream = job_stream(self._jobs, state)
            self._submit_s = stream.submit_s
            self._truth = np.log(np.maximum(stream.duration_s, 1.0))
            usual = replay(state, stream)[:, state.names.index("all:mean")]
            self._usual = np.where(np.isnan(usual), np.median(self._truth[self._learned]), usual)
            self._predicted = self._usual
            self.errors = [self._error(self._predicted)]

    def offer_all(self) -> None:
        """Make candidates of all parts and pairs of parts."""
        self._offer(combinations(self._parts, 1))
        self._offer(combinations(self._parts, 2))

    def begin_with(self, levels: Iterable[Parts]) -> None:
        """Take these levels, whatever they bring; their error is what others start from."""
        self._offer(tuple(sorted(parts, key=PARTS.index)) for parts in levels if set(parts) <= {*self._parts})
        for parts in list(self._moves):
            self._predicted = self._moved(self._predicted, parts)
            self._taken.add(parts)
        self.errors = [self._error(self._predicted)]

    def run(self, settings: LevelSearchSettings) -> None:
        """Take levels until none lowers the error by enough."""
        while len(self.chosen) < settings.most_levels:
            others = (parts for parts in self._moves if parts not in self._taken)
            trials = {parts: self._moved(self._predicted, parts) for parts in others}
            errors = {parts: self._error(moved) for parts, moved in trials.items()}
            # Of two that are as good the one with fewer keys: it recurs more often and meets fewer new jobs.
            steady = (parts for parts in errors if self._is_steady(parts, trials[parts]))
            best = min(steady, key=lambda parts: (errors[parts], self.keys[parts], _rank(parts)), default=())
            if not best or errors[best] > (1.0 - settings.least_gain) * self.errors[-1]:
                break
            if not self._is_beyond_chance(trials[best]):
                break
            self.chosen.append((best, self.errors[-1] - errors[best]))
            self._taken.add(best)
            self._predicted = trials[best]
            self.errors.append(errors[best])
            if len(best) < _MOST_PARTS:
                further = ({*best, part} for part in self._parts if part not in best)
                self._offer(tuple(sorted(parts, key=PARTS.index)) for parts in further)

    def record(self) -> dict[str, Any]:
        """What was tried and what each level brought: mean absolute errors of log10 run time."""
        return {
            "jobs": len(self._jobs),
            "judged_jobs": int(self._judged.sum()),
            "candidates": len(self.keys) - 1,
            "error_of_all_jobs": round(self.errors[0] / _LN_10, 6),
            "error": round(self.errors[-1] / _LN_10, 6),
            "chosen": [
                {"level": level_name(parts), "keys": self.keys[parts], "gain": round(gain / _LN_10, 6)}
                for parts, gain in self.chosen
            ],
        }

    def _offer(self, candidates: Iterable[Parts]) -> None:
        """Make candidates of what divides the jobs further than its parts do, and learn what they know."""
        fresh = []
        for parts in candidates:
            if parts in self.keys:
                continue
            keys = self.count_keys(parts)
            coarser = [self.keys.get(fewer) for fewer in combinations(parts, len(parts) - 1)]
            # As many keys as with one part less: that part follows from the others and adds nothing (a name's
            # family, a user's only group), but would be the best candidate whenever the other is.
            if keys in coarser or keys == 1 or keys > (1.0 - _LEAST_RECURRING) * len(self._jobs):
                continue
            self.keys[parts] = keys
            fresh.append(parts)
        if fresh:
            self._moves |= self._known_of(fresh)
            self.errors_alone |= {parts: self._error(self._moved(self._usual, parts)) for parts in fresh}

    def count_keys(self, parts: Parts) -> int:
        """How many different keys the trial's jobs have."""
        codes = joint_codes([self._codes[part] for part in parts], len(self._jobs))
        return int(codes.max()) + 1

    def _known_of(self, candidates: Sequence[Parts]) -> dict[Parts, Floats]:
        """What each candidate's keys know of each job: _MOVERS, and how many jobs ended; shape (5, jobs)."""
        state = self._state([TOP, *(Level(parts, TOP.name, flights=False) for parts in candidates)])
        rows = replay(state, job_stream(self._jobs, state))
        at = {name: position for position, name in enumerate(state.names)}
        return {
            parts: rows[:, [at[f"{level_name(parts)}:{name}"] for name in (*_MOVERS, "log_count")]].T
            for parts in candidates
        }

    def _moved(self, predicted: Floats, parts: Parts) -> Floats:
        """A prediction, moved towards what the keys of a level predict."""
        *known, log_count = self._moves[parts]
        count = np.expm1(np.nan_to_num(log_count))
        sure = [(count > low - 0.5) & (count < high - 0.5) for low, high in pairwise(_COUNT_EDGES)]
        # A weight for each range of counts: a mean of one run is worth less of the way than one of many.
        # Where a key knows nothing it moves nothing, so that the error over all jobs compares levels of any
        # reach.
        away = [np.nan_to_num(one - predicted) for one in known]
        moves = np.stack([one * enough for one in away for enough in sure])
        missing = self._truth - predicted
        moved: Floats = predicted + _least_deviation(moves[:, self._learned], missing[self._learned]) @ moves
        return moved

    def _is_beyond_chance(self, moved: Floats) -> bool:
        """Whether the error falls by several standard errors of its fall: the best of many candidates looks
        good by chance.
        """
        # The winner of hundreds of candidates is biased upwards (the optimiser's curse): three standard
        # errors are about what the best of a thousand that bring nothing reaches.
        falls = self._falls(moved)
        return bool(falls.mean() > _STANDARD_ERRORS * falls.std() / np.sqrt(falls.size))

    def _is_steady(self, parts: Parts, moved: Floats) -> bool:
        """Whether a level that scripts make brings something on most days."""
        if _OF_SCRIPTS not in parts:
            return True
        # Jobs of one script and day fall together, so days and not jobs are what is counted.
        days = np.unique(self._submit_s[self._judged] // DAY_S, return_inverse=True)[1]
        if days.max() + 1 < _LEAST_DAYS:
            return False
        of_days = np.bincount(days, weights=self._falls(moved)) / np.bincount(days)
        spread = of_days.std(ddof=1) / np.sqrt(of_days.size)
        return bool(of_days.mean() > _DAY_STANDARD_ERRORS * spread)

    def _falls(self, moved: Floats) -> Floats:
        """By how much the error of each of the later jobs falls, in the order of submission."""
        falls: Floats = np.abs(self._predicted - self._truth) - np.abs(moved - self._truth)
        return falls[self._judged]

    def _error(self, predicted: Floats) -> float:
        """Mean absolute error of log run time of the later jobs, without what linear algebra rounds
        differently from processor to processor.
        """
        return round(float(np.abs(predicted - self._truth)[self._judged].mean()), 9)

    def _state(self, levels: Sequence[Level]) -> DurationFeatureState:
        return DurationFeatureState(levels, (), self._features, self._buckets)

    def _bucket_of(self, name: str) -> str | None:
        return None if self._buckets is None else self._buckets.bucket_of(name)


def _codes(column: KeyColumn) -> NDArray[np.intp]:
    """A number for each key (unknown ones share one), job by job; several names may be one family."""
    number: dict[str | None, int] = {}
    of_keys = [number.setdefault(key, len(number)) for key in column.keys]
    return np.array(of_keys, dtype=np.intp)[column.of]


def _least_deviation(moves: Floats, target: Floats) -> Floats:
    """Weights of moves, shape (moves, jobs), with nearly the least mean absolute deviation from `target`
    (jobs,): least squares, weighed anew.
    """
    # Iteratively reweighted least squares: a residual r weighs 1 / |r|, so that its square counts as |r|
    # (Schlossmacher, JASA 1973). The squared error would be decided by the few jobs that hang or crash.
    weights = np.ones(len(target))
    slopes = np.zeros(len(moves))
    for _ in range(_ROUNDS_OF_WEIGHTS):
        weighed = moves * weights
        # Row by row: products of two matrices wake threads that wait longer than these few rows take.
        products = np.stack([moves @ row for row in weighed])
        # A ridge of one job's weight: moves that say the same, or nothing, would leave the matrix singular.
        squares = products + np.eye(len(moves))
        slopes = np.asarray(np.linalg.solve(squares, weighed @ target), dtype=np.float64)
        weights = 1.0 / np.maximum(np.abs(target - slopes @ moves), _EVEN_WITHIN)
    return slopes


def best_naive_level(
    jobs: pd.DataFrame, choice: LevelChoice, settings: DurationFeatureSettings
) -> tuple[str, ...]:
    """The parts of the level with the naive estimate of log run time nearest to the truth, on average.

    A naive estimate needs no training, so that the whole history judges it: each job by what had ended when
    it was submitted. Even a log that is too short to choose levels by what they add to one another tells
    this.

    `jobs` have run times and are in the order of submission. Candidates are the chosen levels and what up to
    three of their parts make together; of two that are as good, the one of more parts is taken, which falls
    back on the other.
    """
    newest = jobs.tail(_MOST_JOBS).reset_index(drop=True)
    candidates = [replace(level, naive=True, last_runs=False, flights=False) for level in _candidates(choice)]
    state = DurationFeatureState(candidates, (), settings, choice.buckets)
    stream = job_stream(newest, state)
    truth = np.log(np.maximum(stream.duration_s, 1.0))
    rows = replay(state, stream)
    estimates = {
        level.parts: rows[:, state.names.index(f"{level.name}:{NAIVE}")]
        for level in candidates
        if level.name != ALL
    }
    usual = float(np.median(truth))
    errors = {
        parts: round(float(np.abs(np.nan_to_num(estimate, nan=usual) - truth).mean()), 9)
        for parts, estimate in estimates.items()
    }
    return min(errors, key=lambda parts: (errors[parts], -len(parts)), default=())


def _candidates(choice: LevelChoice) -> tuple[Level, ...]:
    chosen = [level.parts for level in choice.levels]
    alone = sorted((parts[0] for parts in chosen if len(parts) == 1), key=PARTS.index)
    return hierarchy([*chosen, *(joined for joined in _joined(alone) if joined not in chosen)])


def _joined(parts: list[str]) -> Iterator[tuple[str, ...]]:
    """Two and more of the parts, none of which follows from another (a name's family from the name)."""
    for number in range(2, _MOST_JOINED + 1):
        for joined in combinations(parts, number):
            if not any(is_coarser((one,), (other,)) for one in joined for other in joined):
                yield joined
