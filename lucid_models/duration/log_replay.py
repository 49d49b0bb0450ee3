"""Lets the calibration of run times live through a log, so that each job's quantiles hold what was known.

What `RunTimeCalibration` does event by event is done here for a whole log, in three passes: which jobs are in
flight, of which groups and weight (`flight_book`); what each group's jobs had shown by each submission, as
running sums (`flight_book`); and the slow shift, job by job. Both lead to the same calibration, but for
rounding.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foundation.errors import BadInputError
from foundation.progress import Progress
from lucid_models.duration.calibration import OWNER_PRIOR_JOBS, AwaitedJob, RunTimeCalibration
from lucid_models.duration.features import DurationFeatureSettings, DurationFeatureState
from lucid_models.duration.flight_book import (
    AFTER_LOOK,
    ALL_JOBS,
    END,
    NEVER,
    NO_GROUP,
    START,
    SUBMISSION,
    SUBMITTED,
    Asked,
    FlightBook,
    ResidualSums,
    turn,
)
from lucid_models.duration.heads import Floats, Heads, TrainingJobs, crowd_weights
from lucid_models.duration.job_replay import JobStream, replay, stream_summary
from lucid_models.duration.level_search import LevelSearchSettings, best_naive_level, choose_levels
from lucid_models.duration.levels import with_naive_estimate
from lucid_models.duration.residuals import (
    EXPECTED,
    LEVELS,
    PRIOR_JOBS,
    SHAPE,
    Name,
    ResidualCounts,
    RunningJob,
    SlowShifts,
    hazards,
    quantiles_of_all,
)
from lucid_models.duration.scorer import MAX_DURATION_S, DurationScorer, ResidualQuantiles
from lucid_models.duration.tables import (
    by_submission,
    choose_facts,
    ends_and_run_times,
    epoch_seconds,
    job_stream,
)

MIN_JOBS = 100
# A log of fewer jobs also reads the naive estimate, and leans on it as far as it is the better one.
MANY_JOBS = 10_000
_RESIDUAL_KNOTS = 12
# The head itself weighs as much in a median as so many residuals.
_TRUSTED_RESIDUALS = 200


@dataclass(frozen=True)
class LogSettings:
    """How features are found. Run times that became known after `learned_until_s` (Unix time) are not learned
    from; what happens after `known_until_s` is not known at all.
    """

    features: DurationFeatureSettings
    levels: LevelSearchSettings
    known_until_s: float
    learned_until_s: float


@dataclass(frozen=True)
class ReplayedLog:
    """The replayed training table: the state at its end, and the features of the jobs of `stream` that were
    submitted, shape (submitted, features).

    Masks of the stream: the jobs `submitted` by the end of the log, those that had `ended` by then, those
    `trained`, which were submitted and had ended by when learning ends, and the `later` ones, submitted
    after.
    """

    state: DurationFeatureState
    stream: JobStream
    submitted: NDArray[np.bool_]
    ended: NDArray[np.bool_]
    trained: NDArray[np.bool_]
    later: NDArray[np.bool_]
    features: Floats
    settings: LogSettings
    levels: Mapping[str, Any]

    def rows_of(self, jobs: NDArray[np.bool_]) -> Floats:
        """The features of some of the submitted jobs, by a mask of the stream."""
        return self.features[jobs[self.submitted]]

    def training_jobs(self, jobs: NDArray[np.bool_]) -> TrainingJobs:
        """What there is to learn of some jobs that ended: `trained`, or all that `ended`."""
        stream = self.stream
        until_s = self.settings.learned_until_s if jobs is self.trained else self.settings.known_until_s
        weights = crowd_weights(stream.owners, stream.virtual_clusters, stream.submit_s, until_s)[jobs]
        return TrainingJobs(
            self.rows_of(jobs),
            np.log(np.maximum(stream.duration_s[jobs], 1.0)),
            stream.end_s[jobs],
            self.state.names,
            weights / weights.mean(),
        )


def replay_log(jobs: pd.DataFrame, settings: LogSettings, progress: Progress) -> ReplayedLog:
    """Choose the levels, and replay the log. Raises BadInputError when fewer than MIN_JOBS jobs had ended."""
    if jobs.empty:
        raise BadInputError("The job table is empty.", remedy="Ingest a log that covers the period.")
    table = by_submission(jobs)
    submit_s = epoch_seconds(table, "submit_time")
    end_s, run_s = ends_and_run_times(table)
    learned_until_s = settings.learned_until_s
    early, ended = submit_s <= learned_until_s, ~np.isnan(run_s)
    trained = early & ended & (end_s <= learned_until_s)
    if int(trained.sum()) < MIN_JOBS:
        raise _too_few_jobs(int(trained.sum()), int(ended.sum()), learned_until_s)
    progress(0, None, "finding what tells run times apart")
    history = table[early].reset_index(drop=True)
    choice = choose_levels(history, settings.features, settings.levels, learned_until_s)
    levels = choice.levels
    if len(history) < MANY_JOBS:
        levels = with_naive_estimate(levels, best_naive_level(table[trained], choice, settings.features))
    state = DurationFeatureState(levels, choose_facts(history), settings.features, choice.buckets)
    stream = job_stream(table, state)
    submitted = stream.submit_s <= settings.known_until_s
    rows = replay(state, stream, scored=submitted, until_s=settings.known_until_s, progress=progress)
    ended &= submitted & (end_s <= settings.known_until_s)
    return ReplayedLog(
        state, stream, submitted, ended, trained, submitted & ~early, rows, settings, choice.record
    )


def _too_few_jobs(ended: int, with_run_time: int, until_s: float) -> BadInputError:
    known_until = datetime.fromtimestamp(until_s, UTC).isoformat(timespec="seconds")
    what = f"{ended} jobs had ended by {known_until}; too few to learn from."
    if with_run_time < MIN_JOBS:
        return BadInputError(what, remedy=f"Give at least {MIN_JOBS} jobs with a known run time.")
    return BadInputError(
        f"{what} The table holds {with_run_time - ended} run times that became known only after that moment.",
        remedy=f"Give a log in which jobs are still submitted after {MIN_JOBS} jobs have ended.",
    )


Rows = NDArray[np.intp]

_CLUSTERS, _OWNERS = 1, 2  # tiers


def offsets_at_submissions(
    calibration: RunTimeCalibration, stream: JobStream, said: Floats, *, until_s: float = np.inf
) -> tuple[Floats, RunTimeCalibration]:
    """Offsets of each job's quantiles at its submission, shape (jobs, levels), in a log that `calibration` is
    followed by, until `until_s`; and the calibration as it is then.

    `said`: quantiles of log run time without offsets, shape (jobs, levels); NaN for a job that the
    calibration has seen submitted: it only starts and ends (and its offsets are NaN). An event at the very
    moment of a submission is known to it.
    """
    book = FlightBook(calibration)
    names = list(zip(stream.virtual_clusters, stream.owners, strict=True))
    times, kinds, of_job = _events(stream, said, until_s)
    book.live((times, kinds, of_job), stream.job_ids, names, said.tolist(), stream.duration_s.tolist())
    submissions = _SubmissionOffsets(book)
    after = submissions.calibration()
    after.slow = SlowShifts(calibration.slow.shifts)
    in_turn = [job.calibrated for job in calibration.awaited.values()]
    submissions.follow_misses(after.slow, in_turn)
    for job_id, flight in book.flights.items():
        job = AwaitedJob(*book.names[flight], tuple(book.said[flight]), in_turn[flight], book.weights[flight])
        after.await_end(job_id, job)
    offsets = np.full((len(stream.job_ids), len(LEVELS)), np.nan)
    offsets[[job for kind, job in zip(kinds, of_job, strict=True) if kind == SUBMISSION]] = (
        submissions.offsets
    )
    return offsets, after


class _SubmissionOffsets:
    """Offsets at the submissions of a book, shape (submissions, levels), and what is known in the end."""

    def __init__(self, book: FlightBook) -> None:
        self._book = book
        sums = ResidualSums(book)
        columns = list(zip(*book.submissions, strict=True)) or [()] * 7
        whole = (np.array(columns[at], dtype=np.intp) for at in (0, 1, 2, 3, 5))
        clocks, owner_clocks = (np.array(columns[at], dtype=np.float64) for at in (4, 6))
        events, changes, looks, clusters, owners = whole
        # Between two changes of a group every job of it gets the same offsets: crowds of hundreds are
        # answered once.
        groups = len(book.clocks) + 1
        alike = (changes * groups + clusters + 1) * groups + owners + 1
        _, first, of_submission = np.unique(alike, return_index=True, return_inverse=True)
        events, looks, clusters, owners = (one[first] for one in (events, looks, clusters, owners))
        clocks, owner_clocks = clocks[first], owner_clocks[first]
        turns = turn(events, SUBMITTED)
        self._ended: dict[int, Floats] = {}
        self.usual = self._usual_hazards(sums)
        # A virtual cluster that is not known has the offsets of all jobs.
        self.offsets = _quantiles(self.usual)[looks]
        of_p50 = self.usual[looks, 0]
        known = Asked(clusters, turns, clocks)
        for rows, ended, passed in self._asked(sums, _CLUSTERS, known, book.clusters.values()):
            of_bins = hazards(ended, passed, self.usual[looks[rows]], PRIOR_JOBS)
            self.offsets[rows], of_p50[rows] = _quantiles(of_bins), of_bins[:, 0]
        known = Asked(owners, turns, owner_clocks)
        for rows, ended, passed in self._asked(sums, _OWNERS, known, book.owners.values()):
            of_bins = hazards(ended[:, :1], passed[:, :1], of_p50[rows, None], OWNER_PRIOR_JOBS)
            self.offsets[rows, 0] = quantiles_of_all(of_bins[:, 0], LEVELS[0])
        self.offsets = self.offsets[of_submission]

    def follow_misses(self, slow: SlowShifts, calibrated: list[tuple[float, ...]]) -> None:
        """Add the slow shifts to the offsets, and each flight's quantiles to `calibrated`."""
        said, log_run, submissions = self._book.said, self._book.log_run, iter(self.offsets.tolist())
        shifts = []
        for one in self._book.turns:
            if one < 0:
                slow.ended(calibrated[~one], log_run[~one])
                continue
            p50, p90 = slow.shifts
            shifts.append((p50, p90))
            of_p50, of_p90 = next(submissions)
            quantile = said[one][0] + (of_p50 + p50)
            calibrated.append((quantile, max(quantile, said[one][1] + (of_p90 + p90))))
        self.offsets += np.array(shifts).reshape(self.offsets.shape)

    def calibration(self) -> RunTimeCalibration:
        """What is known in the end, but for the jobs in flight that do not run."""
        book, after = self._book, RunTimeCalibration()
        after.last_look_s, after.usual_hazards = book.looks[-1][1], self.usual[-1]
        place_of = {
            **self._fill(after.all_jobs, {None: ALL_JOBS}),
            **self._fill(after.clusters, book.clusters),
            **self._fill(after.owners, book.owners),
        }
        running = [flight for flight in book.flights.values() if book.started_at[flight] != NEVER]
        for flight in sorted(running, key=book.started_at.__getitem__):
            places = tuple(place_of.get(group, NO_GROUP) for group in book.groups[flight])
            job = RunningJob(
                book.start_s[flight],
                tuple(book.said[flight]),
                book.weights[flight],
                places,
                book.clocks_at_start[flight],
            )
            after.running.add(book.ids[flight], job)
        after.count_passed()
        return after

    def _fill(self, counts: ResidualCounts[Name], groups: Mapping[Name, int]) -> dict[int, int]:
        """Tell what is known of groups in the end; returns their places."""
        place_of = {}
        for name, group in groups.items():
            place, _ = counts.see(name)
            counts.clocks[place] = self._book.clocks[group]
            counts.ended[place] = self._ended[group][: counts.levels]
            place_of[group] = place
        return place_of

    def _usual_hazards(self, sums: ResidualSums) -> Floats:
        """The hazards of all jobs as of each look, shape (looks, levels, BINS)."""
        events, _, clocks = zip(*self._book.looks, strict=True)
        usual = np.empty((len(events), *SHAPE))
        every = np.full(len(events), ALL_JOBS)
        asked = Asked(every, turn(np.array(events, dtype=np.intp), AFTER_LOOK), np.array(clocks))
        for rows, ended, passed in self._asked(sums, ALL_JOBS, asked, (ALL_JOBS,)):
            usual[rows] = hazards(ended, passed, EXPECTED)
        usual[0] = self._book.usual_hazards
        return usual

    def _asked(
        self, sums: ResidualSums, tier: int, known: Asked, alive: Iterable[int]
    ) -> Iterator[tuple[Rows, Floats, Floats]]:
        """Answers to the questions about groups that are known; where jobs of those alive have ended by the
        end is noted.
        """
        asks = np.flatnonzero(known.groups != NO_GROUP)
        living = np.array(list(alive), dtype=np.intp)
        late = np.full(len(living), np.iinfo(np.int32).max)
        every = Asked(
            np.concatenate([known.groups[asks], living]),
            np.concatenate([known.turns[asks], late]),
            np.concatenate([known.clocks[asks], np.array(self._book.clocks)[living]]),
        )
        for rows, ended, passed in sums.of(tier, every):
            is_last = rows >= len(asks)
            for row in np.flatnonzero(is_last).tolist():
                self._ended[int(living[rows[row] - len(asks)])] = ended[row]
            now = ~is_last
            yield asks[rows[now]], ended[now], passed[now]


