"""The gate: whether a challenger may be published.

It compares simulated results and knows neither models nor the registry. All policies replayed the same jobs.

The challenger is judged against the *reference*: the champion, or FIFO where there is no champion yet. Two
things must hold.

1. *Not worse on the objective* (mean JCT by default). The upper bound of the paired bootstrap interval of the
   change (`simulator/gate/bootstrap.py`) may be at most the margin: non-inferiority, because a retrained
   model as good as the last one is worth publishing (it has seen newer jobs), and one that may be worse is
   not.
2. *No constraint broken* (`simulator/gate/constraints.py`, `simulator/gate/model_errors.py`): tail waiting,
   starvation, fairness, utilisation, decision latency, usable estimates, models that are not worse than naive
   baselines. With a champion the challenger must also not be worse than FIFO, so
   that a chain of releases, each a little worse than the last and within the margin, cannot creep below the
   simplest policy there is.

A constraint that cannot be measured says so and is listed; it does not count as passed.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cluster_logs.errors import BadInputError, UnknownNameError
from simulator.gate.bootstrap import (
    RELIABLE_BLOCKS,
    PairedChange,
    block_numbers,
    paired_mean_change,
    paired_quantile_change,
)
from simulator.gate.constraints import (
    decision_latency,
    every_job_ends,
    fairness,
    not_worse_than_fifo,
    number,
    tail_waiting,
    usable_estimates,
    utilisation,
    within_margin,
)
from simulator.gate.metrics import (
    EstimateCheck,
    MeasuredWindow,
    PolicyFigures,
    ReplayResult,
    align,
    policy_row,
    window_of,
)
from simulator.gate.rules import ANCHOR, OBJECTIVES, GateRules
from simulator.gate.verdict import Constraint, Row, Verdict

IDLE_SHARE = 0.01  # of the mean JCT spent waiting, below which there is nothing to schedule


def judge(
    results: Mapping[str, ReplayResult],
    *,
    challenger: str,
    champion: str | None,
    rules: GateRules,
    decision_latency_ms: float | None,
    assumptions: Sequence[str],
    window: MeasuredWindow | None = None,
    estimates: EstimateCheck | None = None,
    models: Sequence[Constraint] = (),
    subject: Mapping[str, Any] | None = None,
) -> Verdict:
    """Decide on `challenger` from results by policy name.

    `window` is the part of the replay that counts (default: all of it). `estimates` are the challenger's,
    checked by `check_estimates`; `models` is what was found of its models themselves
    (`simulator.gate.model_errors`). A challenger with unusable numbers need not have been simulated and is
    refused. `subject` names what
    was judged (release versions, cluster, window) and is carried through.

    Raises UnknownNameError when a named policy has no result, BadInputError when results do not fit together.
    """
    reference = champion if champion is not None else ANCHOR
    unusable = (estimates is not None and not estimates.usable) or (
        challenger not in results and any(c.passed is False for c in models)
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
    shared, figures = align(results, window)
    for name, one in figures.items():
        if name != challenger and not one.finished.all():
            raise BadInputError(
                f"{int((~one.finished).sum())} jobs did not end under {name!r}.",
                remedy="Simulate to the end, and leave out jobs that fit no virtual cluster.",
            )
    measured = window or window_of(shared)
    blocks = block_numbers(shared.submit_time_s, shared.virtual_cluster, origin_s=measured.start_s)
    rows: list[Row] = []
    for name in sorted(figures, key=lambda n: (n != challenger, n != reference, n)):
        row = policy_row(
            name, figures[name], shared, measured, rules.slowdown_bound_s, rules.starvation_wait_s
        )
        rows.append(row)
    judged = figures.get(challenger)
    constraints = [usable_estimates(estimates), *models]
    objective = _no_objective(rules, "the challenger's predictions are unusable, so it was not replayed")
    comparisons: list[Row] = []
    if judged is not None:
        constraints.append(every_job_ends(judged))
    if judged is not None and judged.finished.all():
        changes = {
            name: _change(judged, figures[name], blocks, rules)
            for name in sorted(figures)
            if name != challenger
        }
        objective = _objective(changes[reference], reference, rules)
        if reference != ANCHOR and ANCHOR in changes:
            constraints.append(not_worse_than_fifo(changes[ANCHOR], rules))
        constraints += tail_waiting(judged, figures[reference], rules)
        constraints += fairness(judged, figures[reference], shared, rules)
        constraints.append(utilisation(judged, figures[reference], shared, measured, rules))
        comparisons = [_comparison(name, change) for name, change in changes.items()]
    elif judged is not None:
        objective = _no_objective(rules, "not every job ended under the challenger")
    constraints.append(decision_latency(decision_latency_ms, rules))
    approved = bool(objective["passed"]) and all(c.passed is not False for c in constraints)
    verdict = Verdict(
        approved=approved,
        sentence="",
        challenger=challenger,
        reference=reference,
        objective=objective,
        constraints=tuple(constraints),
        comparisons=tuple(comparisons),
        policies=tuple(rows),
        assumptions=(*assumptions, *_own_assumptions(champion, reference, objective, rows)),
        rules=rules.to_dict(),
        subject=dict(subject or {}),
    )
    return _with_sentence(verdict)


def refuse(
    broken: Constraint, *, challenger: str, rules: GateRules, subject: Mapping[str, Any] | None = None
) -> Verdict:
    """The verdict on a challenger that could not be replayed at all, with the constraint that says why."""
    objective = _no_objective(rules, "the challenger could not be replayed")
    verdict = Verdict(
        approved=False,
        sentence="",
        challenger=challenger,
        reference=ANCHOR,
        objective=objective,
        constraints=(broken,),
        comparisons=(),
        policies=(),
        assumptions=(),
        rules=rules.to_dict(),
        subject=dict(subject or {}),
    )
    return _with_sentence(verdict)


def _change(
    judged: PolicyFigures, other: PolicyFigures, blocks: NDArray[np.int64], rules: GateRules
) -> PairedChange:
    column, share = OBJECTIVES[rules.objective]
    new, old = getattr(judged, column), getattr(other, column)
    if share is None:
        return paired_mean_change(
            new,
            old,
            blocks,
            confidence_pct=rules.confidence_pct,
            resamples=rules.resamples,
            seed=rules.seed,
            method=rules.interval,
        )
    return paired_quantile_change(
        new,
        old,
        blocks,
        share,
        confidence_pct=rules.confidence_pct,
        resamples=rules.resamples,
        seed=rules.seed,
    )


def _objective(change: PairedChange, reference: str, rules: GateRules) -> Row:
    seconds, per_cent = change.difference, change.relative_pct
    passed = within_margin(change, reference, rules)
    margin_pct, floor_s = rules.margin(reference)
    margin = f"+{margin_pct:g} % or +{floor_s:g} s"
    if seconds.high is None or seconds.blocks < rules.min_blocks:
        reason = (
            f"{seconds.blocks} block(s) of one day and one virtual cluster are too little evidence "
            f"(at least {rules.min_blocks}): hold out more days"
        )
    elif passed:
        reason = f"the upper bound of the change is within the margin of {margin}"
    else:
        reason = f"the upper bound of the change is beyond the margin of {margin}"
    return {
        "name": rules.objective,
        "unit": "s",
        "reference_policy": reference,
        "challenger": change.challenger,
        "reference": change.reference,
        "change_s": seconds.point,
        "change_low_s": seconds.low,
        "change_high_s": seconds.high,
        "change_pct": per_cent.point if per_cent else None,
        "change_low_pct": per_cent.low if per_cent else None,
        "change_high_pct": per_cent.high if per_cent else None,
        "confidence_pct": rules.confidence_pct,
        "method": seconds.method,
        "resamples": rules.resamples,
        "blocks": seconds.blocks,
        "interval_reliable": seconds.reliable,
        "interval_note": seconds.note,
        "margin_pct": margin_pct,
        "margin_floor_s": floor_s,
        "passed": passed,
        "reason": reason,
    }


def _no_objective(rules: GateRules, reason: str) -> Row:
    return {"name": rules.objective, "unit": "s", "passed": False, "reason": reason}


def _comparison(name: str, change: PairedChange) -> Row:
    low, high = change.difference.low, change.difference.high
    if low is None or high is None or (low <= 0.0 <= high):
        outcome = "no clear difference"
    else:
        outcome = "better" if high < 0 else "worse"
    per_cent = change.relative_pct
    return {
        "policy": name,
        "challenger": change.challenger,
        "other": change.reference,
        "change_pct": per_cent.point if per_cent else None,
        "change_low_pct": per_cent.low if per_cent else None,
        "change_high_pct": per_cent.high if per_cent else None,
        "outcome": outcome,
    }


def _own_assumptions(
    champion: str | None, reference: str, objective: Row, verdict_rows: Sequence[Row]
) -> list[str]:
    said = []
    if champion is None:
        said.append("There is no champion yet: the reference is FIFO.")
    if objective.get("interval_note"):
        said.append(
            f"The objective's interval is {objective['interval_note']} (reliable from {RELIABLE_BLOCKS})."
        )
    waits = next((row for row in verdict_rows if row["policy"] == reference), None)
    if waits is not None and float(waits["mean_queuing_delay_s"] or 0) < IDLE_SHARE * float(
        waits["mean_jct_s"] or 0
    ):
        said.append(
            f"Hardly any job waits under {reference} on this window: no order of the queue could gain much, "
            "so the verdict says that the release does no harm, not that it helps."
        )
    return said


_SPOKEN = {
    "mean_jct_s": "mean JCT",
    "mean_queuing_delay_s": "mean queuing delay",
    "p99_queuing_delay_s": "P99 queuing delay",
    "p999_queuing_delay_s": "P99.9 queuing delay",
    "p999_queuing_delay": "P99.9 queuing delay",
    "champion": "the champion",
    "fifo": "FIFO",
    "sjf": "SJF",
    "qssf": "QSSF",
    "tiresias": "Tiresias",
    "tsafrir": "Tsafrir's estimate",
}


def _spoken(name: str) -> str:
    return _SPOKEN.get(name, name.replace("_", " "))


def _listed(names: Iterable[str]) -> str:
    return ", ".join(_spoken(name) for name in names)


def _with_sentence(verdict: Verdict) -> Verdict:
    """The verdict with its one plain sentence."""
    objective = verdict.objective
    parts = [f"{'Approved' if verdict.approved else 'Refused'}:"]
    if "challenger" in objective:
        change = objective.get("change_pct")
        bounds = ""
        if objective["change_low_pct"] is not None:
            bounds = (
                f", {objective['confidence_pct']:g} % interval {objective['change_low_pct']:+.1f} "
                f"to {objective['change_high_pct']:+.1f} %"
            )
        size = f"{change:+.1f} %" if change is not None else f"{objective['change_s']:+.1f} s"
        doubt = "" if objective["interval_reliable"] else ", unreliable"
        parts.append(
            f"{_spoken(str(objective['name']))} is {number(objective['challenger'])} s against "
            f"{_spoken(verdict.reference)}'s "
            f"{number(objective['reference'])} s ({size}{bounds}{doubt}), and {objective['reason']};"
        )
    else:
        parts.append(f"{_spoken(str(objective['name']))} was not judged because {objective['reason']};")
    if verdict.failed:
        parts.append(f"blocked by {_listed(c.name for c in verdict.failed)};")
    else:
        parts.append("no constraint blocks it;")
    if verdict.not_measured:
        parts.append(f"not measured: {_listed(c.name for c in verdict.not_measured)};")
    if verdict.comparisons:
        parts.append(f"it clearly beats {_listed(verdict.wins) or 'no policy'} and")
        parts.append(f"clearly loses to {_listed(verdict.losses) or 'none'}.")
    sentence = " ".join(parts).rstrip(";")
    sentence = sentence if sentence.endswith(".") else sentence + "."
    return Verdict(**{field: getattr(verdict, field) for field in Verdict.__slots__} | {"sentence": sentence})
