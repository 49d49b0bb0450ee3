"""Helios' seven implications (section 3) as numbers with a rule each: true or false of a log.

An implication fails where one of its rules does, and holds where all were measured and hold. The limits are
those that the paper states or draws; where it only says "most" or "a few", the limit is ours and stands in
the rule.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class ImplicationRule:
    """What is asked of one number. `holds` None: it is told, and nothing is asked of it."""

    number: str
    says: str
    holds: Callable[[float], bool] | None = None


@dataclass(frozen=True)
class JudgedRule:
    """A rule with what the log says: `value` None where it cannot."""

    key: str
    value: float | None
    rule: str
    holds: bool | None


@dataclass(frozen=True)
class Implication:
    """One of the seven: `value` is that of its first rule, `holds` None where a rule was not measured."""

    number: int
    statement: str
    value: float | None
    rule: str
    holds: bool | None
    evidence: tuple[JudgedRule, ...]


_STATEMENTS: Mapping[int, tuple[str, tuple[ImplicationRule, ...]]] = {
    1: (
        "Submissions and utilisation follow the hour of day.",
        (
            ImplicationRule(
                "submissions.highest_to_lowest",
                "the busiest hour of day has at least 2 times the submissions of the quietest",
                lambda ratio: ratio >= 2,
            ),
            ImplicationRule(
                "utilisation.night_dip_points", "points that utilisation falls at night (Helios: 4 to 5)"
            ),
        ),
    ),
    2: (
        "Multi-GPU jobs are submitted more steadily from month to month; single-GPU jobs hardly load GPUs.",
        (
            ImplicationRule(
                "months.multi_to_single_variation",
                "monthly submissions of multi-GPU jobs vary less than those of single-GPU jobs (ratio < 1)",
                lambda ratio: ratio < 1,
            ),
            ImplicationRule(
                "utilisation_by_size.single_gpu_utilisation_pct",
                "single-GPU jobs use less than 6 % of the GPUs",
                lambda used: used < 6,
            ),
        ),
    ),
    3: (
        "Virtual clusters differ: those with larger jobs are used more, those with longer jobs wait longer.",
        (
            ImplicationRule(
                "demand_correlation.utilisation_with_gpus",
                "utilisation and mean GPUs of a job are correlated over virtual clusters (r > 0.3)",
                lambda r: r > 0.3,
            ),
            ImplicationRule(
                "delay_correlation.queuing_with_duration",
                "mean queuing delay and mean duration are correlated over virtual clusters (r > 0.5)",
                lambda r: r > 0.5,
            ),
            ImplicationRule(
                "imbalance.spread_points", "points between the most and the least used virtual cluster"
            ),
        ),
    ),
    4: (
        "Most jobs have one GPU, and most GPU time goes to jobs with several.",
        (
            ImplicationRule(
                "sizes.single_gpu_jobs_pct",
                "single-GPU jobs are more than 50 % of the GPU jobs",
                lambda x: x > 50,
            ),
            ImplicationRule(
                "gpu_time.single_gpu_jobs_pct",
                "they take 3 to 12 % of the GPU time",
                lambda share: 3 <= share <= 12,
            ),
            ImplicationRule(
                "gpu_time.large_jobs_pct", "GPU time of jobs with 8 GPUs and more, % (Helios: about 60)"
            ),
        ),
    ),
    5: (
        "Many jobs are stopped by their users, with much of the GPU time.",
        (
            ImplicationRule(
                "states.cancelled_pct",
                "at least 10 % of the GPU jobs are cancelled",
                lambda share: share >= 10,
            ),
            ImplicationRule(
                "state_gpu_time.cancelled_pct",
                "they take at least 20 % of the GPU time",
                lambda share: share >= 20,
            ),
        ),
    ),
    6: (
        "Most failed jobs end soon, and some queue longer than they run.",
        (
            ImplicationRule(
                "failures.within_2_min_pct",
                "more than 50 % of the failed GPU jobs end within 2 min",
                lambda share: share > 50,
            ),
            ImplicationRule(
                "failures_waiting.queued_longer_than_ran_pct",
                "at least 10 % of them queued longer than they ran",
                lambda share: share >= 10,
            ),
            ImplicationRule("failures.median_duration_s", "median duration of failed GPU jobs, s"),
        ),
    ),
    7: (
        "A few users bear most of the queuing, and they are not those that consume most.",
        (
            ImplicationRule(
                "user_queuing.top_5_pct_queuing_pct",
                "the top 5 % of users bear at least 50 % of the queuing",
                lambda share: share >= 50,
            ),
            ImplicationRule(
                "user_queuing.top_1_pct_queuing_pct", "share that the top 1 % bear, % (Uranus: 71)"
            ),
            ImplicationRule(
                "user_queuing.top_waiting_among_ten_largest",
                "of the top 1 % by queuing, users among the ten with most GPU time",
            ),
        ),
    ),
}


def judge_implications(numbers: Mapping[str, float]) -> tuple[Implication, ...]:
    """The seven, by the numbers of a log (`catalogue.NUMBERS`)."""
    judged = []
    for number, (statement, rules) in _STATEMENTS.items():
        evidence = tuple(_evidence(rule, numbers) for rule in rules)
        asked = [rule.says for rule in rules if rule.holds is not None]
        verdicts = [each.holds for each, rule in zip(evidence, rules, strict=True) if rule.holds is not None]
        holds = False if False in verdicts else None if None in verdicts else True
        judged.append(Implication(number, statement, evidence[0].value, " and ".join(asked), holds, evidence))
    return tuple(judged)


def _evidence(rule: ImplicationRule, numbers: Mapping[str, float]) -> JudgedRule:
    value = numbers.get(rule.number)
    if value is not None and value != value:
        value = None
    asked = None if value is None or rule.holds is None else rule.holds(value)
    return JudgedRule(rule.number, value, rule.says, asked)
