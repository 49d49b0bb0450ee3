"""A model's errors on the held-out window beside those of the simplest thing that could stand in for it.

A replay can hide a bad model: a queue that is hardly ever full forgives any order. So each model must also
hold its own against a naive baseline on the same rows. The gate gets errors, not models.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.gate.bootstrap import paired_mean_change
from simulator.gate.constraints import number
from simulator.gate.rules import GateRules
from simulator.gate.verdict import Constraint

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ModelErrors:
    """Errors of a model and of its naive baseline on the same rows, shape (rows,), in `unit`.

    `model` names what is judged ("run time estimates"), `measure` what an error is, `naive` the baseline.
    `blocks` are rows that are not independent of each other. `must_win`: no margin, the model must clearly
    be better.
    """

    model: str
    measure: str
    unit: str
    naive: str
    errors: Floats
    naive_errors: Floats
    blocks: NDArray[np.int64]
    must_win: bool = False

    @property
    def name(self) -> str:
        """The constraint's name."""
        return f"{self.model.replace(' ', '_')}_beside_naive"


def usable_predictions(model: str, values: Floats, lowest: float, highest: float | None) -> Constraint:
    """Every prediction is finite and within its range; shape (rows,)."""
    name = f"{model.replace(' ', '_')}_usable"
    finite = np.isfinite(values)
    low, high = values[finite] < lowest, values[finite] > (np.inf if highest is None else highest)
    bad = int((~finite).sum() + low.sum() + high.sum())
    allowed = f"at least {lowest:g}" if highest is None else f"from {lowest:g} to {highest:g}"
    if bad:
        sentence = f"{bad:,} of {values.size:,} {model} are not finite, or not {allowed}; none may be."
    else:
        sentence = f"All {values.size:,} {model} are finite and {allowed}."
    return Constraint(name, "predictions", float(bad), None, 0.0, bad == 0, sentence)


def not_worse_than_naive(check: ModelErrors, rules: GateRules) -> Constraint:
    """The mean error's change from the naive baseline: its upper bound must be within the margin.

    Judged like the objective (paired block bootstrap), so that a model which is only luckily as good as the
    baseline does not pass.
    """
    if check.errors.size == 0:
        sentence = f"Not measured: the window holds nothing to judge the {check.model} by."
        return Constraint(check.name, check.unit, None, None, None, None, sentence)
    change = paired_mean_change(
        check.errors,
        check.naive_errors,
        check.blocks,
        confidence_pct=rules.confidence_pct,
        resamples=rules.resamples,
        seed=rules.seed,
        method="percentile",
    )
    limit = 0.0 if check.must_win else rules.naive_margin_pct
    bound = change.relative_pct.high if change.relative_pct is not None else None
    said = (
        f"{check.measure[0].upper()}{check.measure[1:]} of the {check.model}: {number(change.challenger)} "
        f"{check.unit}; of {check.naive}: {number(change.reference)} {check.unit}"
    )
    if change.difference.blocks < rules.min_blocks or (bound is None and change.reference > 0):
        sentence = f"Not measured: {said}, but one day shows nothing of how days differ."
        return Constraint(check.name, check.unit, change.challenger, change.reference, None, None, sentence)
    if bound is None:  # the baseline makes no error at all
        passed = change.challenger == 0.0
        sentence = f"{said}."
    else:
        passed = bound < 0 if check.must_win else bound <= limit
        rule = "must be below 0" if check.must_win else f"may be +{limit:g} %"
        sentence = f"{said}. The change's upper bound is {bound:+.1f} % and {rule}."
    ceiling = change.reference * (1 + limit / 100.0)
    return Constraint(check.name, check.unit, change.challenger, change.reference, ceiling, passed, sentence)
