"""The gate: whether a challenger may be published.

It compares simulated results and knows neither models nor the registry. All policies replayed the same jobs.

The challenger is judged against the *reference*: the champion, or the site's order where there is no
champion yet (`simulator.site_order`: what the cluster does today, as declared, else EASY backfilling). Two
things must hold.

1. *Not worse on the objective* (mean JCT by default; `simulator/gate/objective.py`). The upper bound of the
   paired bootstrap interval of the change (`simulator/gate/bootstrap.py`) may be at most the margin:
   non-inferiority, because a retrained model as good as the last one is worth publishing (it has seen newer
   jobs), and one that may be worse is not.
2. *No constraint broken* (`simulator/gate/constraints.py`, `simulator/gate/model_errors.py`): tail waiting,
   starvation, fairness, utilisation, decision latency, usable estimates, models that are not worse than naive
   baselines, the price of predictability, replayed waits that are like the log's. With a champion the
   challenger must also not be worse than the site's order, so that a chain of releases, each a little worse
   than the last and within the margin, cannot creep below what the cluster did without any.

A constraint that cannot be measured says so and is listed; it does not count as passed. A window in which
next to nothing queues proves nothing about the order of a queue: the verdict says so, and the rule `unproven`
says what follows.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from foundation.errors import BadInputError, UnknownNameError
from foundation.human_times import human_duration
from simulator.gate.bootstrap import RELIABLE_BLOCKS, PairedChange, block_numbers
from simulator.gate.constraints import (
    decision_latency,
    every_job_ends,
    fairness,
    graded_waits,
    not_worse_than_site_order,
    proving_window,
    starved_gangs,
    tail_waiting,
    usable_estimates,
    utilisation,
)
from simulator.gate.limits import quantity
from simulator.gate.metrics import (
    EstimateCheck,
    MeasuredWindow,
    ReplayResult,
    align,
    policy_row,
    window_of,
)
from simulator.gate.objective import (
    MEAN_JCT,
    change_of,
    no_objective,
    objective_row,
    price_in_mean_jct,
    relative_figures,
)
from simulator.gate.rules import SITE_ORDER, GateRules
from simulator.gate.spoken_names import spoken
from simulator.gate.verdict import PRICE, PROVING_WINDOW, Constraint, Row, Verdict
from simulator.wait_fidelity.grade import WaitGrade

IDLE_SHARE = 0.01  # of the mean JCT spent waiting, below which there is nothing to schedule


@dataclass(frozen=True)
class ReleaseChecks:
    """What was found of the challenger's own predictions, beside the replay."""

    estimates: EstimateCheck | None = None  # as `check_estimates` counts them
    models: Sequence[Constraint] = ()  # `simulator.gate.model_errors`
    decision_latency_ms: float | None = None
    grade: WaitGrade | None = None  # of the site's order's replay, beside the log
    beside: Mapping[str, ReplayResult] = field(default_factory=dict)
    """Other schedules of the releases, by name: rows of the table of policies, and no rivals."""


NOT_CHECKED = ReleaseChecks()


