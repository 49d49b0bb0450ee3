"""When jobs are submitted, and what each of them is.

Work arrives in sweeps: a user submits a few jobs of one family, minutes apart, each with the next setting of
the family (`resnet50_lr1`, ...). A share of jobs is work that is done once and carries a name
of its own. The rate follows the hour and the weekday, drifts from day to day, and families are busier in some
weeks than in others. Each day has a random stream of its own, so a longer log begins with the shorter one.
"""

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt
import pandas as pd

from cluster_logs.synthetic.population import IntArray, Population
from cluster_logs.synthetic.run_times import SHARED, FloatArray, normal_cdf

# Jobs of a sweep by size class: searches take few GPUs each, the largest jobs come one by one.
_SWEEP_JOBS = (2.4, 1.8, 1.15)
_SWEEP_GAP_S = 90.0
_WEEK_SPREAD = 0.25  # standard deviation of the logarithm of a family's activity between weeks
# Innovations of the logarithm of the daily rate, and its autocorrelation.
_DAY_SPREAD, _DAY_MEMORY = 0.10, 0.6
# One forgotten job runs into the time limit every this many days (Helios: longest job 50 days).
_RUNAWAY_EVERY_DAYS, _RUNAWAY_DAY = 30, 2
_PATIENCE_S = 2.0 * 86_400.0
_LETTERS = np.array(list("abcdefghijkmnpqrstuvwxyz"))
_ONCE_STEMS = ("tmp", "debug", "demo", "convert", "infer", "repro")


@dataclass(frozen=True)
class Submissions:
    """The jobs of a log in the order of their submission; one entry a job."""

    submit_s: IntArray  # whole seconds since the log's start
    family: IntArray
    once: np.ndarray  # bool: work of a kind that does not come again
    patience_s: FloatArray  # the wait beyond which the user does not submit at all
    gpus: IntArray
    duration_s: FloatArray
    state: np.ndarray  # str
    source_state: np.ndarray  # str
    name: np.ndarray  # str

    def select(self, wanted: npt.NDArray[np.bool_]) -> "Submissions":
        """Return the wanted jobs only, in the same order."""
        return Submissions(**{field.name: getattr(self, field.name)[wanted] for field in fields(self)})


