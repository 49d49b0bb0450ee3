"""How well completion times were predicted at submission: Pred_err beside what the gate promised."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from live_scheduler.daemon import JOURNAL_FILE
from live_scheduler.forecast.submission_predictions import (
    SUBMISSION_PREDICTIONS_FILE,
    PredictionErrorSummary,
    by_policy_and_release,
    judged_predictions,
    summarise_errors,
)
from live_scheduler.memory.journal import Journal
from pipeline.monitoring.data import DAY_S
from pipeline.monitoring.forecast_errors import Change, change_over_days
from pipeline.monitoring.rules import Finding, MonitorSettings, Urgency


@dataclass(frozen=True)
class PredictionGroup:
    """Pred_err of one policy's order ("cluster": its own), one release, and all or one virtual cluster."""

    policy: str
    release_version: int | None
    virtual_cluster: str
    errors: PredictionErrorSummary


@dataclass(frozen=True)
class DayOfPredictions:
    """Those of the watched release for jobs that ended on a UTC day."""

    day: str
    jobs: int
    mean_pct: float
    p99_pct: float


@dataclass(frozen=True)
class PredictionHealth:
    """`groups`: all together first, then by virtual cluster. The rest is of the watched release.

    `expected` is what the gate promised of it (`mean_pred_err_pct`, `p99_pred_err_pct`), where it judged
    predictions; `against_gate` the change of the mean, with its interval over days.
    """

    groups: tuple[PredictionGroup, ...]
    days: tuple[DayOfPredictions, ...]
    watched: PredictionErrorSummary | None = None
    expected: Mapping[str, float] | None = None
    against_gate: Change | None = None


def gate_prediction_errors(verdict: Mapping[str, Any] | None) -> dict[str, float] | None:
    """Return the prediction errors (%) that a release had when the gate replayed it; None: not judged."""
    if verdict is None:
        return None
    rows: dict[Any, Mapping[str, Any]] = {row.get("policy"): row for row in verdict.get("policies") or ()}
    row = rows.get(verdict.get("challenger"), {})
    figures = {name: row.get(name) for name in ("mean_pred_err_pct", "p99_pred_err_pct")}
    errors = {name: float(value) for name, value in figures.items() if value is not None}
    return errors or None


def prediction_health(
    folder: Path,
    version: int,
    expected: Mapping[str, float] | None,
    start_s: float,
    end_s: float,
    settings: MonitorSettings,
) -> PredictionHealth | None:
    """Judge the predictions of a state folder for jobs that ended in [start_s, end_s); None without any."""
    kept = judged_predictions(
        folder / SUBMISSION_PREDICTIONS_FILE, Journal(folder / JOURNAL_FILE).read(start_s), start_s, end_s
    )
    if not kept:
        return None
    groups = [
        PredictionGroup(*group, errors)
        for each in (False, True)
        for group, errors in by_policy_and_release(kept, virtual_clusters=each)
    ]
    watched = [each for each in kept if each.prediction.version == version and not each.prediction.late]
    days = np.array([int(each.end_s // DAY_S) for each in watched])
    errors = np.array([each.error_pct for each in watched])
    change = None
    mean_pct = (expected or {}).get("mean_pred_err_pct")
    enough = len(watched) >= settings.least_jobs and len(np.unique(days)) >= settings.least_days
    if mean_pct is not None and enough:
        change = change_over_days(errors, np.full(len(errors), mean_pct), days, settings)
    by_day = tuple(
        DayOfPredictions(
            datetime.fromtimestamp(int(day) * DAY_S, UTC).date().isoformat(),
            int((days == day).sum()),
            float(errors[days == day].mean()),
            float(np.percentile(errors[days == day], 99)),
        )
        for day in np.unique(days)
    )
    return PredictionHealth(tuple(groups), by_day, summarise_errors(watched), expected, change)


def prediction_findings(health: PredictionHealth | None, settings: MonitorSettings) -> Iterator[Finding]:
    """Say where completion times were predicted clearly worse than the gate promised."""
    if health is None or health.watched is None or not health.expected:
        return
    at_gate = health.expected.get("mean_pred_err_pct")
    errors, change = health.watched, health.against_gate
    if at_gate is None or change is None or change.low is None or change.low <= 0:
        return
    limit = settings.error_factor * at_gate
    sentence = (
        f"Completion times told at submission are off by {errors.mean_pct:.1f} % on average "
        f"({errors.p99_pct:.1f} % at P99, {errors.jobs:,} jobs); the gate promised {at_gate:.1f} %."
    )
    if errors.mean_pct > limit:
        yield Finding(Urgency.RETRAIN, "live", "prediction error", sentence, errors.mean_pct, limit)
    else:
        yield Finding(Urgency.WATCH, "live", "prediction error", sentence, errors.mean_pct, at_gate)
