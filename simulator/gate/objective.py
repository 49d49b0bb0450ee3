"""The gate's objective: by what a challenger is judged, against which rival, and within which margin.

Times (mean JCT by default) and errors of prediction are judged alike: the upper bound of the paired interval
of the change decides. Predictability has two rules of its own (`GateRules.jct_price_pct`):

- Ends are predicted of releases, not of the site's order: against it mean JCT counts, whatever the objective.
- A gain in predictability may cost mean JCT up to a stated price, and only a clear gain may.
"""

import numpy as np
from numpy.typing import NDArray

from foundation.human_times import human_duration
from simulator.gate.bootstrap import PairedChange, paired_mean_change, paired_quantile_change
from simulator.gate.constraints import upper_bound, within
from simulator.gate.limits import allowed
from simulator.gate.metrics import PolicyFigures
from simulator.gate.rules import FIGURES, GateRules
from simulator.gate.verdict import PRICE, Constraint, Row

MEAN_JCT = "mean_jct_s"


def change_of(
    name: str, judged: PolicyFigures, other: PolicyFigures, blocks: NDArray[np.int64], rules: GateRules
) -> PairedChange | None:
    """The change of a figure from `other` to `judged`; None where no job has it under both."""
    column, share = FIGURES[name]
    new, old = getattr(judged, column), getattr(other, column)
    measured = np.isfinite(new) & np.isfinite(old)
    if not measured.any():
        return None
    new, old, block = new[measured], old[measured], blocks[measured]
    sure = {"confidence_pct": rules.confidence_pct, "resamples": rules.resamples, "seed": rules.seed}
    if share is None:
        return paired_mean_change(new, old, block, method=rules.interval, **sure)  # type: ignore[arg-type]
    return paired_quantile_change(new, old, block, share, **sure)  # type: ignore[arg-type]


def objective_row(name: str, change: PairedChange, reference: str, rules: GateRules) -> Row:
    """The objective as the verdict holds it; a change and its floor carry their unit in their names."""
    amount = change.difference
    margin_pct, floor = rules.margin(reference, name)
    passed = within(change, margin_pct, floor, rules)
    unit = unit_of(name)
    suffix = "points" if unit == "%" else "s"
    margin = f"+{margin_pct:g} % or +{floor:g} {suffix}"
    if amount.high is None or amount.blocks < rules.min_blocks:
        reason = (
            f"{amount.blocks} block(s) of one day and one virtual cluster are too little evidence "
            f"(at least {rules.min_blocks}): hold out more days"
        )
    elif passed:
        reason = f"the upper bound of the change is within the margin of {margin}"
    else:
        reason = f"the upper bound of the change is beyond the margin of {margin}"
    return {
        "name": name,
        "unit": unit,
        "reference_policy": reference,
        "challenger": change.challenger,
        "reference": change.reference,
        f"change_{suffix}": amount.point,
        f"change_low_{suffix}": amount.low,
        f"change_high_{suffix}": amount.high,
        **relative_figures(change),
        "confidence_pct": rules.confidence_pct,
        "method": amount.method,
        "resamples": rules.resamples,
        "blocks": amount.blocks,
        "interval_reliable": amount.reliable,
        "interval_note": amount.note,
        "margin_pct": margin_pct,
        f"margin_floor_{suffix}": floor,
        "passed": passed,
        "reason": reason,
    }


def relative_figures(change: PairedChange) -> Row:
    """A change with its interval in per cent of the reference; None where the reference is zero."""
    per_cent = change.relative_pct
    return {
        "change_pct": per_cent.point if per_cent else None,
        "change_low_pct": per_cent.low if per_cent else None,
        "change_high_pct": per_cent.high if per_cent else None,
    }


def no_objective(name: str, reason: str) -> Row:
    """The objective of a challenger that could not be judged by it."""
    return {"name": name, "unit": unit_of(name), "passed": False, "reason": reason}


def unit_of(name: str) -> str:
    """The unit of an objective: seconds, or per cent of what was predicted."""
    return "%" if name.endswith("_pct") else "s"


def price_in_mean_jct(gain: PairedChange, cost: PairedChange, reference: str, rules: GateRules) -> Constraint:
    """What a gain in predictability may cost: `cost` is the change of mean JCT."""
    clear = gain.difference.high is not None and gain.difference.high < 0
    margin_pct, floor_s = rules.margin(reference, MEAN_JCT)
    limit_pct = max(margin_pct, rules.jct_price_pct) if clear else margin_pct
    passed = within(cost, limit_pct, floor_s, rules)
    why = (
        f"that a clear gain in predictability may cost (jct_price_pct {rules.jct_price_pct:g})"
        if clear
        else "since predictability does not clearly gain, and only a clear gain may cost more"
    )
    return Constraint(
        PRICE,
        "s",
        cost.challenger,
        cost.reference,
        allowed(cost.reference, limit_pct, floor_s),
        passed,
        f"Mean JCT of {human_duration(cost.challenger)} against {human_duration(cost.reference)}; the "
        f"change's upper bound is {upper_bound(cost)}, {'within' if passed else 'beyond'} "
        f"the +{limit_pct:g} % or +{human_duration(floor_s)} {why}.",
    )