def _quantiles(of_bins: Floats) -> Floats:
    """The quantiles of LEVELS of hazards of shape (rows, levels, BINS)."""
    return np.stack(
        [quantiles_of_all(of_bins[:, place], level) for place, level in enumerate(LEVELS)], axis=1
    )


def _events(stream: JobStream, said: Floats, until_s: float) -> tuple[list[float], list[int], list[int]]:
    """Times, kinds and jobs of what happens, in turn."""
    submit_s = stream.submit_s
    ran = ~np.isnan(stream.duration_s)
    # A job without a known start runs from its submission on; clocks that disagree must not turn time back.
    start_s = np.where(np.isnan(stream.start_s) & ran, submit_s, stream.start_s)
    start_s = np.where(start_s < submit_s, submit_s, start_s)
    end_s = np.fmax(stream.end_s, np.fmax(start_s, submit_s))
    jobs = np.arange(submit_s.size)
    times = np.concatenate([submit_s, start_s, end_s])
    # What happens to a job at its very submission does so after it.
    early = np.concatenate([np.ones(jobs.size, dtype=np.bool_), start_s > submit_s, end_s > submit_s])
    kinds = np.repeat([SUBMISSION, START, END], jobs.size)
    rank = np.where(kinds == SUBMISSION, 1, np.where(early, 0, 2))
    happens = np.concatenate([~np.isnan(said).any(axis=1), ~np.isnan(start_s), ~np.isnan(stream.end_s)])
    of_job = np.tile(jobs, 3)
    order = np.lexsort((kinds, of_job, rank, times))
    order = order[happens[order] & (times[order] <= until_s)]
    return times[order].tolist(), kinds[order].tolist(), of_job[order].tolist()


