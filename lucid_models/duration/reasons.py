"""Says in words why a job is estimated as it is, with NumPy and the standard library alone.

The log head adds effects up, so on run times they multiply. People compare amounts, so a reason starts from
what jobs like this one usually run and turns each effect into the time that it adds. The difference between
the estimate P and the usual run time U is shared out by the logarithmic mean: an effect e adds
e (P - U) / ln(P / U). The effects sum to ln(P / U), hence the times to P - U, whatever their order (the
additive logarithmic mean Divisia index, Ang 2005). Printed times are rounded together, so that what a
sentence says adds up too.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucid_models.additive_scorer import AdditiveScorer
from lucid_models.amounts import Scale, counted, human_duration, logarithmic_mean, moves, time_ago
from lucid_models.duration.features import DurationFeatureState
from lucid_models.duration.job_keys import KEY_SEPARATOR, UNNAMED, number_or_nan, text_or_none
from lucid_models.duration.key_statistics import LOG_SUM, TIME, WEIGHT
from lucid_models.duration.levels import LEVELS

# A sentence names the largest parts of an estimate, from this share of it on; what is left is told as one.
_WORTH_NAMING = 0.03
_MOST_NAMED = 3
# Statistics of a key that look at its newest jobs alone, and at those that have not ended.
_LATEST = ("soft_mean", "last", "last_two", "median")
_IN_FLIGHT = ("log_running", "log_oldest_age", "log_since_submission")
_NAME_LEVELS = ("name", "family", "bucket")
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_TIMES_OF_DAY = ("night", "morning", "afternoon", "evening")


@dataclass(frozen=True)
class KeyHistory:
    """What jobs of one key of a `level` did: `usual_s` is their time-decayed geometric mean run time."""

    level: str
    subject: str
    plural: bool
    jobs: int
    usual_s: float
    last_s: float
    ago_s: float


@dataclass(frozen=True)
class Part:
    """One part of an estimate: it multiplies it by exp(`effect`), which here adds `seconds`."""

    subject: str
    plural: bool
    effect: float
    seconds: float


@dataclass(frozen=True)
class DurationAccount:
    """An estimate as an account: `history.usual_s` plus the seconds of all parts is `estimate_s`.

    `new` names what no finished job had (the user, the job's name). Without any finished job `history` is
    None and there are no parts.
    """

    estimate_s: float
    history: KeyHistory | None
    new: tuple[str, ...]
    parts: tuple[Part, ...]

    def to_data(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {**asdict(self), "new": list(self.new), "parts": [asdict(part) for part in self.parts]}

    def sentence(self) -> str:
        """The account in words, for an operator."""
        history = self.history
        if history is None:
            return f"{human_duration(self.estimate_s)}: no finished job is known yet."
        named = [part for part in self.parts if abs(part.seconds) >= _WORTH_NAMING * self.estimate_s]
        named = sorted(named, key=lambda part: -abs(part.seconds))[:_MOST_NAMED]
        scale = Scale.of(self.estimate_s, [history.usual_s, *(part.seconds for part in named)])
        usual = scale.steps(history.usual_s)
        left = scale.steps(self.estimate_s) - usual
        clauses = []
        for part in named:
            steps = scale.steps(part.seconds)
            left -= steps
            clauses.append(moves(part.subject, part.plural, steps, scale))
        clauses.append(moves("the rest", False, left, scale))
        verb = ("run" if history.plural else "runs") if history.jobs > 1 else "ran"
        often = "usually " if history.jobs > 1 else ""
        seen = f"{history.jobs:,} jobs, the last" if history.jobs > 1 else "1 job,"
        because = f"{history.subject} {often}{verb} {scale.text(usual)} ({seen} {time_ago(history.ago_s)})"
        if self.new:
            because = f"{' and '.join(self.new)} {'is' if len(self.new) == 1 else 'are'} new and {because}"
        estimate = scale.text(scale.steps(self.estimate_s))
        return "; ".join([f"{estimate} because {because}", *filter(None, clauses)]) + "."


def account_for_duration(
    state: DurationFeatureState,
    log_head: AdditiveScorer,
    job: Mapping[str, Any],
    row: Sequence[float],
    p50_s: float,
    at_s: float | None = None,
) -> DurationAccount:
    """The parts of an estimate `p50_s` > 0 of the log head (or of a mix that holds it).

    `row` holds the job's features in the order of `state.names`, as known at `at_s` (Unix time; None: at the
    job's submission).
    """
    (effects,) = _effects_of(state, log_head, np.array([row], dtype=np.float64))
    return _account(state, state.keys_of(job), job, row, effects, p50_s, at_s)


def duration_reasons(
    state: DurationFeatureState,
    log_head: AdditiveScorer,
    jobs: Sequence[Mapping[str, Any]],
    keys: Sequence[Sequence[str | None]],
    rows: NDArray[np.float64],
    p50_s: NDArray[np.float64],
    at_s: float | None = None,
) -> list[str]:
    """`account_for_duration` of each job as one sentence; `keys` are theirs, `rows` (jobs, features)."""
    effects_of = _effects_of(state, log_head, rows)
    return [
        _account(state, known, job, row, effects, p50, at_s).sentence()
        for job, known, row, effects, p50 in zip(
            jobs, keys, rows.tolist(), effects_of, p50_s.tolist(), strict=True
        )
    ]


def _account(
    state: DurationFeatureState,
    keys: Sequence[str | None],
    job: Mapping[str, Any],
    row: Sequence[float],
    effect_of: Mapping[str, float],
    p50_s: float,
    at_s: float | None,
) -> DurationAccount:
    time_s = number_or_nan(job.get("submit_time_s")) if at_s is None else at_s
    if math.isnan(time_s):
        time_s = state.now_s
    history = _closest_history(state, keys, time_s)
    new = _what_is_new(state, keys, job)
    if history is None:
        return DurationAccount(p50_s, None, new, ())
    shared = _shared(history.level)
    facts = dict(zip(state.facts, row[len(row) - len(state.facts) :], strict=True))
    effects = [
        (*_describe(group, facts), effect_of[group])
        for group in _GROUPS
        if effect_of.get(group) and group not in shared
    ]
    total = math.log(p50_s / history.usual_s)
    effects.append(("other similar jobs", True, total - sum(effect for _, _, effect in effects)))
    per_effect_s = logarithmic_mean(p50_s, history.usual_s)
    parts = tuple(Part(subject, plural, effect, effect * per_effect_s) for subject, plural, effect in effects)
    return DurationAccount(p50_s, history, new, parts)


# -- what is known of jobs like it


def _closest_history(
    state: DurationFeatureState, keys: Sequence[str | None], time_s: float
) -> KeyHistory | None:
    """The finest level whose own jobs outweigh what it is shrunk towards; else the finest that has any."""
    finest: KeyHistory | None = None
    for level, key, table in reversed(list(zip(state.levels, keys, state.tables, strict=True))):
        statistics = None if key is None else table.get(key)
        if key is None or statistics is None or not statistics.count:
            continue
        numbers = statistics.numbers
        decay = math.exp2(min(numbers[TIME] - time_s, 0.0) / state.settings.half_life_s)
        own = numbers[WEIGHT] * decay > state.settings.prior_jobs
        if not own and finest is not None:
            continue
        usual = numbers[LOG_SUM] / numbers[WEIGHT] if numbers[WEIGHT] > 0 else numbers[-1]
        subject, plural = _subject(level, key)
        history = KeyHistory(
            level,
            subject,
            plural,
            statistics.count,
            math.exp(min(usual, 50.0)),
            math.exp(min(numbers[-1], 50.0)),
            max(time_s - numbers[TIME], 0.0),
        )
        if own:
            return history
        finest = history
    return finest


def _what_is_new(
    state: DurationFeatureState, keys: Sequence[str | None], job: Mapping[str, Any]
) -> tuple[str, ...]:
    """The job's user, and its name unless names like it are known, when no finished job had them."""
    seen = {
        level
        for level, key, table in zip(state.levels, keys, state.tables, strict=True)
        if key is not None and key in table and table[key].count
    }
    user, name = text_or_none(job.get("user")), text_or_none(job.get("name"))
    new = []
    if user is not None and "user" in state.levels and "user" not in seen:
        new.append(f"user {user}")
    of_names = [level for level in state.levels if len(LEVELS[level][0]) == 1 and level in _NAME_LEVELS]
    if name is not None and of_names and not seen.intersection(of_names):
        new.append(f"name {name}")
    return tuple(new)


def _subject(level: str, key: str) -> tuple[str, bool]:
    """A key in words, and whether they are plural: `user u1 x net# family`, `jobs with 8 GPUs`."""
    parts = LEVELS[level][0]
    if not parts:
        return "jobs of this cluster", True
    words = [_key_words(part, value) for part, value in zip(parts, key.split(KEY_SEPARATOR), strict=False)]
    if parts in (("size",), ("time_limit",)):
        return f"jobs with {words[0]}", True
    return " x ".join(words), words[0] == "unnamed jobs" or parts == ("bucket",)


def _key_words(part: str, value: str) -> str:
    noun = part.replace("_", " ")
    if part == "size":
        return _size_words(value)
    if part == "time_limit":
        return f"time limit {human_duration(float(value))}"
    if value == UNNAMED:
        return "unnamed jobs"
    if part == "bucket":
        return f"names like {value}"
    if value.lower().startswith(noun):  # `user7` says what it is
        return value
    return f"{value} {noun}" if part == "family" else f"{noun} {value}"


def _size_words(key: str) -> str:
    if key.startswith("cpu"):
        cores = key.removeprefix("cpu")
        return f"{counted(float(cores), 'CPU core')} and no GPU" if cores else "no GPU"
    return counted(float(key), "GPU")


# -- what moves the estimate


def _shared(level: str) -> set[str]:
    """The facts that all jobs of a key have in common: against them, these facts change nothing."""
    parts = LEVELS[level][0]
    return {group for part, group in (("size", "size"), ("time_limit", "limit")) if part in parts}


def _effects_of(
    state: DurationFeatureState, log_head: AdditiveScorer, rows: NDArray[np.float64]
) -> list[dict[str, float]]:
    """For each row, by group, the effect on log run time of what can be told apart besides the usual one.

    Facts and jobs in flight count against the average job, as the shape functions do. The latest runs count
    against the same jobs had they run as usual: the means of their keys in their place. What a pair of
    features adds counts for their group; where they have two, it is left over.
    """
    groups, usual_of = _feature_groups(state.names)
    usual = np.array(usual_of, dtype=np.intp)
    as_usual = np.where((usual < 0) | np.isnan(rows), rows, rows.take(usual, axis=1))
    found, had_it_run_as_usual = log_head.contributions(rows), log_head.contributions(as_usual)
    sums: dict[str, NDArray[np.float64]] = {}
    for at, term in enumerate(log_head.terms):
        read = {groups[position] for position in term.features}
        group = read.pop() if len(read) == 1 else "latest"
        effect = found[:, at] - had_it_run_as_usual[:, at] if group == "latest" else found[:, at]
        sums[group] = sums[group] + effect if group in sums else effect
    if not sums:
        return [{} for _ in rows]
    columns = [column.tolist() for column in sums.values()]
    return [dict(zip(sums, effects, strict=True)) for effects in zip(*columns, strict=True)]


_GROUPS = ("latest", "flight", "size", "limit", "profile", "submission")


@lru_cache(maxsize=16)
def _feature_groups(names: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Each feature's group, and the position of what it would be had a key's latest jobs run as usual (-1: no
    latest).
    """
    at = {name: position for position, name in enumerate(names)}
    groups, usual_of = [], []
    for name in names:
        level, _, statistic = name.partition(":")
        group = _GROUP_OF_FACT.get(name, "latest")
        groups.append("flight" if statistic in _IN_FLIGHT else group)
        usual_of.append(at.get(f"{level}:mean", -1) if statistic in _LATEST else -1)
    return tuple(groups), tuple(usual_of)


def _describe(group: str, facts: Mapping[str, float]) -> tuple[str, bool]:
    """A group of effects in words, and whether they are plural."""
    value = {name: facts.get(name, math.nan) for name in _GROUP_OF_FACT}
    known = {name for name, number in value.items() if not math.isnan(number)}
    match group:
        case "latest":
            return "the latest runs", True
        case "flight":
            return "jobs now in flight", True
        case "size":
            asked = [("log_gpus", "GPU"), ("log_cpus", "CPU core"), ("nodes", "node")]
            words = [
                counted(value[name] if name == "nodes" else math.expm1(value[name]), noun)
                for name, noun in asked
                if name in known
            ]
            text = words[0] + (f" ({', '.join(words[1:])})" if words[1:] else "") if words else "its size"
            return text, bool(words) and not words[0].startswith(("1 ", "no "))
        case "limit":
            if "log_time_limit" not in known:
                return "having no time limit", False
            return f"the time limit of {human_duration(math.expm1(value['log_time_limit']))}", False
        case "profile":
            words = [f"{value['gpu_util_pct']:.0f} % busy"] if "gpu_util_pct" in known else []
            if "log_gpu_mem_mib" in known:
                words.append(f"{math.expm1(value['log_gpu_mem_mib']) / 1024:.2g} GiB")
            return f"its GPU profile ({', '.join(words)})" if words else "having no GPU profile", False
        case _:
            if not {"hour", "day_of_week"} <= known:
                return "its time of submission", False
            day = _WEEKDAYS[int(value["day_of_week"]) % 7]
            return f"submission on a {day} {_TIMES_OF_DAY[int(value['hour'] // 6) % 4]}", False


_GROUP_OF_FACT = {
    "log_gpus": "size",
    "log_cpus": "size",
    "nodes": "size",
    "log_time_limit": "limit",
    "gpu_util_pct": "profile",
    "gpu_mem_util_pct": "profile",
    "log_gpu_mem_mib": "profile",
    "hour": "submission",
    "day_of_week": "submission",
}
