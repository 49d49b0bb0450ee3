"""Estimates run times of jobs with NumPy alone: what a live scheduler holds of the Workload Estimate Model.

Two heads over the same features (duration_features): one learned on the logarithm of run time, which orders
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
from lucid_models.duration_features import DurationFeatureState
from lucid_models.explanation import explain_additive_row
from lucid_models.job_keys import MIN_DURATION_S
from lucid_models.model_format import CorruptModelError, Fields, finite_list, make_document

MAX_DURATION_S = 400 * 86_400.0
# Up to here plain Python is faster than NumPy's calls, of which there are some for each shape function.
FEW_JOBS = 16


@dataclass(frozen=True)
class DurationEstimate:
    """Run time of one job in seconds: half of such jobs end within `p50_s`, nine in ten within `p90_s`."""

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
    ) -> None:
        require_features(log_head, state.names, "The log head of the duration model")
        require_features(mean_head, state.names, "The mean head of the duration model")
        self.state, self.log_head, self.mean_head = state, log_head, mean_head
        self.mean_scale_s, self.residuals = mean_scale_s, residuals
        self.floor_s, self.ceiling_s = MIN_DURATION_S, ceiling_s
        self.training = dict(training or {})

    def estimate(
        self, jobs: Sequence[Mapping[str, Any]], at_s: float | None = None
    ) -> list[DurationEstimate]:
        """Estimates of jobs as known at `at_s` (default: at each job's submission), with the reason of each.

        A job is a mapping as in `DurationFeatureState`; unknown users and names are answered by coarser
        statistics.
        """
        if not jobs:
            return []
        rows = self.features(jobs, at_s)
        p50, p90, mean = self.estimate_rows(rows)
        return [
            DurationEstimate(
                float(p50[i]), float(p90[i]), float(mean[i]), self.reason(job, rows[i], float(p50[i]))
            )
            for i, job in enumerate(jobs)
        ]

    def predict(self, jobs: Sequence[Mapping[str, Any]], at_s: float | None = None) -> NDArray[np.float64]:
        """P50 of each job in seconds, shape (jobs,); what a queue is ordered by."""
        if len(jobs) <= FEW_JOBS:
            state, head = self.state, self.log_head
            return self.p50_of(np.array([head.score_one(state.features(job, at_s)) for job in jobs]))
        return self.p50_of(self.log_head.score(self.features(jobs, at_s)))

    def features(self, jobs: Sequence[Mapping[str, Any]], at_s: float | None = None) -> NDArray[np.float64]:
        """Feature matrix, shape (jobs, features)."""
        rows = [self.state.features(job, at_s) for job in jobs]
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(self.state.names))

    def estimate_rows(
        self, rows: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """P50, P90 and mean in seconds from feature rows; P90 is never below P50."""
        score = self.log_head.score(rows)
        p50 = self.p50_of(score)
        upper = score + np.interp(score, self.residuals.scores, self.residuals.p90)
        p90 = np.maximum(self._seconds(upper), p50)
        mean = np.clip(self.mean_head.predict(rows) * self.mean_scale_s, self.floor_s, self.ceiling_s)
        return p50, p90, mean

    def p50_of(self, score: NDArray[np.float64]) -> NDArray[np.float64]:
        """Median run time in seconds from scores of the log head."""
        return self._seconds(score + np.interp(score, self.residuals.scores, self.residuals.p50))

    def reason(self, job: Mapping[str, Any], row: NDArray[np.float64], p50_s: float) -> str:
        """One sentence: the estimate, the closest history that it rests on, and what moved it most
        besides.
        """
        evidence = self.state.evidence(self.state.keys_of(job))
        if not evidence:
            return f"{human_duration(p50_s)}: no finished job is known yet."
        level, key, count, mean = evidence[-1]
        text = (
            f"{human_duration(p50_s)} because {_level_text(level, key)} usually runs "
            f"{human_duration(math.exp(min(mean, 50.0)))} ({count} job{'s' if count != 1 else ''} seen)"
        )
        user = job.get("user")
        if "user" in self.state.levels and user and all(found[0] != "user" for found in evidence):
            text = f"{text}; user {user} is new"
        moved = self._largest_fact(row)
        return f"{text}; {moved}." if moved else f"{text}."

    def explain(self, job: Mapping[str, Any], at_s: float | None = None) -> dict[str, Any]:
        """What each term adds to the logarithm of one job's run time, with the sentence of `reason`."""
        row = self.features([job], at_s)[0]
        p50_s = float(self.p50_of(self.log_head.score(row[None, :]))[0])
        explained = explain_additive_row(self.log_head, row.tolist(), p50_s)
        return {**explained, "unit": "log seconds", "reason": self.reason(job, row, p50_s)}

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
            fields.details("training"),
        )

    def _seconds(self, logarithm: NDArray[np.float64]) -> NDArray[np.float64]:
        low, high = math.log(self.floor_s), math.log(self.ceiling_s)
        return np.exp(np.clip(logarithm, low, high))

    def _largest_fact(self, row: NDArray[np.float64]) -> str:
        """The plain fact of the job (size, hour, time limit, ...) that moves the estimate most, when by over
        5 %.
        """
        contributions = self.log_head.contributions_one(row.tolist())
        best, name, value = 0.05, "", math.nan
        for term, contribution in zip(self.log_head.terms, contributions, strict=True):
            feature = self.state.names[term.features[0]]
            if len(term.features) == 1 and feature in self.state.facts and abs(contribution) > abs(best):
                best, name, value = contribution, feature, float(row[term.features[0]])
        if not name:
            return ""
        direction = "long" if best > 0 else "short"
        return f"{_fact_text(name, value)} makes it {math.exp(abs(best)):.2f} times as {direction}"


def human_duration(seconds: float) -> str:
    """A run time for people: `45 s`, `12 min`, `3.4 h`, `2.1 days`."""
    for limit, unit_s, unit in ((90.0, 1.0, "s"), (5_400.0, 60.0, "min"), (172_800.0, 3_600.0, "h")):
        if seconds < limit:
            return f"{seconds / unit_s:.3g} {unit}"
    return f"{seconds / 86_400.0:.3g} days"


def _level_text(level: str, key: str) -> str:
    words = {
        "all": "a job",
        "size": f"a job of size {key}",
        "virtual_cluster": f"virtual cluster {key}",
        "virtual_cluster_size": f"virtual cluster x size {key}",
        "job_type": f"job type {key}",
        "family": f"family {key}",
        "name": f"name {key}",
        "user": f"user {key}",
        "user_size": f"user x size {key}",
        "user_family": f"user x family {key}",
        "user_name": f"user x name {key}",
        "user_name_size": f"user x name x size {key}",
    }
    return words[level]


def _fact_text(name: str, value: float) -> str:
    if math.isnan(value):
        return f"unknown {name.removeprefix('log_').replace('_', ' ')}"
    words = {
        "log_gpus": f"{math.expm1(value):.4g} GPUs",
        "log_cpus": f"{math.expm1(value):.4g} CPU cores",
        "nodes": f"{value:.4g} nodes",
        "log_time_limit": f"the time limit of {human_duration(math.expm1(value))}",
        "gpu_util_pct": f"GPU utilisation of {value:.0f} %",
        "gpu_mem_util_pct": f"GPU memory utilisation of {value:.0f} %",
        "log_gpu_mem_mib": f"GPU memory of {math.expm1(value):.0f} MiB",
        "hour": f"the submission hour {value:.0f}",
        "day_of_week": f"the weekday {('Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun')[int(value) % 7]}",
    }
    return words[name]
