"""Workload Estimate Model: how long a job will run, from what jobs like it did.

Two additive models (GA2M, Lucid section 3.5.3) over the causal statistics of features.py. Names become
families instead of one category each; users and names that are new fall back on coarser levels.

A run time is known at the job's end. A log without start and end times (the derived Philly CSV) is read as if
each job started at its submission: its run time is then taken to be known at submit_time + duration_s,
earlier than in truth by the time the job waited.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foundation.errors import BadInputError
from foundation.progress import Progress, silent
from lucid_models.boosting import BoostingSettings
from lucid_models.duration.features import DurationFeatureSettings, DurationFeatureState
from lucid_models.duration.heads import Heads, HeadSettings, LogHead, learn_heads, pairs_sentence
from lucid_models.duration.job_replay import replay
from lucid_models.duration.level_search import LevelSearchSettings, choose_levels
from lucid_models.duration.levels import NAIVE, learned_features, level_rows
from lucid_models.duration.log_replay import (
    MIN_JOBS,
    LogSettings,
    ReplayedLog,
    follow,
    offsets_at_submissions,
    quantiles_of,
    replay_log,
    residual_quantiles,
)
from lucid_models.duration.residuals import LEVELS
from lucid_models.duration.scorer import DurationEstimate, DurationScorer
from lucid_models.duration.tables import (
    by_submission,
    choose_facts,
    epoch_seconds,
    job_mappings,
    job_stream,
    submission_order,
)
from lucid_models.explanation.additive import explain_additive_global
from lucid_models.monotone import check_directions

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

_BOTH_HEADS = BoostingSettings(bags=4, max_rounds=1_000, learning_rate=0.06, smoothing_rounds=75)
# Close to the absolute error of the logarithm: one run in a hundred that hangs has little weight.
LOG_BOOSTING = replace(
    _BOTH_HEADS,
    objective="pseudo_huber:delta=0.25",
    max_bins=256,
    min_samples_leaf=8,
    patience_rounds=15,
)
MEAN_BOOSTING = replace(
    _BOTH_HEADS, objective="poisson_deviance", max_bins=64, min_samples_leaf=50, patience_rounds=25
)


@dataclass(frozen=True)
class DurationSettings:
    """How the model is trained.

    `pairs`: the most pairs of features of the log head (`pairs` says if it takes any); `blocks`: the
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
class LaterJobs:
    """What a model said of the jobs that were submitted after its heads had learned, each at its submission:
    tables with the index of these jobs' rows, by submission.

    `features`; `quantiles` as those of `quantiles_causal`, and the same before the monotone constraints
    (None: there are none, or they were not asked for).
    """

    features: pd.DataFrame
    quantiles: pd.DataFrame
    unconstrained: pd.DataFrame | None = None


