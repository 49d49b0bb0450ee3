"""Errors of predictions at submission: Pred_err of ended jobs, by policy, release and virtual cluster."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from live_scheduler.forecast.submission_predictions import SubmissionPrediction, read_submission_predictions
from live_scheduler.memory.journal import JobEvent, JobEventKind

# Predictions older than this are not matched with ends.
LONGEST_S = 35 * 86_400.0


@dataclass(frozen=True, slots=True)
class JudgedPrediction:
    """A prediction and when its job ended (Unix s)."""

    prediction: SubmissionPrediction
    end_s: float

    @property
    def error_pct(self) -> float:
        """Pred_err, in percent of the predicted JCT."""
        return self.prediction.error_pct(self.end_s)


@dataclass(frozen=True, slots=True)
class PredictionErrorSummary:
    """Pred_err over some jobs, in percent (average, median, 99th percentile by linear interpolation).

    `by_promise` and `by_p90` are the shares that had ended by the predicted end, and by the plays' 90th
    percentile. `late` counts predictions made long after the submission; they are not judged.
    """

    jobs: int
    mean_pct: float
    median_pct: float
    p99_pct: float
    by_promise: float
    by_p90: float
    late: int = 0


class Group(NamedTuple):
    """Which predictions: `virtual_cluster` is empty for all of them."""

    policy: str
    release_version: int | None
    virtual_cluster: str


def summarise_errors(kept: Iterable[JudgedPrediction]) -> PredictionErrorSummary | None:
    """Return the errors of the predictions made at submission; None without any."""
    every = list(kept)
    counted = [each for each in every if not each.prediction.late]
    if not counted:
        return None
    errors = np.array([each.error_pct for each in counted])
    return PredictionErrorSummary(
        len(counted),
        float(errors.mean()),
        float(np.median(errors)),
        float(np.percentile(errors, 99)),
        float(np.mean([each.end_s <= each.prediction.end_s for each in counted])),
        float(np.mean([each.end_s <= each.prediction.end_p90_s for each in counted])),
        len(every) - len(counted),
    )


def by_policy_and_release(
    kept: Iterable[JudgedPrediction], *, virtual_clusters: bool
) -> Iterator[tuple[Group, PredictionErrorSummary]]:
    """Yield errors by policy and release, and in each virtual cluster if asked."""
    groups: dict[tuple[str, int, str], list[JudgedPrediction]] = {}
    for each in kept:
        of = each.prediction
        key = (of.policy, of.version or 0, of.virtual_cluster if virtual_clusters else "")
        groups.setdefault(key, []).append(each)
    for (policy, version, virtual_cluster), group in sorted(groups.items()):
        errors = summarise_errors(group)
        if errors is not None:
            yield Group(policy, version or None, virtual_cluster), errors


def judged_predictions(
    path: Path, events: Iterable[JobEvent], start_s: float = -math.inf, end_s: float = math.inf
) -> list[JudgedPrediction]:
    """Return the predictions of a file whose jobs ended in [start_s, end_s), by the journal's events.

    In the order of the ends. A job that was stopped and queued again ends with its last run.
    """
    waiting: dict[str, list[SubmissionPrediction]] = {}
    for prediction in dict.fromkeys(read_submission_predictions(path, start_s - LONGEST_S)):
        waiting.setdefault(prediction.job_id, []).append(prediction)
    judged = []
    for event in sorted(events, key=lambda event: event.at_s):
        if event.kind is not JobEventKind.ENDED or event.job_id not in waiting:
            continue
        earlier = [each for each in waiting[event.job_id] if each.at_s <= event.at_s]
        if earlier:
            waiting[event.job_id] = [each for each in waiting[event.job_id] if each.at_s > event.at_s]
            if start_s <= event.at_s < end_s:
                judged.append(JudgedPrediction(earlier[-1], event.at_s))
    return judged
