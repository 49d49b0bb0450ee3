"""Says in words why a job is estimated as it is, with the standard library alone."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from lucid_models.additive_scorer import AdditiveScorer
from lucid_models.duration_features import DurationFeatureState


def duration_reason(
    state: DurationFeatureState,
    log_head: AdditiveScorer,
    job: Mapping[str, Any],
    row: Sequence[float],
    p50_s: float,
    at_s: float | None = None,
) -> str:
    """One sentence: the estimate, the closest history that it rests on, and what moved it most besides.

    `row` holds the job's features in the order of `state.names`, as known at `at_s` (Unix time; None: at the
    job's submission).
    """
    evidence = state.evidence(state.keys_of(job))
    if not evidence:
        return f"{human_duration(p50_s)}: no finished job is known yet."
    level, key, count, mean = evidence[-1]
    text = (
        f"{human_duration(p50_s)} because {_level_text(level, key)} usually runs "
        f"{human_duration(math.exp(min(mean, 50.0)))} ({count} job{'s' if count != 1 else ''} seen)"
    )
    user = job.get("user")
    if "user" in state.levels and user and all(found[0] != "user" for found in evidence):
        text = f"{text}; user {user} is new"
    moved = _largest_fact(state, log_head, row)
    return f"{text}; {moved}." if moved else f"{text}."


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


def _largest_fact(state: DurationFeatureState, log_head: AdditiveScorer, row: Sequence[float]) -> str:
    """The plain fact of the job (size, hour, time limit, ...) that moves the estimate most, when by over
    5 %.
    """
    best, name, value = 0.05, "", math.nan
    for term, contribution in zip(log_head.terms, log_head.contributions_one(row), strict=True):
        feature = state.names[term.features[0]]
        if len(term.features) == 1 and feature in state.facts and abs(contribution) > abs(best):
            best, name, value = contribution, feature, float(row[term.features[0]])
    if not name:
        return ""
    direction = "long" if best > 0 else "short"
    return f"{_fact_text(name, value)} makes it {math.exp(abs(best)):.2f} times as {direction}"
