"""Which columns of a log no longer look like the training window: what models read, and what they predict."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lucid_models.drift import Drift, level_drift, number_drift, window_numbers
from lucid_models.duration.job_columns import MODEL_FACTS
from lucid_models.duration.model import epoch_seconds
from lucid_models.duration.name_buckets import name_family
from lucid_models.evaluation.rival_estimates import known_from_s
from pipeline.monitoring.data import DAY_S, HOUR_S, MonitoredTables, MonitoredWindow
from pipeline.monitoring.rules import Finding, MonitorSettings, Urgency

NUMBERS = tuple(fact.name for fact in MODEL_FACTS if fact.is_number)
_LEVELS = tuple(fact for fact in MODEL_FACTS if not fact.is_number and fact.name != "job_id")
LEVELS = tuple(fact.name for fact in _LEVELS)
# What a level that training never saw is called.
_PLURALS = {
    **{fact.name: f"new {fact.words}s" for fact in _LEVELS},
    "gpus": "GPU demands that are new",
}
# New names come every day, and the model answers them by their family and their user.
_NEW_IS_USUAL = ("name",)
_LEAST_KNOWN_SHARE = 0.02


def measure_drift(tables: MonitoredTables) -> tuple[Drift, ...]:
    """Compare the window with the training window: columns of jobs first, then the targets.

    Run times are those of the jobs that *ended* in each window, so that jobs still running bias neither.
    """
    return (*_job_columns(tables), _run_times(tables), *_throughput_series(tables))


def drift_findings(drifts: tuple[Drift, ...], settings: MonitorSettings) -> Iterator[Finding]:
    """Name the columns that moved further than the training window's own weeks do, and than chance."""
    for drift in drifts:
        if drift.psi is not None:
            usual = drift.usual_psi or 0.0
            limit = drift.limit(max(settings.psi_major, settings.over_usual * usual))
            noticed = drift.limit(max(settings.psi_watch, settings.over_usual * usual))
            beside = "" if drift.usual_psi is None else f"; training's own weeks reached {usual:.2f}"
            if drift.psi >= limit:
                sentence = (
                    f"{drift.feature} is distributed differently: PSI {drift.psi:.2f}, major{beside}. "
                    + largest_move(drift)
                )
                yield Finding(Urgency.RETRAIN, "drift", drift.feature, sentence, drift.psi, limit)
            elif drift.psi >= noticed:
                sentence = f"{drift.feature} begins to shift: PSI {drift.psi:.2f}{beside}."
                yield Finding(Urgency.WATCH, "drift", drift.feature, sentence, drift.psi, noticed)
        if drift.unseen_share is not None:
            usual = drift.usual_unseen_share or 0.0
            limit = drift.unseen_limit(min(max(settings.unknown_share, settings.over_usual * usual), 1.0))
            if drift.unseen_share > limit:
                level = Urgency.WATCH if drift.feature in _NEW_IS_USUAL else Urgency.RETRAIN
                sentence = f"{_PLURALS[drift.feature]}: {drift.unseen_share:.0%} of the jobs."
                if drift.usual_unseen_share is not None:
                    sentence += f" In training's last week: {drift.usual_unseen_share:.0%}."
                subject = _PLURALS[drift.feature]
                yield Finding(level, "drift", subject, _sentence(sentence), drift.unseen_share, limit)


def largest_move(drift: Drift) -> str:
    """Say which bin gained or lost the most."""
    moved = max(drift.bins, key=lambda each: abs(each.live - each.reference))
    return f"{moved.label}: {moved.reference:.0%} of training, {moved.live:.0%} now."


def _job_columns(tables: MonitoredTables) -> Iterator[Drift]:
    window, old, new = tables.window, tables.reference, tables.live
    weeks = _weeks(epoch_seconds(old, "submit_time"), window)
    shown: list[NDArray[np.int64]] = []
    for name in NUMBERS:
        if not _told(old, name):
            continue
        values = _numbers(old, name)
        # Columns that rank jobs alike (GPUs, and cores that come with them) would say the same twice.
        ranks = pd.factorize(values, sort=True)[0]
        if any(np.array_equal(ranks, other) for other in shown):
            continue
        shown.append(ranks)
        drift = number_drift(name, values, _numbers(new, name), weeks)
        if name == "gpus":
            sizes = level_drift(name, old[name], new[name], weeks)
            drift = replace(
                drift, unseen_share=sizes.unseen_share, usual_unseen_share=sizes.usual_unseen_share
            )
        yield drift
    hours = [epoch_seconds(jobs, "submit_time") % DAY_S // HOUR_S for jobs in (old, new)]
    yield number_drift("hour of submission (UTC)", hours[0], hours[1], weeks)
    for name in LEVELS:
        if _told(old, name):
            levels = [_families(jobs[name]) if name == "name" else jobs[name] for jobs in (old, new)]
            yield level_drift(name, levels[0], levels[1], weeks)


def _run_times(tables: MonitoredTables) -> Drift:
    window, later = tables.window, tables.later
    old_end, new_end = known_from_s(tables.reference), known_from_s(later)
    begun, until = window.start.timestamp(), window.end.timestamp()
    before = np.isfinite(old_end) & (old_end < window.trained_until.timestamp())
    inside = (new_end >= begun) & (new_end < until)
    old = _numbers(tables.reference, "duration_s")[before]
    new = _numbers(later, "duration_s")[inside]
    return number_drift("run time (s)", old, new, _weeks(old_end[before], window))


def _throughput_series(tables: MonitoredTables) -> Iterator[Drift]:
    if tables.throughput is None:
        return
    window = tables.window
    start_s = epoch_seconds(tables.throughput, "bin_start")
    before = start_s < window.trained_until.timestamp()
    inside = start_s >= window.start.timestamp()
    weeks = _weeks(start_s[before], window)
    for name, title in (
        ("submitted_gpu_jobs", "jobs submitted a bin"),
        ("submitted_gpus", "GPUs asked for a bin"),
    ):
        values = _numbers(tables.throughput, name)
        yield number_drift(title, values[before], values[inside], weeks)


def _weeks(times_s: NDArray[np.float64], window: MonitoredWindow) -> NDArray[np.int64] | None:
    if window.length_s <= 0 or not times_s.size:
        return None
    return window_numbers(times_s, window.trained_until.timestamp(), window.length_s)


def _told(jobs: pd.DataFrame, name: str) -> bool:
    has_value = jobs[name].notna() if name in jobs.columns else pd.Series(dtype=bool)
    return bool(len(has_value) and has_value.mean() >= _LEAST_KNOWN_SHARE and jobs[name].nunique() > 1)


def _numbers(jobs: pd.DataFrame, name: str) -> NDArray[np.float64]:
    values = jobs[name].astype("Float64").to_numpy(dtype=np.float64, na_value=np.nan)
    return np.asarray(values, dtype=np.float64)


def _families(names: "pd.Series[str]") -> "pd.Series[Any]":
    family_of = {name: name_family(str(name)) for name in names.dropna().unique()}
    return names.map(family_of).astype(object)


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]
