"""How often a duration model is fitted anew: the fits that intervals need, each once, and their estimates.

A model is fitted at the beginning of each interval, on the days before it. Until the next fit its shape
functions stay as they are. Its statistics may be *frozen* as well, which is what "a static model" means in
Lucid's section 4.5, or *live*: then they learn of every job that ends, as our scheduler's do.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lucid_models.boosting import BoostingSettings
from lucid_models.duration.model import DurationSettings, WorkloadEstimateModel, job_mappings

Floats = NDArray[np.float64]
DAY_S = 86_400.0
INTERVALS: Mapping[str, float] = {
    "never": float("inf"),
    "monthly": 30 * DAY_S,
    "weekly": 7 * DAY_S,
    "daily": DAY_S,
}
# Cheaper than a release's training, because a daily interval fits it once a day; the same for all intervals.
TRAINING = DurationSettings(
    log_boosting=BoostingSettings(
        objective="pseudo_huber:delta=0.25",
        bags=2,
        max_rounds=120,
        max_bins=64,
        learning_rate=0.12,
        min_samples_leaf=20,
    ),
    mean_boosting=BoostingSettings(
        objective="gamma_deviance", bags=2, max_rounds=20, max_bins=32, min_samples_leaf=50
    ),
    pairs=0,
)


@dataclass(frozen=True)
class Lesson:
    """One fit: as of `at_s`, with estimates for the jobs submitted from then until `until_s` (Unix seconds).

    `live`: also estimates with live statistics, by the same model.
    """

    at_s: float
    until_s: float
    live: bool = False


@dataclass(frozen=True)
class History:
    """All jobs of the log by submission, with their submission times (Unix seconds), and how fits learn."""

    jobs: pd.DataFrame
    submit_s: Floats
    training_days: float
    settings: DurationSettings = TRAINING


@dataclass(frozen=True)
class Estimates:
    """P50 and P90 in seconds of the jobs of a lesson, by submission."""

    p50: Floats
    p90: Floats


@dataclass(frozen=True)
class Learned:
    """What a fit said; `live` is None unless the lesson asked for it. `jobs`: how many it learned from."""

    frozen: Estimates
    live: Estimates | None
    jobs: int


def lessons(
    start_s: float, end_s: float, intervals: Sequence[str], *, always_live: bool = False
) -> list[Lesson]:
    """Return the fits that the intervals need from `start_s` to `end_s`, each once.

    Live statistics are asked of the first fit, or of every one.
    """
    horizon: dict[float, float] = {}
    for name in intervals:
        every_s = length_s(name, start_s, end_s)
        at_s = start_s
        while at_s <= end_s:
            horizon[at_s] = max(horizon.get(at_s, at_s), at_s + every_s)
            at_s += every_s
    return [
        Lesson(at_s, until_s, always_live or at_s == start_s) for at_s, until_s in sorted(horizon.items())
    ]


def learn(history: History, lesson: Lesson) -> Learned:
    """Fit one model on what was known at the lesson, and estimate the jobs that it is asked about."""
    until = pd.Timestamp(lesson.at_s, unit="s", tz="UTC")
    recent = history.submit_s < lesson.at_s
    recent &= history.submit_s >= lesson.at_s - history.training_days * DAY_S
    asked = (history.submit_s >= lesson.at_s) & (history.submit_s < lesson.until_s)
    past, coming = history.jobs[recent], history.jobs[asked]
    model = WorkloadEstimateModel(history.settings).fit(past, known_until=until)
    live = None
    if lesson.live:
        told = model.estimate_causal(coming, earlier=past)
        live = Estimates(told["p50_s"].to_numpy(np.float64), told["p90_s"].to_numpy(np.float64))
    p50, p90 = model.scorer.quantiles(job_mappings(coming))
    return Learned(Estimates(p50, p90), live, int(recent.sum()))


def assemble(
    done: Mapping[Lesson, Learned],
    submit_s: Floats,
    interval: str,
    pick: Callable[[Learned], Floats | None],
) -> Floats | None:
    """Put together what an interval's fits said of jobs submitted at `submit_s`; None if one did not say."""
    start_s, end_s = float(submit_s.min()), float(submit_s.max())
    every_s = length_s(interval, start_s, end_s)
    values = np.empty(len(submit_s))
    for lesson, learned in done.items():
        if (lesson.at_s - start_s) % every_s:
            continue
        said = pick(learned)
        if said is None:
            return None
        mine = (submit_s >= lesson.at_s) & (submit_s < lesson.at_s + every_s)
        told = submit_s[(submit_s >= lesson.at_s) & (submit_s < lesson.until_s)]
        values[mine] = said[told < lesson.at_s + every_s]
    return values


def length_s(interval: str, start_s: float, end_s: float) -> float:
    """Length of an interval within a log: one that is never over ends after the log."""
    return min(INTERVALS[interval], end_s - start_s + 1)
