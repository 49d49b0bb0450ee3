"""Workload Estimate Model: how long a job will run, from what jobs like it did.

Two additive models (GA2M, Lucid section 3.5.3) over the causal statistics of features.py. Names become
families instead of one category each; users and names that are new fall back on coarser levels.

A run time is known at the job's end. A log without start and end times (the derived Philly CSV) is read as if
each job started at its submission: its run time is then taken to be known at submit_time + duration_s,
earlier than in truth by the time the job waited.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foundation.errors import BadInputError
from foundation.progress import Progress, silent
from lucid_models.additive_scorer import AdditiveScorer
from lucid_models.boosting import BoostingSettings, affordable, boost
from lucid_models.duration.calibrated_replay import calibrate_causally, offsets_at_submissions
from lucid_models.duration.calibration import RunTimeCalibration
from lucid_models.duration.features import DurationFeatureSettings, DurationFeatureState
from lucid_models.duration.job_columns import FACTS
from lucid_models.duration.job_replay import JobStream, replay, stream_summary
from lucid_models.duration.level_record import level_rows
from lucid_models.duration.level_search import LevelSearchSettings, choose_levels
from lucid_models.duration.levels import NAIVE, learned_features, with_naive_estimate
from lucid_models.duration.log_head import learn_log_head
from lucid_models.duration.naive_level import best_naive_level
from lucid_models.duration.pair_trial import pairs_sentence
from lucid_models.duration.residual_hazards import LEVELS
from lucid_models.duration.scorer import MAX_DURATION_S, DurationEstimate, DurationScorer, ResidualQuantiles
from lucid_models.duration.tables import (
    by_submission,
    choose_facts,
    ends_and_run_times,
    epoch_seconds,
    job_mappings,
    job_stream,
    submission_order,
)
from lucid_models.duration.taught_jobs import HeadSettings, TaughtJobs, crowd_weights
from lucid_models.explanation.additive import explain_additive_global
from lucid_models.monotone import check_directions, constrain

__all__ = [
    "MIN_JOBS",
    "DurationSettings",
    "WorkloadEstimateModel",
    "choose_facts",
    "choose_levels",
    "epoch_seconds",
    "job_mappings",
    "job_stream",
    "residual_quantiles",
]

MIN_JOBS = 100
# A log of fewer jobs also reads the naive estimate, and leans on it as far as it is the better one.
MANY_JOBS = 10_000
_RESIDUAL_KNOTS = 12
# So many residuals speak for a median as loudly as the head itself.
_TRUSTED_RESIDUALS = 200
_BOTH_HEADS = BoostingSettings(bags=4, max_rounds=1_500, smoothing_rounds=100)
# Close to the absolute error of the logarithm: one run in a hundred that hangs teaches little.
LOG_BOOSTING = replace(_BOTH_HEADS, objective="pseudo_huber:delta=0.25", max_bins=256, min_samples_leaf=8)
MEAN_BOOSTING = replace(_BOTH_HEADS, objective="poisson_deviance", max_bins=64, min_samples_leaf=50)


@dataclass(frozen=True)
class DurationSettings:
    """How the model is trained.

    `pairs`: the most pairs of features of the log head (`pair_trial` says if it takes any); `blocks`: the
    number of blocks of time that the bags are made of. `monotone` holds shape functions of the log head to a
    direction ("rising", "falling"), by feature; facts that a log does not have are passed over.
    """

    features: DurationFeatureSettings = field(default_factory=DurationFeatureSettings)
    levels: LevelSearchSettings = field(default_factory=LevelSearchSettings)
    log_boosting: BoostingSettings = LOG_BOOSTING
    mean_boosting: BoostingSettings = MEAN_BOOSTING
    pairs: int = 16
    blocks: int = 20
    monotone: Mapping[str, str] = field(default_factory=lambda: {"log_gpus": "rising"})

    def __post_init__(self) -> None:
        check_directions(self.monotone)


@dataclass(frozen=True)
class _Lesson:
    """The replayed training table: the state at its end, and the features of the jobs that ended
    (`taught`) and of those that had not (`awaited`).
    """

    state: DurationFeatureState
    stream: JobStream
    taught: NDArray[np.bool_]
    rows: NDArray[np.float64]
    awaited: NDArray[np.bool_]
    awaited_rows: NDArray[np.float64]
    until_s: float
    levels: dict[str, Any]

    def jobs_taught(self) -> TaughtJobs:
        """What there is to learn."""
        stream = self.stream
        logarithm = np.log(np.maximum(stream.duration_s[self.taught], 1.0))
        weights = crowd_weights(stream.owners, stream.virtual_clusters, stream.submit_s, self.until_s)
        return TaughtJobs(
            self.rows,
            logarithm,
            stream.end_s[self.taught],
            self.state.names,
            weights[self.taught] / weights[self.taught].mean(),
        )


class WorkloadEstimateModel:
    """Run-time estimates for a scheduler: P50, P90 and mean."""

    kind = "duration"

    def __init__(self, settings: DurationSettings | None = None) -> None:
        self.settings = settings or DurationSettings()
        self._scorer: DurationScorer | None = None
        # The scorer as it was before the monotone constraints, where `fit` was asked for it.
        self.unconstrained: DurationScorer | None = None

    @property
    def scorer(self) -> DurationScorer:
        """What is saved and served; raises BadInputError before `fit`."""
        if self._scorer is None:
            raise BadInputError("The duration model has not been fitted.", remedy="Call fit(jobs) first.")
        return self._scorer

    def fit(
        self,
        jobs: pd.DataFrame,
        *,
        known_until: datetime | None = None,
        with_unconstrained: bool = False,
        progress: Progress = silent,
    ) -> "WorkloadEstimateModel":
        """Learn from the jobs (JOB_SCHEMA) that ended by `known_until`, by default the last submission of the
        table.

        Jobs still running then count as running. `with_unconstrained`: what the constraints change is to be
        measured. Raises BadInputError when fewer than MIN_JOBS jobs ended.
        """
        known = None if known_until is None else known_until.timestamp()
        lesson = self._lesson(jobs, known, progress)
        state, rows, stream, taught = lesson.state, lesson.rows, lesson.stream, lesson.taught
        jobs_taught = lesson.jobs_taught()
        duration, logarithm = np.exp(jobs_taught.logarithm), jobs_taught.logarithm
        progress(0, 2, "boosting the log head")
        log_head = learn_log_head(
            jobs_taught,
            HeadSettings(
                self.settings.log_boosting,
                self.settings.pairs,
                self.settings.blocks,
                tuple(self.settings.monotone),
            ),
        )
        progress(1, 2, "boosting the mean head")
        scale = float(duration.mean())
        places = learned_features(state.names)
        shown = jobs_taught.with_features(places)
        mean_boosting = affordable(self.settings.mean_boosting, *shown.rows.shape)
        mean_head = boost(
            shown.rows, duration / scale, shown.names, shown.blocks(self.settings.blocks), mean_boosting
        ).scorer.among(state.names, places)
        progress(2, 2, "boosting done")
        held = constrain(log_head.scorer, self.settings.monotone, FACTS)

        def scorer_with(head: AdditiveScorer, held_out_scores: NDArray[np.float64]) -> DurationScorer:
            residuals = residual_quantiles(held_out_scores, logarithm)
            return DurationScorer(
                state,
                head,
                mean_head,
                scale,
                residuals,
                float(min(2.0 * duration.max(), MAX_DURATION_S)),
                {
                    **stream_summary(stream),
                    "rows": int(taught.sum()),
                    "known_until_s": lesson.until_s,
                    "log_boosting": log_head.boosting.to_data(),
                    "learned": log_head.learned.to_data(),
                    "pairs": log_head.tried.to_data(),
                    "mean_boosting": mean_boosting.to_data(),
                    "monotone": dict(held.directions),
                    "levels": lesson.levels,
                },
                _calibration(
                    lesson, residuals.of(held_out_scores), residuals.of(head.score(lesson.awaited_rows))
                ),
            )

        self._scorer = scorer_with(held.scorer, log_head.held_out_scores + held.moved(rows))
        if with_unconstrained and held.directions:
            self.unconstrained = scorer_with(held.before, log_head.held_out_scores)
        return self

    def predict(self, jobs: pd.DataFrame) -> NDArray[np.float64]:
        """P50 in seconds of each job with the statistics as of the end of training, shape (rows,), finite, >
        0.
        """
        return self.scorer.predict(job_mappings(jobs))

    def estimate(self, jobs: pd.DataFrame) -> pd.DataFrame:
        """Columns p50_s, p90_s, mean_s and reason, one row a job, with the statistics as of the end of
        training.
        """
        estimates = self.scorer.estimate(job_mappings(jobs))
        columns = [field.name for field in fields(DurationEstimate)]
        return pd.DataFrame([vars(one) for one in estimates], columns=columns, index=jobs.index)

    def predict_causal(
        self, jobs: pd.DataFrame, *, earlier: pd.DataFrame | None = None, progress: Progress = silent
    ) -> NDArray[np.float64]:
        """P50 in seconds, shape (rows,), of jobs that arrive one after another.

        Each is scored with what had ended by its submission, among these jobs and those that were running at
        the end of training; `earlier` (rows of the training table) tells when the latter ended.
        """
        return self.estimate_causal(jobs, earlier=earlier, progress=progress)["p50_s"].to_numpy(
            dtype=np.float64
        )

    def estimate_causal(
        self, jobs: pd.DataFrame, *, earlier: pd.DataFrame | None = None, progress: Progress = silent
    ) -> pd.DataFrame:
        """As `predict_causal`, with the columns p50_s, p90_s and mean_s."""
        features = self.features_causal(jobs, earlier=earlier, progress=progress)
        quantiles = self.quantiles_causal(jobs, features, earlier=earlier)
        return quantiles[["p50_s", "p90_s"]].assign(mean_s=self.scorer.mean_of(features.to_numpy()))

    def quantiles_causal(
        self,
        jobs: pd.DataFrame,
        features: pd.DataFrame,
        *,
        earlier: pd.DataFrame | None = None,
        scorer: DurationScorer | None = None,
    ) -> pd.DataFrame:
        """Columns p50_s and p90_s, calibrated (`calibration`) by what was known at each job's submission;
        p50_offset and p90_offset, the offsets of log run time in them.

        `features` are those of `features_causal` for the same `jobs` and `earlier`; `scorer`: in place of the
        model's, `unconstrained` for instance.
        """
        scorer = scorer or self.scorer
        state = scorer.state
        table = _with_running(jobs, earlier, state)
        fresh = np.arange(len(table)) >= len(table) - len(jobs)
        order = submission_order(jobs)
        said = np.full((len(table), len(LEVELS)), np.nan)
        said[fresh] = scorer.residuals.of(scorer.log_head.score(features.to_numpy()[order]))
        offsets = offsets_at_submissions(scorer.calibration.copy(), job_stream(table, state), said)
        p50, p90 = scorer.calibrated_seconds(said[fresh], offsets[fresh])
        columns = {
            "p50_s": p50,
            "p90_s": p90,
            "p50_offset": offsets[fresh, 0],
            "p90_offset": offsets[fresh, 1],
        }
        back = np.argsort(order, kind="stable")
        return pd.DataFrame({name: values[back] for name, values in columns.items()}, index=jobs.index)

    def features_causal(
        self, jobs: pd.DataFrame, *, earlier: pd.DataFrame | None = None, progress: Progress = silent
    ) -> pd.DataFrame:
        """The features behind `predict_causal`, in the order of `jobs`."""
        state = self.scorer.state.copy()
        table = _with_running(jobs, earlier, state)
        fresh = np.arange(len(table)) >= len(table) - len(jobs)
        rows = replay(state, job_stream(table, state), scored=fresh, submitted=fresh, progress=progress)
        order = submission_order(jobs)
        back = np.empty_like(order)
        back[order] = np.arange(order.size)
        return pd.DataFrame(rows[back], columns=list(state.names), index=jobs.index)

    def followed(self, jobs: pd.DataFrame, features: pd.DataFrame) -> NDArray[np.float64]:
        """By how much the naive estimate has moved each job's log P50 since the end of training, shape
        (rows,); zeros for a model without one.

        `features` are those of `features_causal` for these jobs.
        """
        naive = [place for place, name in enumerate(self.scorer.state.names) if name.endswith(f":{NAIVE}")]
        now = features.to_numpy()
        if not naive or not len(jobs):
            return np.zeros(len(jobs))
        then = now.copy()
        then[:, naive] = self._rows(jobs)[:, naive]
        head = self.scorer.log_head
        moved: NDArray[np.float64] = head.score(now) - head.score(then)
        return moved

    def explain_global(self) -> dict[str, Any]:
        """Importances and shape functions of the log head: what a feature's value adds to log run time; and
        what its `levels` brought (`level_rows`).
        """
        explained = explain_additive_global(self.scorer.log_head, self.kind, "log seconds")
        training = self.scorer.training
        return {
            **explained,
            "levels": level_rows(training.get("levels", {})),
            "pairs": pairs_sentence(training.get("pairs", {})),
        }

    def explain_local(self, row: "pd.Series[Any] | Mapping[str, Any]") -> dict[str, Any]:
        """What each feature adds to one job's estimate; `row` of a job table (Figure 7 c)."""
        return self.scorer.explain(next(iter(job_mappings(pd.DataFrame([dict(row)])))))

    def to_data(self) -> dict[str, Any]:
        """The saved form (model_format)."""
        return self.scorer.to_data()

    @classmethod
    def from_data(cls, document: Mapping[str, Any]) -> "WorkloadEstimateModel":
        """Read what `to_data` wrote; raises CorruptModelError."""
        model = cls()
        model._scorer = DurationScorer.from_data(document)
        return model

    def training_rows(self, jobs: pd.DataFrame) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Features (`learned_features`) and log run times that `fit(jobs)` learns from, for rivals that
        shall learn from the same.
        """
        lesson = self._lesson(jobs, None, silent)
        places = learned_features(lesson.state.names)
        return lesson.rows[:, places], lesson.jobs_taught().logarithm

    def _lesson(self, jobs: pd.DataFrame, known_until_s: float | None, progress: Progress) -> "_Lesson":
        if jobs.empty:
            raise BadInputError("The job table is empty.", remedy="Ingest a log that covers the period.")
        table = by_submission(jobs)
        submit_s = epoch_seconds(table, "submit_time")
        until_s = float(submit_s[-1]) if known_until_s is None else known_until_s
        end_s, run_s = ends_and_run_times(table)
        taught = (end_s <= until_s) & (submit_s <= until_s) & ~np.isnan(run_s)
        if int(taught.sum()) < MIN_JOBS:
            raise _too_few_jobs(int(taught.sum()), int((~np.isnan(run_s)).sum()), until_s)
        progress(0, None, "finding what tells run times apart")
        choice = choose_levels(
            table[submit_s <= until_s].reset_index(drop=True),
            self.settings.features,
            self.settings.levels,
            until_s,
        )
        levels = choice.levels
        if len(table) < MANY_JOBS:
            parts = best_naive_level(table[taught], choice, self.settings.features)
            levels = with_naive_estimate(levels, parts)
        state = DurationFeatureState(levels, choose_facts(table), self.settings.features, choice.buckets)
        stream = job_stream(table, state)
        submitted = stream.submit_s <= until_s
        rows = replay(state, stream, scored=submitted, until_s=until_s, progress=progress)
        ended = taught[submitted]
        return _Lesson(
            state, stream, taught, rows[ended], submitted & ~taught, rows[~ended], until_s, choice.record
        )

    def _rows(self, jobs: pd.DataFrame) -> NDArray[np.float64]:
        return self.scorer.features(job_mappings(jobs))


def _too_few_jobs(ended: int, with_run_time: int, until_s: float) -> BadInputError:
    known_until = datetime.fromtimestamp(until_s, UTC).isoformat(timespec="seconds")
    what = f"{ended} jobs had ended by {known_until}; too few to learn from."
    if with_run_time < MIN_JOBS:
        return BadInputError(what, remedy=f"Give at least {MIN_JOBS} jobs with a known run time.")
    return BadInputError(
        f"{what} The table holds {with_run_time - ended} run times that became known only after that moment.",
        remedy=f"Give a log in which jobs are still submitted after {MIN_JOBS} jobs have ended.",
    )


def _calibration(
    lesson: _Lesson, of_taught: NDArray[np.float64], of_awaited: NDArray[np.float64]
) -> RunTimeCalibration:
    """The calibration at the end of training, from quantiles of jobs that were held out of what said them."""
    calibration = RunTimeCalibration()
    said = np.full((len(lesson.taught), len(LEVELS)), np.nan)
    said[lesson.taught], said[lesson.awaited] = of_taught, of_awaited
    calibrate_causally(calibration, lesson.stream, said, until_s=lesson.until_s)
    return calibration


def _with_running(
    jobs: pd.DataFrame, earlier: pd.DataFrame | None, state: DurationFeatureState
) -> pd.DataFrame:
    """The jobs in the order of submission, after those of `earlier` that ran at the end of training."""
    if earlier is None:
        return by_submission(jobs)
    running = earlier[earlier["job_id"].astype(str).isin(list(state.flights))]
    return pd.concat([by_submission(running), by_submission(jobs)], ignore_index=True)


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
        knot = float(scores[group].mean())
        if not knots or knot > knots[-1]:
            knots.append(knot)
            trust = len(group) / (len(group) + _TRUSTED_RESIDUALS)
            middle.append(trust * float(np.quantile(residual, 0.5)))
            upper.append(float(np.quantile(residual, 0.9)))
    return ResidualQuantiles(np.array(knots), np.array(middle), np.array(upper))