def judge(  # noqa: C901, PLR0912, PLR0915
    results: Mapping[str, ReplayResult],
    *,
    challenger: str,
    champion: str | None,
    rules: GateRules,
    assumptions: Sequence[str],
    checks: ReleaseChecks = NOT_CHECKED,
    window: MeasuredWindow | None = None,
    subject: Mapping[str, Any] | None = None,
) -> Verdict:
    """Decide on `challenger` from results by policy name.

    `window` is the part of the replay that counts (default: all of it). A challenger with unusable numbers
    need not have been simulated and is refused. `subject` names what was judged (release versions, cluster,
    window) and is carried through.

    Raises UnknownNameError when a named policy has no result, BadInputError when results do not fit together.
    """
    reference = champion if champion is not None else SITE_ORDER
    unusable = (checks.estimates is not None and not checks.estimates.usable) or (
        challenger not in results and any(c.passed is False for c in checks.models)
    )
    for name in (reference, *(() if unusable else (challenger,))):
        if name not in results:
            raise UnknownNameError("policy in the results", name, results)
    if reference == challenger:
        raise BadInputError(
            f"{challenger!r} would be judged against itself.", remedy="Name another champion, or none."
        )
    if unusable:
        results = {name: result for name, result in results.items() if name != challenger}
    shared, figures = align({**results, **checks.beside}, window)
    for name, one in figures.items():
        if name != challenger and not one.finished.all():
            raise BadInputError(
                f"{int((~one.finished).sum())} jobs did not end under {name!r}.",
                remedy="Simulate to the end, and leave out jobs that fit no virtual cluster.",
            )
    measured = window or window_of(shared)
    blocks = block_numbers(shared.submit_time_s, shared.virtual_cluster, origin_s=measured.start_s)
    rows: list[Row] = [
        policy_row(name, figures[name], shared, measured, rules.slowdown_bound_s, rules.starvation_wait_s)
        for name in sorted(figures, key=lambda n: (n != challenger, n != reference, n))
    ]
    figures = {name: one for name, one in figures.items() if name in results}
    judged = figures.get(challenger)
    constraints = [usable_estimates(checks.estimates), *checks.models, graded_waits(checks.grade, rules)]
    if SITE_ORDER in figures:
        constraints.append(proving_window(figures[SITE_ORDER], rules))
    counts = rules.objective_against(reference)
    objective = no_objective(counts, "the challenger's predictions are unusable, so it was not replayed")
    beside_site: Row | None = None
    comparisons: list[Row] = []
    if judged is not None:
        constraints.append(every_job_ends(judged))
    if judged is not None and judged.finished.all():
        changes = {
            name: change
            for name in sorted(figures)
            if name != challenger and (change := change_of(counts, judged, figures[name], blocks, rules))
        }
        if reference in changes:
            objective = objective_row(counts, changes[reference], reference, rules)
        else:
            objective = no_objective(counts, f"no job's end was predicted under both it and {reference}")
        if reference == SITE_ORDER:
            beside_site = objective if "challenger" in objective else None
        elif SITE_ORDER in figures:
            what = rules.objective_against(SITE_ORDER)
            change = change_of(what, judged, figures[SITE_ORDER], blocks, rules)
            if change is not None:
                constraints.append(not_worse_than_site_order(change, rules))
                beside_site = objective_row(what, change, SITE_ORDER, rules)
        cost = change_of(MEAN_JCT, judged, figures[reference], blocks, rules)
        if counts != MEAN_JCT and rules.judges_predictions and reference in changes and cost is not None:
            constraints.append(price_in_mean_jct(changes[reference], cost, reference, rules))
        constraints += tail_waiting(judged, figures[reference], rules)
        constraints.append(starved_gangs(judged, figures[reference], shared, measured, rules))
        constraints += fairness(judged, figures[reference], shared, rules)
        constraints.append(utilisation(judged, figures[reference], shared, measured, rules))
        comparisons = [_comparison(name, change) for name, change in changes.items()]
    elif judged is not None:
        objective = no_objective(counts, "not every job ended under the challenger")
    constraints.append(decision_latency(checks.decision_latency_ms, rules))
    proven = all(c.passed for c in constraints if c.name == PROVING_WINDOW)
    approved = bool(objective["passed"]) and all(c.passed is not False for c in constraints)
    verdict = Verdict(
        approved=approved,
        challenger=challenger,
        reference=reference,
        objective=objective,
        constraints=tuple(constraints),
        comparisons=tuple(comparisons),
        policies=tuple(rows),
        assumptions=(*assumptions, *_own_assumptions(rules, champion, reference, objective, rows, proven)),
        rules=rules.to_data(),
        subject=dict(subject or {}),
        site_order=beside_site,
        grade=None if checks.grade is None else checks.grade.to_data(),
    )
    return _with_sentence(verdict)


def refuse(
    broken: Constraint, *, challenger: str, rules: GateRules, subject: Mapping[str, Any] | None = None
) -> Verdict:
    """The verdict on a challenger that could not be replayed at all, with the constraint that says why."""
    objective = no_objective(rules.objective, "the challenger could not be replayed")
    verdict = Verdict(
        approved=False,
        challenger=challenger,
        reference=SITE_ORDER,
        objective=objective,
        constraints=(broken,),
        rules=rules.to_data(),
        subject=dict(subject or {}),
    )
    return _with_sentence(verdict)


def _comparison(name: str, change: PairedChange) -> Row:
    low, high = change.difference.low, change.difference.high
    if low is None or high is None or (low <= 0.0 <= high):
        outcome = "no clear difference"
    else:
        outcome = "better" if high < 0 else "worse"
    return {
        "policy": name,
        "challenger": change.challenger,
        "other": change.reference,
        **relative_figures(change),
        "outcome": outcome,
    }


