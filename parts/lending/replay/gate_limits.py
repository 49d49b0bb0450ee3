"""What a release that borrows servers from inference may cost on the held-out window: servers that inference
lacked, jobs that were preempted, groups that wait longer.

Asked of releases with that part alone, beside the same release without loans (Lyra, EuroSys '23, section 7:
usage, queuing and preemptions). A window without inference load refuses the part: nothing was proven of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from foundation.checked_settings import Between
from foundation.human_times import human_duration
from simulator.gate.limits import at_most, at_most_beside, forecast_coverage, unmeasured
from simulator.gate.rules import GateRules, PartRules
from simulator.gate.verdict import Constraint

SHORTAGES = "inference_servers_short"
_REMEDY = (
    "Ingest the load of the held-out days (`lucid ingest --format inference-load`, or the form of "
    "ingest_logs), or build a release without --loaning."
)


@dataclass(frozen=True, slots=True)
class GroupQueuing:
    """The virtual cluster with the mean queuing delay that grows most by loans: with and without them (s)."""

    name: str
    with_loans_s: float
    without_s: float


@dataclass(frozen=True, slots=True)
class LoanEvidence:
    """Figures of the window; None where nothing could be measured, which `unmeasured` explains.

    `short_pct`: five-minute steps in which inference needed more servers than were not on loan, of all.
    `coverage`: of the forecast's quantiles, the share of steps that each was not exceeded in; empty without.
    `preemptions` of jobs in so many `days`, of `submissions`. `with_loans_jct_s` and `without_jct_s`: mean
    JCT of the window's jobs; `champion_jct_s` that of the champion, on loan by its own settings.
    """

    short_pct: float | None = None
    coverage: Mapping[float, float] = field(default_factory=dict)
    preemptions: int | None = None
    submissions: int = 0
    days: float = 0.0
    worst_group: GroupQueuing | None = None
    with_loans_jct_s: float | None = None
    without_jct_s: float | None = None
    champion_jct_s: float | None = None
    unmeasured: str = ""


@dataclass(frozen=True, kw_only=True)
class LoanGateRules(PartRules):
    """What servers on loan may cost."""

    inference_short_limit_pct: Annotated[float, Between(0, 100)] = 2.0
    """Of a release with servers on loan: five-minute steps in which inference lacks servers that are lent. On
    a public load (ServeGen m-small, days 11 to 14) a headroom of 2 % lacks some in 1.4 % of steps with the
    forecast's quantile 0.98, in 14.5 % with the newest finished bin alone."""
    loan_preemptions_per_day_limit: Annotated[float, Between(0, 1e9)] = 50.0
    """Jobs that taking servers back preempts. Lyra's rule preempts 5 to 40 a day on Philly (26,066 jobs)."""
    loan_preemption_ratio_limit_pct: Annotated[float, Between(0, 1e6)] = 5.0
    """The same, of all submissions: Lyra's rule comes to 0.3 to 2 % there, lending blindly to 21 %."""
    loan_group_margin_pct: Annotated[float, Between(0, 1_000)] = 10.0
    """By how much longer the jobs of any virtual cluster may wait with loans than without, on average."""
    loan_group_floor_s: Annotated[float, Between(0, 1e9)] = 60.0
    """At most this many seconds, where that is more."""


def loaned_servers(seen: LoanEvidence, rules: GateRules) -> list[Constraint]:
    """Return the constraints of the part of servers on loan."""
    if seen.short_pct is None:
        sentence = f"The part of servers on loan cannot be judged: {seen.unmeasured} {_REMEDY}"
        limit_pct = LoanGateRules.of(rules).inference_short_limit_pct
        return [Constraint(SHORTAGES, "% of steps", None, None, limit_pct, False, sentence)]
    short = at_most(
        SHORTAGES,
        "% of steps",
        seen.short_pct,
        LoanGateRules.of(rules).inference_short_limit_pct,
        "Inference lacked servers in five-minute steps",
    )
    return [
        short,
        *_coverage(seen, rules),
        *_preemptions(seen, rules),
        _group_queuing(seen, rules),
        _mean_jct(seen, rules),
    ]


def _coverage(seen: LoanEvidence, rules: GateRules) -> list[Constraint]:
    if not seen.coverage:
        return []
    limit_points, what = rules.coverage_margin_points, "the usage in the next five minutes"
    return [forecast_coverage("loan_forecast_coverage", seen.coverage, limit_points, what)]


def _preemptions(seen: LoanEvidence, rules: GateRules) -> list[Constraint]:
    own = LoanGateRules.of(rules)
    if seen.preemptions is None or not seen.submissions or not seen.days:
        why = seen.unmeasured or "no job was replayed with servers on loan."
        return [
            unmeasured(name, unit, f"Not measured: {why}", limit)
            for name, unit, limit in (
                ("loan_preemptions", "a day", own.loan_preemptions_per_day_limit),
                (
                    "loan_preemption_ratio",
                    "% of submissions",
                    own.loan_preemption_ratio_limit_pct,
                ),
            )
        ]
    return [
        at_most(
            "loan_preemptions",
            "a day",
            seen.preemptions / seen.days,
            own.loan_preemptions_per_day_limit,
            "Jobs were preempted",
        ),
        at_most(
            "loan_preemption_ratio",
            "% of submissions",
            100.0 * seen.preemptions / seen.submissions,
            own.loan_preemption_ratio_limit_pct,
            "Preemptions come to",
        ),
    ]


def _group_queuing(seen: LoanEvidence, rules: GateRules) -> Constraint:
    """No virtual cluster may wait much longer because servers come and go."""
    name, worst = "loan_worst_group_queuing", seen.worst_group
    if worst is None:
        why = seen.unmeasured or f"no virtual cluster submitted {rules.fairness_min_jobs} jobs or more."
        return unmeasured(name, "s", f"Not measured: {why}")
    comparison = (
        f"Mean queuing delay of the virtual cluster that loses most by loans ({worst.name!r}): "
        f"{human_duration(worst.with_loans_s)} against {human_duration(worst.without_s)} without loans"
    )
    own = LoanGateRules.of(rules)
    margin_pct, floor_s = own.loan_group_margin_pct, own.loan_group_floor_s
    return at_most_beside(name, "s", worst.with_loans_s, worst.without_s, margin_pct, floor_s, comparison)


def _mean_jct(seen: LoanEvidence, rules: GateRules) -> Constraint:
    """More servers must not make jobs take longer."""
    name, new, old = "loan_mean_jct", seen.with_loans_jct_s, seen.without_jct_s
    if new is None or old is None:
        why = seen.unmeasured or "no job was replayed with servers on loan."
        return unmeasured(name, "s", f"Not measured: {why}")
    beside = (
        f", and {human_duration(seen.champion_jct_s)} under the champion with its loans"
        if seen.champion_jct_s is not None
        else ""
    )
    comparison = (
        f"Mean JCT with servers on loan: {human_duration(new)} against {human_duration(old)} without{beside}"
    )
    return at_most_beside(name, "s", new, old, rules.margin_pct, rules.margin_floor_s, comparison)