class WorkloadEstimateModel:
    """Run-time estimates for a scheduler: P50, P90 and mean."""

    kind = "duration"

    def __init__(self, settings: DurationSettings | None = None) -> None:
        self.settings = settings or DurationSettings()
        self._scorer: DurationScorer | None = None
        # The scorer as it was before the monotone constraints, where `fit` was asked for it.
        self.unconstrained: DurationScorer | None = None
        self._later: LaterJobs | None = None
        self._log: ReplayedLog | None = None
        self._chosen: LogHead | None = None

    @property
    def scorer(self) -> DurationScorer:
        """What is saved and served; raises BadInputError before `fit`."""
        if self._scorer is None:
            raise _not_fitted()
        return self._scorer

    @property
    def later_jobs(self) -> LaterJobs:
        """What was said of the jobs that the heads did not learn from; raises BadInputError before `fit`."""
        if self._later is None:
            raise _not_fitted()
        return self._later

    def fit(
        self,
        jobs: pd.DataFrame,
        *,
        known_until: datetime | None = None,
        learned_until: datetime | None = None,
        with_unconstrained: bool = False,
        progress: Progress = silent,
    ) -> "WorkloadEstimateModel":
        """Learn from the jobs (JOB_SCHEMA) that ended by `known_until`, by default the last submission of the
        table.

        Jobs still running then count as running. `learned_until`: what ended later, or was submitted later,
        does not teach the heads, but the statistics and the calibration alone; `later_jobs` is what was said
        of the latter. `with_unconstrained`: what the constraints change is to be measured.

        Raises BadInputError when fewer than MIN_JOBS jobs ended.
        """
        log = replay_log(jobs, self._log_settings(jobs, known_until, learned_until), progress)
        heads = self._learn(log, log.trained, None, progress)
        self._log, self._chosen = log, heads.log
        followed = follow(log, log.trained, heads)
        self._scorer = followed.scorer
        unconstrained = None
        if with_unconstrained and heads.held.directions:
            free = followed.before_constraints(log, log.trained, heads)
            self.unconstrained, unconstrained = free.scorer, free.quantiles(log.later)
        features = pd.DataFrame(log.rows_of(log.later), columns=list(log.state.names))
        index = jobs.index[submission_order(jobs)[log.later]]
        self._later = LaterJobs(
            features.set_index(index),
            followed.quantiles(log.later).set_index(index),
            None if unconstrained is None else unconstrained.set_index(index),
        )
        return self

    def learn_all(self, progress: Progress = silent) -> "WorkloadEstimateModel":
        """Learn the heads anew from all that had ended by the end of the log, after a `fit` with heads that
        have learned from its first part: what was chosen then (levels, pairs, the weight of the naive
        estimate) is kept.
        """
        log = self._log
        if log is None:
            raise _not_fitted()
        self._scorer = follow(log, log.ended, self._learn(log, log.ended, self._chosen, progress)).scorer
        return self

    def _learn(
        self, log: ReplayedLog, trained: NDArray[np.bool_], chosen: LogHead | None, progress: Progress
    ) -> Heads:
        settings = self.settings
        of_log_head = HeadSettings(
            settings.log_boosting, settings.pairs, settings.blocks, tuple(settings.monotone)
        )
        return learn_heads(
            log.training_jobs(trained),
            of_log_head,
            settings.mean_boosting,
            settings.monotone,
            progress,
            chosen,
        )

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
        offsets, _ = offsets_at_submissions(scorer.calibration, job_stream(table, state), said)
        back = np.argsort(order, kind="stable")
        quantiles = quantiles_of(scorer, said[fresh], offsets[fresh])
        return quantiles.iloc[back].set_index(jobs.index)

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
        log = replay_log(jobs, self._log_settings(jobs, None, None), silent)
        places = learned_features(log.state.names)
        trained = log.training_jobs(log.trained)
        return trained.rows[:, places], trained.logarithm

    def _log_settings(
        self, jobs: pd.DataFrame, known_until: datetime | None, learned_until: datetime | None
    ) -> LogSettings:
        submit_s = epoch_seconds(jobs, "submit_time")
        known_s = float(submit_s.max(initial=-np.inf)) if known_until is None else known_until.timestamp()
        learned_s = known_s if learned_until is None else learned_until.timestamp()
        return LogSettings(self.settings.features, self.settings.levels, known_s, learned_s)

    def _rows(self, jobs: pd.DataFrame) -> NDArray[np.float64]:
        return self.scorer.features(job_mappings(jobs))


def _not_fitted() -> BadInputError:
    return BadInputError("The duration model has not been fitted.", remedy="Call fit(jobs) first.")


def _with_running(
    jobs: pd.DataFrame, earlier: pd.DataFrame | None, state: DurationFeatureState
) -> pd.DataFrame:
    """The jobs in the order of submission, after those of `earlier` that ran at the end of training."""
    if earlier is None:
        return by_submission(jobs)
    running = earlier[earlier["job_id"].astype(str).isin(list(state.flights))]
    return pd.concat([by_submission(running), by_submission(jobs)], ignore_index=True)
