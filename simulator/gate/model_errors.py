"""A model's errors on the held-out window beside those of the simplest thing that could stand in for it.

A replay can hide a bad model: a queue that is hardly ever full forgives any order. So each model must also
hold its own against a naive baseline on the same rows. The gate gets errors, not models.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.gate.bootstrap import paired_mean_change
from simulator.gate.limits import number, unmeasured
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
        return f"{self.model.lower().replace(' ', '_')}_beside_naive"


def usable_predictions(model: str, values: Floats, lowest: float, highest: float | None) -> Constraint:
    """Every prediction is finite and within its range; shape (rows,)."""
    name = f"{model.lower().replace(' ', '_')}_usable"
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
    """The mean error beside the naive baseline's, by the same paired block bootstrap as the objective.

    Refused: what is clearly worse (the whole interval above zero), or worse by more than the margin. With
    `must_win`: what is not clearly better.
    """
    if check.errors.size == 0:
        sentence = f"Not measured: the window holds nothing to judge the {check.model} by."
        return unmeasured(check.name, check.unit, sentence)
    change = paired_mean_change(
        check.errors,
        check.naive_errors,
        check.blocks,
        confidence_pct=rules.confidence_pct,
        resamples=rules.resamples,
        seed=rules.seed,
        method="percentile",
    )
    margin_pct = 0.0 if check.must_win else rules.naive_margin_pct
    limit = change.reference * (1 + margin_pct / 100.0)
    low, high = change.difference.low, change.difference.high
    comparison = (
        f"{check.measure[0].upper()}{check.measure[1:]} of the {check.model}: {number(change.challenger)} "
        f"{check.unit}; of {check.naive}: {number(change.reference)} {check.unit}"
    )
    passed: bool | None = None
    if low is None or high is None:
        sentence = f"Not measured: {comparison}, but one day shows nothing of how days differ."
    elif check.must_win:
        passed = high < 0
        word = "clearly better" if passed else "not clearly better, as it must be"
        sentence = f"{comparison}: {word} ({low:+.3g} to {high:+.3g})."
    else:
        passed = low <= 0 and change.challenger <= limit
        word = "clearly better" if high < 0 else "clearly worse" if low > 0 else "no clear difference"
        sentence = f"{comparison}: {word} ({low:+.3g} to {high:+.3g}); at most +{margin_pct:g} % is allowed."
    return Constraint(check.name, check.unit, change.challenger, change.reference, limit, passed, sentence)