@dataclass(frozen=True)
class FollowedLog:
    """A scorer at the end of a log, and of each of its jobs the quantiles of log run time that were said
    and the offsets at its submission, shape (jobs, levels).
    """

    scorer: DurationScorer
    said: NDArray[np.float64]
    offsets: NDArray[np.float64]

    def quantiles(self, jobs: NDArray[np.bool_]) -> pd.DataFrame:
        """As `WorkloadEstimateModel.quantiles_causal`, of some of the jobs."""
        return quantiles_of(self.scorer, self.said[jobs], self.offsets[jobs])

    def before_constraints(self, log: ReplayedLog, trained: NDArray[np.bool_], heads: Heads) -> "FollowedLog":
        """The same before the monotone constraints, with what calibrates the held head."""
        free = replace(heads, held=replace(heads.held, scorer=heads.held.before))
        free = replace(free, held_out_scores=heads.log.held_out_scores)
        residuals, said = _said(log, trained, free)
        return FollowedLog(_scorer(log, free, residuals, self.scorer.calibration), said, self.offsets)


def follow(log: ReplayedLog, trained: NDArray[np.bool_], heads: Heads) -> FollowedLog:
    """Let the calibration live through the log with what the heads, which learned from the jobs `trained`,
    say of its jobs.
    """
    residuals, said = _said(log, trained, heads)
    until_s = log.settings.known_until_s
    offsets, calibration = offsets_at_submissions(RunTimeCalibration(), log.stream, said, until_s=until_s)
    return FollowedLog(_scorer(log, heads, residuals, calibration), said, offsets)