def _own_assumptions(
    rules: GateRules,
    champion: str | None,
    reference: str,
    objective: Row,
    verdict_rows: Sequence[Row],
    proven: bool,
) -> list[str]:
    assumptions = []
    if champion is None:
        assumptions.append("There is no champion yet: the reference is the site's order.")
    if rules.judges_predictions and reference == SITE_ORDER:
        assumptions.append(
            "Ends are predicted of releases alone: against the site's order mean JCT counts, not "
            f"{spoken(rules.objective)}."
        )
    if objective.get("interval_note"):
        assumptions.append(
            f"The objective's interval is {objective['interval_note']} (reliable from {RELIABLE_BLOCKS})."
        )
    waits = next((row for row in verdict_rows if row["policy"] == reference), None)
    if (
        proven
        and waits is not None
        and float(waits["mean_queuing_delay_s"] or 0) < IDLE_SHARE * float(waits["mean_jct_s"] or 0)
    ):
        assumptions.append(
            f"Hardly any job waits under {spoken(reference)} on this window: no order of the queue could "
            "gain much, so the verdict says that the release does no harm, not that it helps."
        )
    return assumptions


def _listed(names: Iterable[str]) -> str:
    return ", ".join(spoken(name) for name in names)


def _all_of(names: Iterable[str]) -> str:
    """`A, B and C`, as policies are listed in a sentence."""
    *most, last = [spoken(name) for name in names] or ["no policy"]
    return f"{', '.join(most)} and {last}" if most else last


def _price_paid(verdict: Verdict) -> list[str]:
    """What predictability costs, where it is the objective."""
    price = next((c for c in verdict.constraints if c.name == PRICE), None)
    if price is None or not price.challenger or not price.reference:
        return []
    change_pct = 100.0 * (price.challenger / price.reference - 1)
    before, now = human_duration(price.reference), human_duration(price.challenger)
    return [f"mean JCT goes from {before} to {now} ({change_pct:+z.1f} %);"]


def _opening(verdict: Verdict) -> str:
    """What was decided, and whether the window could prove anything."""
    unproven = [c.name for c in (*verdict.failed, *verdict.not_measured) if c.name == PROVING_WINDOW]
    if not unproven:
        return "Approved:" if verdict.approved else "Refused:"
    word = "Approved as harmless" if verdict.approved else "Refused"
    return (
        f"{word}: next to nothing queues under the site's order, so the window proves nothing about the "
        "order of a queue;"
    )


def _change_in_words(row: Row, reference: str) -> str:
    """`mean JCT is 3.25 h against 3.36 h under the site's order (-3.4 %, 95 % interval -12.4 to +0.0 %)`."""
    unit, change, bounds = str(row["unit"]), row["change_pct"], ""
    if row["change_low_pct"] is not None:
        bounds = (
            f", {row['confidence_pct']:g} % interval {row['change_low_pct']:+z.1f} "
            f"to {row['change_high_pct']:+z.1f} %"
        )
    amount = row["change_s"] if unit == "s" else row["change_points"]
    size = f"{change:+z.1f} %" if change is not None else f"{amount:+z.1f} {unit}"
    doubt = "" if row["interval_reliable"] else ", unreliable"
    return (
        f"{spoken(str(row['name']))} is {quantity(row['challenger'], unit)} against "
        f"{quantity(row['reference'], unit)} under {reference} ({size}{bounds}{doubt})"
    )


def _with_sentence(verdict: Verdict) -> Verdict:
    """The verdict with its one plain sentence, which begins with the change against the site's order."""
    objective, beside_site = verdict.objective, verdict.site_order
    parts = [_opening(verdict)]
    order = verdict.subject.get("site_order")
    site = f"{spoken(SITE_ORDER)}, {order}" if order else spoken(SITE_ORDER)
    if beside_site is not None and verdict.reference != SITE_ORDER:
        parts.append(f"{_change_in_words(beside_site, site)};")
    if "challenger" in objective:
        reference = site if verdict.reference == SITE_ORDER else spoken(verdict.reference)
        change = _change_in_words(objective, reference)
        parts.append(f"{change}, and {objective['reason']};")
        parts += _price_paid(verdict)
    else:
        parts.append(f"{spoken(str(objective['name']))} was not judged because {objective['reason']};")
    if verdict.failed:
        parts.append(f"blocked by {_listed(c.name for c in verdict.failed)};")
    else:
        parts.append("no constraint blocks it;")
    if verdict.grade is not None and verdict.grade["grade"] is not None:
        parts.append(f"the replayed waits have grade {verdict.grade['grade']};")
    if verdict.not_measured:
        parts.append(f"not measured: {_listed(c.name for c in verdict.not_measured)};")
    if verdict.comparisons:
        parts.append(f"it significantly outperforms {_all_of(verdict.wins)}, and")
        verb = "outperform" if len(verdict.losses) > 1 else "outperforms"
        parts.append(f"{_all_of(verdict.losses)} significantly {verb} it.")
    sentence = " ".join(parts).rstrip(";")
    return replace(verdict, sentence=sentence if sentence.endswith(".") else sentence + ".")