def draw_submissions(population: Population, days: int, seed: int, first_weekday: int) -> Submissions:
    """Draw all jobs submitted in the first `days` days; `first_weekday` is 0 for a Monday."""
    parts = []
    level = 0.0
    counters = np.zeros(len(population.user), dtype=np.int64)
    for day in range(days):
        rng = np.random.default_rng([seed, 1, day])
        level = _DAY_MEMORY * level + _DAY_SPREAD * float(rng.standard_normal())
        week = np.random.default_rng([seed, 2, day // 7])
        activity = np.exp(_WEEK_SPREAD * week.standard_normal(len(population.user)) - 0.5 * _WEEK_SPREAD**2)
        weekday = (first_weekday + day) % 7
        parts.append(_draw_day(population, day, weekday, np.exp(level), activity, counters, rng))
    jobs = pd.concat(parts, ignore_index=True)
    jobs = jobs[jobs.submit_s < days * 86_400]
    jobs = jobs.sort_values(["submit_s", "day", "position"], kind="stable")
    drawn = {field.name: jobs[field.name].to_numpy() for field in fields(Submissions) if field.name != "gpus"}
    return Submissions(gpus=population.gpus[drawn["family"]], **drawn)


def _draw_day(
    population: Population,
    day: int,
    weekday: int,
    level: float,
    activity: FloatArray,
    counters: IntArray,
    rng: np.random.Generator,
) -> pd.DataFrame:
    profile = population.profile
    hours = np.array(profile.hours) / np.mean(profile.hours)
    rate = level * profile.weekdays[weekday] / np.mean(profile.weekdays)
    jobs_per_day = population.jobs_per_day * activity * rate
    sweep_jobs = np.array(_SWEEP_JOBS)[population.size_class]

    sweeps = rng.poisson(jobs_per_day * profile.recurring / sweep_jobs)
    sweep_family = np.repeat(np.arange(len(sweeps)), sweeps)
    length = rng.geometric(1.0 / sweep_jobs[sweep_family])
    start = _draw_times(hours, len(sweep_family), rng)
    family = np.repeat(sweep_family, length)
    gaps = rng.exponential(_SWEEP_GAP_S, size=len(family))
    first = np.cumsum(length) - length
    gaps[first] = 0.0
    walked = np.cumsum(gaps)
    times = np.repeat(start, length) + walked - np.repeat(walked[first], length)
    step = np.arange(len(family)) - np.repeat(first, length)
    began = np.empty(len(sweep_family), dtype=np.int64)
    for index, (owner, jobs) in enumerate(zip(sweep_family, length, strict=True)):
        began[index] = counters[owner]
        counters[owner] += jobs
    setting = (np.repeat(began, length) + step) % population.variants[family] + 1
    stems = np.array(population.stem, dtype=object)[family]
    names = [f"{stem}{number}" for stem, number in zip(stems, setting, strict=True)]

    single = rng.poisson(jobs_per_day * (1.0 - profile.recurring))
    once_family = np.repeat(np.arange(len(single)), single)
    once_times = _draw_times(hours, len(once_family), rng)
    words = _LETTERS[rng.integers(len(_LETTERS), size=(len(once_family), 7))]
    kinds = rng.integers(len(_ONCE_STEMS), size=len(once_family))
    names += [f"{_ONCE_STEMS[kind]}_{''.join(word)}" for kind, word in zip(kinds, words, strict=True)]

    all_family = np.concatenate([family, once_family])
    once = np.concatenate([np.zeros(len(family), dtype=bool), np.ones(len(once_family), dtype=bool)])
    own = rng.standard_normal(len(all_family))
    shared = np.where(once, rng.standard_normal(len(all_family)), population.score[all_family])
    score = np.sqrt(SHARED) * shared + np.sqrt(1.0 - SHARED) * own
    duration_s = np.empty(len(all_family))
    for index, run_times in enumerate(population.run_times):
        members = population.size_class[all_family] == index
        duration_s[members] = run_times.at(score[members])
    gpus = population.gpus[all_family]
    # Users hold work back from a congested queue: the chance is wait / (wait + _PATIENCE_S).
    odds = rng.random(len(all_family))
    patience_s = _PATIENCE_S * odds / (1.0 - odds)
    state, source_state = _draw_states(population, gpus, score, rng)
    submit_s = np.floor(np.concatenate([times, once_times])).astype(np.int64) + day * 86_400

    if day % _RUNAWAY_EVERY_DAYS == _RUNAWAY_DAY:
        lone = np.flatnonzero(gpus == 1)
        if len(lone):
            runaway = lone[rng.integers(len(lone))]
            duration_s[runaway], patience_s[runaway] = profile.longest_s, np.inf
            state[runaway], source_state[runaway] = "FAILED", "TIMEOUT"
    return pd.DataFrame(
        {
            "submit_s": submit_s,
            "day": day,
            "position": np.arange(len(all_family)),
            "family": all_family,
            "once": once,
            "patience_s": patience_s,
            "duration_s": duration_s,
            "state": state,
            "source_state": source_state,
            "name": np.array(names, dtype=object),
        }
    )


def _draw_times(hours: FloatArray, count: int, rng: np.random.Generator) -> FloatArray:
    """Draw seconds of the day with a density that is constant within each hour."""
    hour = rng.choice(24, size=count, p=hours / hours.sum())
    times: FloatArray = (hour + rng.random(count)) * 3600.0
    return times


def _draw_states(
    population: Population, gpus: IntArray, score: FloatArray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draw how each job ends.

    In Helios what fails mostly fails early, and what is cancelled has mostly run for a while (Section 3.2.2),
    so the chances lean on the score of the run time while their means stay the published shares.
    """
    profile = population.profile
    sizes = np.array(sorted(profile.completed))
    completed = np.array([profile.completed[size] for size in sizes])[
        np.searchsorted(sizes, gpus, side="right") - 1
    ]
    below = normal_cdf(score)
    fails = np.minimum(profile.failed, 0.6 * (1.0 - completed))
    failed = fails * (1.0 + profile.failed_early * (0.5 - below))
    cancelled = (1.0 - completed - fails) * (0.6 + 0.8 * below)
    draw = rng.random(len(gpus))
    state = np.full(len(gpus), "COMPLETED", dtype=object)
    state[draw < failed + cancelled] = "CANCELLED"
    state[draw < failed] = "FAILED"
    source_state = state.copy()
    node = (state == "FAILED") & (rng.random(len(gpus)) < 0.01)
    source_state[node] = "NODE_FAIL"
    return state, source_state
