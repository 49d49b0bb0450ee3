"""Estimates run times of jobs with NumPy alone: what a live scheduler holds of the Workload Estimate Model.

Two heads over the same features (features.py): one learned on the logarithm of run time, which orders
jobs well, and one on run time itself, which adds up to GPU-hours. P50 and P90 come from the first head and
from how far held-out jobs lay from it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucid_models.additive_scorer import AdditiveScorer, require_features
from lucid_models.duration.calibration import (
    Owner,
    RunTimeCalibration,
    calibrated_with,
    calibration_to_data,
    read_calibration,
)
from lucid_models.duration.features import DurationFeatureState
from lucid_models.duration.job_replay import BLOCK, SubmittedJobs
from lucid_models.duration.name_buckets import MIN_DURATION_S
from lucid_models.duration.reasons import Lately, account_for_duration, duration_reasons
from lucid_models.explanation.additive import explain_additive_row
from lucid_models.model_format import CorruptModelError, Fields, finite_list, make_document

MAX_DURATION_S = 400 * 86_400.0
# Up to here plain Python is faster than NumPy's calls, of which there are some for each shape function.
FEW_JOBS = 16


@dataclass(frozen=True)
class DurationEstimate:
    """Run time of one job in seconds: half of such jobs end within `p50_s`, nine in ten within `p90_s`.

    Both are calibrated by the jobs that started (`calibration`); queues are ordered by `p50_s`.
    """

    p50_s: float
    p90_s: float
    mean_s: float
    reason: str


@dataclass(frozen=True)
class ResidualQuantiles:
    """How far held-out jobs lay from the log head, by its score: shifts of log run time at rising scores."""

    scores: NDArray[np.float64]
    p50: NDArray[np.float64]
    p90: NDArray[np.float64]

    def of(self, score: NDArray[np.float64]) -> NDArray[np.float64]:
        """P50 and P90 of log run time from scores of the log head, shape (jobs, 2)."""
        shifts = [np.interp(score, self.scores, shift) for shift in (self.p50, self.p90)]
        return score[:, None] + np.stack(shifts, axis=1)

    def to_data(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {name: finite_list(getattr(self, name)) for name in ("scores", "p50", "p90")}

    @classmethod
    def from_data(cls, fields: Fields) -> "ResidualQuantiles":
        """Read what `to_data` wrote; raises CorruptModelError."""
        scores, p50, p90 = (fields.numbers(name, -1e3, 1e3, most=1_000) for name in ("scores", "p50", "p90"))
        if not scores.size == p50.size == p90.size or not scores.size or (np.diff(scores) <= 0).any():
            raise fields.fail("scores", "are not rising, or do not match their quantiles")
        return cls(scores, p50, p90)


class DurationScorer:
    """Feature state, two additive heads and residual quantiles; estimates lie within [`floor_s`,
    `ceiling_s`].
    """

    kind = "duration"

    def __init__(
        self,
        state: DurationFeatureState,
        log_head: AdditiveScorer,
        mean_head: AdditiveScorer,
        mean_scale_s: float,
        residuals: ResidualQuantiles,
        ceiling_s: float,
        training: Mapping[str, Any] | None = None,
        calibration: RunTimeCalibration | None = None,
    ) -> None:
        require_features(log_head, state.names, "The log head of the duration model")
        require_features(mean_head, state.names, "The mean head of the duration model")
        self.state, self.log_head, self.mean_head = state, log_head, mean_head
        self.mean_scale_s, self.residuals = mean_scale_s, residuals
        self.floor_s, self.ceiling_s = MIN_DURATION_S, ceiling_s
        self.training = dict(training or {})
        self.calibration = calibration or RunTimeCalibration()

    def with_state(self, state: DurationFeatureState) -> "DurationScorer":
        """The same model on other statistics of the same layout (a copy that lives on, for instance)."""
        return DurationScorer(
            state,
            self.log_head,
            self.mean_head,
            self.mean_scale_s,
            self.residuals,
            self.ceiling_s,
            self.training,
            self.calibration.copy(),
        )

    def estimate(
        self, jobs: Sequence[Mapping[str, Any]], at_s: float | None = None
    ) -> list[DurationEstimate]:
        """Estimates of jobs as known at `at_s` (default: at each job's submission), with the reason of each.

        A job is a mapping as in `DurationFeatureState`; unknown users and names are answered by coarser
        statistics.
        """
        if not jobs:
            return []
        known = self.state.known_of(jobs, at_s)
        rows = known.features()
        score = self.log_head.score(rows)
        owners = [calibrated_with(job) for job in jobs]
        offsets = self.calibration.offsets_of_jobs(owners)
        p50, p90 = self.calibrated_seconds(self.residuals.of(score), offsets)
        lately = self._lately(owners, offsets[:, 0])
        reasons = duration_reasons(self.state, self.log_head, jobs, known, rows, p50, lately)
        return [
            DurationEstimate(*row)
            for row in zip(p50.tolist(), p90.tolist(), self.mean_of(rows).tolist(), reasons, strict=True)
        ]

    def predict(self, jobs: Sequence[Mapping[str, Any]], at_s: float | None = None) -> NDArray[np.float64]:
        """P50 of each job in seconds, shape (jobs,); what a queue is ordered by."""
        rows, head = self.features(jobs, at_s), self.log_head
        few = len(jobs) <= FEW_JOBS
        score = np.array([head.score_one(row) for row in rows.tolist()]) if few else head.score(rows)
        return self.p50_of(score, self._offsets(jobs)[:, 0])

    def features(self, jobs: Sequence[Mapping[str, Any]], at_s: float | None = None) -> NDArray[np.float64]:
        """Feature matrix, shape (jobs, features)."""
        return self.state.known_of(jobs, at_s).features()

    def estimate_rows(
        self, rows: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """P50, P90 and mean in seconds from feature rows, without what was calibrated since the training; P90
        is never below P50.
        """
        score = self.log_head.score(rows)
        p50 = self.p50_of(score)
        upper = score + np.interp(score, self.residuals.scores, self.residuals.p90)
        p90 = np.maximum(self._seconds(upper), p50)
        return p50, p90, self.mean_of(rows)

    def quantiles(
        self, jobs: Sequence[Mapping[str, Any]], at_s: float | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """P50 and P90 of jobs in seconds, shape (jobs,) each, as in `estimate`."""
        score = self.log_head.score(self.features(jobs, at_s))
        return self.calibrated_seconds(self.residuals.of(score), self._offsets(jobs))

    def calibrated_seconds(
        self, said: NDArray[np.float64], offsets: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """P50 and P90 in seconds from `ResidualQuantiles.of` and offsets, shape (jobs, 2) each; they do not
        cross.
        """
        p50, p90 = self._seconds(said + offsets).T
        return p50, np.maximum(p50, p90)

    def p50_of(
        self, score: NDArray[np.float64], offsets: NDArray[np.float64] | float = 0.0
    ) -> NDArray[np.float64]:
        """Median run time in seconds from scores of the log head and offsets of log run time."""
        return self._seconds(score + np.interp(score, self.residuals.scores, self.residuals.p50) + offsets)

    def explain(self, job: Mapping[str, Any], at_s: float | None = None) -> dict[str, Any]:
        """What each term adds to the logarithm of one job's run time, with its account (`reasons`) and
        `reason`.
        """
        row = self.features([job], at_s)[0]
        (lately,) = self._lately([calibrated_with(job)], self._offsets([job])[:, 0])
        p50_s = float(self.p50_of(self.log_head.score(row[None, :]), lately.offset)[0])
        explained = explain_additive_row(self.log_head, row.tolist(), p50_s)
        account = account_for_duration(self.state, self.log_head, job, row.tolist(), p50_s, at_s, lately)
        return {
            "model": self.kind,
            **explained,
            "calibration": lately.offset,
            "unit": "s",
            "score_unit": "log seconds",
            "account": account.to_data(),
            "reason": account.sentence(),
        }

    def to_data(self) -> dict[str, Any]:
        """The saved form (model_format)."""
        return make_document(
            self.kind,
            {
                "state": self.state.to_data(),
                "log_head": self.log_head.to_data(),
                "mean_head": self.mean_head.to_data(),
                "mean_scale_s": self.mean_scale_s,
                "residuals": self.residuals.to_data(),
                "ceiling_s": self.ceiling_s,
                "training": self.training,
                "calibration": calibration_to_data(self.calibration),
            },
        )

    @classmethod
    def from_data(cls, document: Mapping[str, Any]) -> "DurationScorer":
        """Read what `to_data` wrote; raises CorruptModelError."""
        fields = Fields(document, "model").child("model")
        log_head = AdditiveScorer.from_data(fields.child("log_head"))
        if log_head.link != "identity":
            raise CorruptModelError("model.log_head.link is not identity.", remedy="Train the model again.")
        return cls(
            DurationFeatureState.from_data(fields.child("state")),
            log_head,
            AdditiveScorer.from_data(fields.child("mean_head")),
            fields.number("mean_scale_s", 1e-9, 1e12),
            ResidualQuantiles.from_data(fields.child("residuals")),
            fields.number("ceiling_s", MIN_DURATION_S, MAX_DURATION_S),
            fields.training(),
            read_calibration(fields.child("calibration")),
        )

    def mean_of(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Mean run time in seconds from feature rows."""
        return np.clip(self.mean_head.predict(rows) * self.mean_scale_s, self.floor_s, self.ceiling_s)

    def _offsets(self, jobs: Sequence[Mapping[str, Any]]) -> NDArray[np.float64]:
        return self.calibration.offsets_of_jobs([calibrated_with(job) for job in jobs])

    def _lately(self, owners: Sequence[Owner], offsets: NDArray[np.float64]) -> list[Lately]:
        """Whose run times moved the P50 of each job, and how far."""
        groups = ("owner" if self.calibration.follows(*owner) else "virtual cluster" for owner in owners)
        return [Lately(offset, group) for offset, group in zip(offsets.tolist(), groups, strict=True)]

    def _seconds(self, logarithm: NDArray[np.float64]) -> NDArray[np.float64]:
        low, high = math.log(self.floor_s), math.log(self.ceiling_s)
        return np.exp(np.clip(logarithm, low, high))


# Keeps a scorer's calibration up to date where jobs are seen one by one, as cheaply as they come.
#
# What was known of a job at its submission is noted, and scored together with others: when quantiles are
# asked for, or when there are many. What is learned does not depend on when that is.


@dataclass(frozen=True, slots=True)
class _Submission:
    place: int  # among the jobs noted


@dataclass(frozen=True, slots=True)
class _Start:
    pass


@dataclass(frozen=True, slots=True)
class _End:
    duration_s: float | None


class LiveCalibration:
    """Follows submissions, starts and ends of jobs; report a submission to the scorer's state first."""

    def __init__(self, scorer: DurationScorer) -> None:
        self._scorer = scorer
        self._noted = SubmittedJobs(scorer.state)
        self._jobs: list[Mapping[str, Any]] = []
        # What happened since then, in turn, with its moment (Unix time).
        self._happened: list[tuple[str, float, _Submission | _Start | _End]] = []

    def submitted(self, job: Mapping[str, Any], at_s: float) -> None:
        """A job was submitted (again) at `at_s` (Unix time), and the state knows it."""
        job_id = str(job["job_id"])
        self._happened.append((job_id, at_s, _Submission(len(self._jobs))))
        self._noted.add(job_id, self._scorer.state.flights[job_id].keys, at_s)
        self._jobs.append(job)
        if len(self._jobs) == BLOCK:
            self.catch_up()

    def started(self, job_id: str, at_s: float) -> None:
        """A job started at `at_s` (Unix time)."""
        self._happened.append((job_id, at_s, _Start()))

    def ended(self, job_id: str, at_s: float, duration_s: float | None) -> None:
        """A job ended at `at_s` (Unix time), after a run of so many seconds or without one."""
        self._happened.append((job_id, at_s, _End(duration_s)))

    def catch_up(self) -> None:
        """Bring the scorer's calibration to what was seen."""
        scorer, calibration = self._scorer, self._scorer.calibration
        said: list[list[float]] = []
        if self._jobs:
            rows = np.hstack([self._noted.take(), scorer.state.facts_of_all(self._jobs)])
            said = scorer.residuals.of(scorer.log_head.score(rows)).tolist()
        for job_id, at_s, what in self._happened:
            if isinstance(what, _Submission):
                job = self._jobs[what.place]
                calibration.submitted(job_id, at_s, *calibrated_with(job), said[what.place])
            elif isinstance(what, _Start):
                calibration.started(job_id, at_s)
            elif what.duration_s is None:
                calibration.withdrawn(job_id)
            else:
                calibration.ended(job_id, at_s, float(what.duration_s))
        self._jobs, self._happened = [], []