def _said(
    log: ReplayedLog, trained: NDArray[np.bool_], heads: Heads
) -> tuple[ResidualQuantiles, NDArray[np.float64]]:
    """The residuals of the jobs learned from, by bags that did not learn from them; and what is said of each
    job that was submitted, shape (jobs, levels), NaN for others.
    """
    residuals = residual_quantiles(heads.held_out_scores, heads.logarithm)
    others = log.submitted & ~trained
    said = np.full((len(trained), len(LEVELS)), np.nan)
    # Of jobs that were learned from the head's own score is too good: their residuals are those of bags that
    # did not see them, or the calibration would learn offsets of a model that answers its own training.
    said[trained] = residuals.of(heads.held_out_scores)
    said[others] = residuals.of(heads.held.scorer.score(log.rows_of(others)))
    return residuals, said


def _scorer(
    log: ReplayedLog, heads: Heads, residuals: ResidualQuantiles, calibration: RunTimeCalibration
) -> DurationScorer:
    return DurationScorer(
        log.state,
        heads.held.scorer,
        heads.mean,
        heads.scale_s,
        residuals,
        float(min(2.0 * np.exp(heads.logarithm.max()), MAX_DURATION_S)),
        {
            **stream_summary(log.stream),
            "known_until_s": log.settings.known_until_s,
            "levels": log.levels,
            **heads.record(),
        },
        calibration,
    )


