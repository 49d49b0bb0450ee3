"""Says in words why a job is estimated as it is, with NumPy and the standard library alone.

The log head adds effects up, so on run times they multiply. People compare amounts, so a reason starts from
what jobs like this one usually run and turns each effect into the time that it adds. The difference between
the estimate P and the usual run time U is shared out by the logarithmic mean: an effect e adds
e (P - U) / ln(P / U). The effects sum to ln(P / U), hence the times to P - U, whatever their order (the
additive logarithmic mean Divisia index, Ang 2005). Printed times are rounded together, so that what a
sentence says adds up too.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cluster_logs.job_facts import KnownFrom
from foundation.float_sums import add_in_order
from foundation.human_times import human_duration, time_ago
from lucid_models.additive_scorer import AdditiveScorer
from lucid_models.amounts import Scale, counted, logarithmic_mean, moves
from lucid_models.duration.features import DurationFeatureState, KnownOfJobs
from lucid_models.duration.job_columns import MODEL_FACTS, PLAIN_FACTS
from lucid_models.duration.key_statistics import COUNT, LOG_SUM, TIME, WEIGHT
from lucid_models.duration.levels import AMOUNTS, level_parts, part_words
from lucid_models.duration.name_buckets import KEY_SEPARATOR, UNNAMED, text_or_none

# A sentence names the largest parts of an estimate, from this share of it on; what is left is one sum.
_WORTH_NAMING = 0.03
_MOST_NAMED = 3
# Statistics of a key that look at its newest jobs alone, and at those that have not ended.
_LATEST = ("soft_mean", "naive", "last", "last_two", "median")
_IN_FLIGHT = ("log_running", "log_oldest_age", "log_since_submission")
_NAME_LEVELS = ("name", "family", "bucket")
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_TIMES_OF_DAY = ("night", "morning", "afternoon", "evening")


class KeyHistory(NamedTuple):
    """What jobs of one key of a `level` did: `usual_s` is their time-decayed geometric mean run time."""

    level: str
    subject: str
    plural: bool
    jobs: int
    usual_s: float
    last_s: float
    ago_s: float


class Effect(NamedTuple):
    """One part of an estimate: it multiplies it by exp(`effect`), which here adds `seconds`."""

    subject: str
    plural: bool
    effect: float
    seconds: float


class DurationAccount(NamedTuple):
    """An estimate as an account: `history.usual_s` plus the seconds of all parts is `estimate_s`.

    `new` names what no finished job had (the user, the virtual cluster, the job's name). Without any finished
    job `history` is None and there are no parts.
    """

    estimate_s: float
    history: KeyHistory | None
    new: tuple[str, ...]
    parts: tuple[Effect, ...]

    def to_data(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "estimate_s": self.estimate_s,
            "history": None if self.history is None else self.history._asdict(),
            "new": list(self.new),
            "parts": [part._asdict() for part in self.parts],
        }

    def sentence(self) -> str:
        """The account in words, for an operator."""
        history = self.history
        if history is None:
            return f"{human_duration(self.estimate_s)}: no finished job is known yet."
        least_s = _WORTH_NAMING * self.estimate_s
        named = [part for part in self.parts if abs(part.seconds) >= least_s]
        named.sort(key=lambda part: -abs(part.seconds))
        del named[_MOST_NAMED:]
        scale = Scale.of(self.estimate_s, [history.usual_s, *[part.seconds for part in named]])
        usual = scale.steps(history.usual_s)
        unexplained = scale.steps(self.estimate_s) - usual
        clauses = []
        for part in named:
            steps = scale.steps(part.seconds)
            unexplained -= steps
            clauses.append(moves(part.subject, part.plural, steps, scale))
        clauses.append(moves("the rest", False, unexplained, scale))
        verb = ("run" if history.plural else "runs") if history.jobs > 1 else "ran"
        often = "usually " if history.jobs > 1 else ""
        seen = f"{history.jobs:,} jobs, the last" if history.jobs > 1 else "1 job,"
        because = f"{history.subject} {often}{verb} {scale.text(usual)} ({seen} {time_ago(history.ago_s)})"
        if self.new:
            *others, last = self.new
            news = f"{', '.join(others)} and {last} are" if others else f"{last} is"
            because = f"{news} new and {because}"
        estimate = scale.text(scale.steps(self.estimate_s))
        return "; ".join([f"{estimate} because {because}", *filter(None, clauses)]) + "."


class Lately(NamedTuple):
    """The calibration's offset of log run time in an estimate, and the group of jobs that it is from."""

    offset: float
    group: str = "virtual cluster"


NOTHING_LATELY = Lately(0.0)


def account_for_duration(
    state: DurationFeatureState,
    log_head: AdditiveScorer,
    job: Mapping[str, Any],
    row: Sequence[float],
    p50_s: float,
    at_s: float | None = None,
    lately: Lately = NOTHING_LATELY,
) -> DurationAccount:
    """The parts of an estimate `p50_s` > 0 of the log head (or of a mix that holds it).

    `row` holds the job's features in the order of `state.names`, as known at `at_s` (Unix time; None: at the
    job's submission); `lately` is what the calibration adds.
    """
    histories, rows = state.known_of([job], at_s), np.array([row], dtype=np.float64)
    return next(_accounts(state, log_head, [job], histories, rows, np.array([p50_s]), [lately]))


def duration_reasons(
    state: DurationFeatureState,
    log_head: AdditiveScorer,
    jobs: Sequence[Mapping[str, Any]],
    known: KnownOfJobs,
    rows: NDArray[np.float64],
    p50_s: NDArray[np.float64],
    lately: Sequence[Lately],
) -> list[str]:
    """`account_for_duration` of each job as one sentence; `known` is what is known of the jobs, `rows` (jobs,
    features) are their features.
    """
    return [account.sentence() for account in _accounts(state, log_head, jobs, known, rows, p50_s, lately)]


def _accounts(
    state: DurationFeatureState,
    log_head: AdditiveScorer,
    jobs: Sequence[Mapping[str, Any]],
    known: KnownOfJobs,
    rows: NDArray[np.float64],
    p50_s: NDArray[np.float64],
    lately: Sequence[Lately],
) -> Iterator[DurationAccount]:
    accounts = zip(
        p50_s.tolist(),
        _closest_histories(state, known),
        _what_is_new(state, known, jobs),
        _effects_of(state, log_head, rows),
        known.facts.T.tolist(),
        lately,
        strict=True,
    )
    for estimate_s, history, new, effect_of, values, told in accounts:
        if history is None:
            yield DurationAccount(estimate_s, None, new, ())
            continue
        known_facts = {name: value for name, value in zip(state.facts, values, strict=True) if value == value}
        shared = _shared(history.level)
        effects = [
            (*_describe(group, known_facts), effect_of[group])
            for group in _GROUPS
            if effect_of.get(group) and group not in shared
        ]
        if told.offset:
            effects.append((f"what jobs of its {told.group} lately took", False, told.offset))
        total = math.log(estimate_s / history.usual_s)
        effects.append(("other similar jobs", True, total - add_in_order(effect for _, _, effect in effects)))
        per_effect_s = logarithmic_mean(estimate_s, history.usual_s)
        parts = [
            Effect(subject, plural, effect, effect * per_effect_s) for subject, plural, effect in effects
        ]
        yield DurationAccount(estimate_s, history, new, tuple(parts))


# -- what is known of jobs like it


def _closest_histories(state: DurationFeatureState, known: KnownOfJobs) -> list[KeyHistory | None]:
    """Of each job, the finest level with jobs of its own that outweigh what it is shrunk towards; else the
    finest that has any.
    """
    columns = known.columns
    numbers, ended = columns.numbers, columns.ended
    own = ended & (numbers[WEIGHT].take(columns.rows) * columns.decay > state.settings.prior_jobs)
    # From the finest on: a level with enough jobs of its own comes before any that only has some.
    rank = (np.where(own, 2, 0) + ended)[::-1]
    levels = len(state.levels) - 1 - rank.argmax(axis=0)
    jobs = np.arange(levels.size)
    rows = columns.rows[levels, jobs]
    ago_s = np.maximum(columns.time_s - numbers[TIME, rows], 0.0)
    distinct, first, of = np.unique(rows, return_index=True, return_inverse=True)
    tellers = [
        _told_of_key(state.levels[level], known.keys[level].keys[known.keys[level].of[job]], numbers[:, row])
        for row, level, job in zip(distinct.tolist(), levels[first].tolist(), first.tolist(), strict=True)
    ]
    return [
        None if teller is None else KeyHistory._make((*teller, ago))
        for teller, ago in zip([tellers[at] for at in of.tolist()], ago_s.tolist(), strict=True)
    ]


def _told_of_key(
    level: str, key: str | None, numbers: NDArray[np.float64]
) -> tuple[str, str, bool, int, float, float] | None:
    """A KeyHistory but for when its last job ended; None where none did."""
    if key is None or not numbers[COUNT]:
        return None
    numbers_of_key = numbers.tolist()
    usual = (
        numbers_of_key[LOG_SUM] / numbers_of_key[WEIGHT] if numbers_of_key[WEIGHT] > 0 else numbers_of_key[-1]
    )
    usual_s, last_s = (math.exp(min(logarithm, 50.0)) for logarithm in (usual, numbers_of_key[-1]))
    return level, *_subject(level, key), int(numbers_of_key[COUNT]), usual_s, last_s


def _what_is_new(
    state: DurationFeatureState, known: KnownOfJobs, jobs: Sequence[Mapping[str, Any]]
) -> list[tuple[str, ...]]:
    """What each job has (its user, its virtual cluster, its name unless names like it are known) and no
    finished job had.
    """
    ended = known.columns.ended
    levels_of: dict[str, list[int]] = {}
    for at, level in enumerate(state.levels):
        fact = "name" if level in _NAME_LEVELS else level
        if fact in _TEXTS:
            levels_of.setdefault(fact, []).append(at)
    news: list[tuple[str, ...]] = [()] * len(jobs)
    for fact in filter(levels_of.__contains__, _TEXTS):
        for at in np.flatnonzero(~ended[levels_of[fact]].any(axis=0)).tolist():
            text = text_or_none(jobs[at].get(fact))
            if text is not None:
                news[at] = (*news[at], f"{part_words(fact)} {text}")
    return news


def _subject(level: str, key: str) -> tuple[str, bool]:
    """A key in words, and whether they are plural: `user u1 x net# family`, `jobs with 8 GPUs`."""
    parts = level_parts(level)
    if not parts:
        return "jobs of this cluster", True
    words = [_key_words(part, value) for part, value in zip(parts, key.split(KEY_SEPARATOR), strict=False)]
    if parts == ("size",) or (len(parts) == 1 and parts[0] in AMOUNTS):
        return f"jobs with {words[0]}", True
    return " x ".join(words), words[0] == "unnamed jobs" or parts == ("bucket",)


def _key_words(part: str, value: str) -> str:
    noun = part_words(part)
    if part == "size":
        return _size_words(value)
    if part in AMOUNTS:
        return f"{noun} {_amount_words(AMOUNTS[part], float(value))}"
    if value == UNNAMED:
        return "unnamed jobs"
    if part == "bucket":
        return f"names like {value}"
    if value.lower().startswith(noun.lower()):  # `user7` says what it is
        return value
    return f"{value} {noun}" if part == "family" else f"{noun} {value}"


def _amount_words(fact: str, amount: float) -> str:
    """`3 h` of a time limit, `20 GiB` of memory."""
    if _FACT[fact].is_duration:
        return human_duration(amount)
    return f"{amount / 1024:,.4g} GiB" if amount >= 1024 else f"{amount:,.4g} MiB"


def _size_words(key: str) -> str:
    if key.startswith("cpu"):
        cores = key.removeprefix("cpu")
        return f"{counted(float(cores), 'CPU core')} and no GPU" if cores else "no GPU"
    return counted(float(key), "GPU")


# -- what moves the estimate


def _shared(level: str) -> set[str]:
    """The groups of facts that all jobs of a key have in common: against them, these change nothing."""
    parts = level_parts(level)
    return {group for part, group in (("size", "size"), ("time_limit", "limit")) if part in parts}


def _effects_of(
    state: DurationFeatureState, log_head: AdditiveScorer, rows: NDArray[np.float64]
) -> list[dict[str, float]]:
    """For each row, by group, the effect on log run time of what differs from the usual one.

    Facts and jobs in flight count against the average job, as the shape functions do. The latest runs count
    against the same jobs had they run as usual: the means of their keys in their place. What a pair of
    features adds counts for their group; where they have two, it is left over.
    """
    groups, usual_of = _feature_groups(state.names)
    usual = np.array(usual_of, dtype=np.intp)
    as_usual = np.where((usual < 0) | np.isnan(rows), rows, rows.take(usual, axis=1))
    now_effects, had_it_run_as_usual = log_head.contributions(rows), log_head.contributions(as_usual)
    sums: dict[str, NDArray[np.float64]] = {}
    for at, term in enumerate(log_head.terms):
        read = {groups[position] for position in term.features}
        group = read.pop() if len(read) == 1 else "latest"
        effect = now_effects[:, at] - had_it_run_as_usual[:, at] if group == "latest" else now_effects[:, at]
        sums[group] = sums[group] + effect if group in sums else effect
    if not sums:
        return [{} for _ in rows]
    columns = [column.tolist() for column in sums.values()]
    return [dict(zip(sums, effects, strict=True)) for effects in zip(*columns, strict=True)]


_SUBMISSION = {"hour": "submission", "day_of_week": "submission"}
_TOGETHER = {"gpus": "size", "cpus": "size", "nodes": "size", "time_limit_s": "limit"}
_FACT = {fact.name: fact for fact in MODEL_FACTS}
_TEXTS = tuple(fact.name for fact in MODEL_FACTS if not fact.is_number and fact.name != "job_id")
# The group of each plain feature; a fact that belongs to none is one by itself.
_GROUP_OF_FACT = _SUBMISSION | {
    feature: "profile" if _FACT[fact].known is KnownFrom.PROFILED else _TOGETHER.get(fact, feature)
    for feature, (fact, _) in PLAIN_FACTS.items()
}
_GROUPS = tuple(dict.fromkeys(("latest", "flight", "size", "limit", "profile", *_GROUP_OF_FACT.values())))


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


def _describe(group: str, known: Mapping[str, float]) -> tuple[str, bool]:  # noqa: PLR0911
    """A group of effects in words, given the facts that are known, and whether they are plural."""
    match group:
        case "latest":
            return "the latest runs", True
        case "flight":
            return "jobs now in flight", True
        case "size":
            asked = [("log_gpus", "GPU"), ("log_cpus", "CPU core"), ("nodes", "node")]
            words = [
                counted(known[name] if name == "nodes" else math.expm1(known[name]), noun)
                for name, noun in asked
                if name in known
            ]
            text = words[0] + (f" ({', '.join(words[1:])})" if words[1:] else "") if words else "its size"
            return text, bool(words) and not words[0].startswith(("1 ", "no "))
        case "limit":
            if "log_time_limit" not in known:
                return "having no time limit", False
            return f"the time limit of {human_duration(math.expm1(known['log_time_limit']))}", False
        case "profile":
            words = [f"{known['gpu_util_pct']:.0f} % busy"] if "gpu_util_pct" in known else []
            if "log_gpu_mem_mib" in known:
                words.append(f"{math.expm1(known['log_gpu_mem_mib']) / 1024:.2g} GiB")
            return f"its GPU profile ({', '.join(words)})" if words else "having no GPU profile", False
        case "submission":
            if not {"hour", "day_of_week"} <= known.keys():
                return "its time of submission", False
            day = _WEEKDAYS[int(known["day_of_week"]) % 7]
            return f"submission on a {day} {_TIMES_OF_DAY[int(known['hour'] // 6) % 4]}", False
        case _:
            name, is_logarithm = PLAIN_FACTS[group]
            called = _FACT[name].words
            if group not in known:
                return f"having no {called}", False
            amount = math.expm1(known[group]) if is_logarithm else known[group]
            return f"its {called} ({amount:,.4g} {_FACT[name].unit})".replace(" )", ")"), False