def quantiles_of(
    scorer: DurationScorer, said: NDArray[np.float64], offsets: NDArray[np.float64]
) -> pd.DataFrame:
    """Columns p50_s and p90_s, and the offsets of log run time in them."""
    p50, p90 = scorer.calibrated_seconds(said, offsets)
    return pd.DataFrame(
        {"p50_s": p50, "p90_s": p90, "p50_offset": offsets[:, 0], "p90_offset": offsets[:, 1]}
    )


def residual_quantiles(scores: NDArray[np.float64], logarithm: NDArray[np.float64]) -> ResidualQuantiles:
    """Median and 90th percentile of held-out residuals in groups of jobs with similar scores.

    The median, which moves point estimates, is drawn to zero as far as a group's jobs are few: the head aims
    at medians itself, and those of a few dozen jobs are of their day.
    """
    order = np.argsort(scores, kind="stable")
    groups = min(_RESIDUAL_KNOTS, max(len(order) // 50, 1))
    knots: list[float] = []
    middle: list[float] = []
    upper: list[float] = []
    for group in np.array_split(order, groups):
        residual = logarithm[group] - scores[group]
        # By what was said, not by the truth: jobs that ran long lie above what is said of them, whatever it
        # is (regression to the mean).
        knot = float(scores[group].mean())
        if not knots or knot > knots[-1]:
            knots.append(knot)
            trust = len(group) / (len(group) + _TRUSTED_RESIDUALS)
            middle.append(trust * float(np.quantile(residual, 0.5)))
            upper.append(float(np.quantile(residual, 0.9)))
    return ResidualQuantiles(np.array(knots), np.array(middle), np.array(upper))
