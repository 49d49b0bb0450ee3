"""A model's errors beside a naive baseline's: what passes, what is refused, what is not measured."""

import numpy as np
import pytest

from simulator.gate.model_errors import ModelErrors, not_worse_than_naive, usable_predictions
from simulator.gate.rules import GateRules
from simulator.gate.verdict import Constraint

RULES = GateRules(resamples=400)


def judged(
    factor: float, *, noise: float = 0.2, rows: int = 400, days: int = 8, must_win: bool = False
) -> Constraint:
    """A model whose errors are `factor` times the baseline's on average."""
    rng = np.random.default_rng(3)
    naive = rng.exponential(1.0, rows)
    errors = np.maximum(0.0, naive * factor + rng.normal(0.0, noise, rows))
    blocks = np.arange(rows) * days // rows
    check = ModelErrors("guesses", "mean error", "s", "a coin", errors, naive, blocks, must_win)
    return not_worse_than_naive(check, RULES)


def test_a_better_model_passes_and_both_figures_are_told() -> None:
    found = judged(0.5)
    assert found.passed is True
    assert found.name == "guesses_beside_naive"
    assert found.challenger is not None
    assert found.challenger < float(found.reference or 0)
    assert "clearly better" in found.sentence
    assert "of a coin" in found.sentence


@pytest.mark.parametrize("factor", [1.1, 2.0])
def test_a_clearly_worse_model_is_refused(factor: float) -> None:
    found = judged(factor, noise=0.0)
    assert found.passed is False
    assert "clearly worse" in found.sentence


def test_worse_by_more_than_the_margin_is_refused_even_when_days_differ_too_much_to_be_sure() -> None:
    naive = np.array([1.0, 1.0, 1.0, 1.0])
    check = ModelErrors(
        "guesses", "mean error", "s", "a coin", np.array([0.5, 0.5, 0.5, 4.5]), naive, np.arange(4)
    )
    found = not_worse_than_naive(check, RULES)
    assert "no clear difference" in found.sentence
    assert found.passed is False


def test_a_draw_passes_unless_the_model_must_win() -> None:
    assert judged(1.0, noise=0.0).passed is True
    assert judged(1.0, noise=0.0, must_win=True).passed is False
    assert judged(0.5, must_win=True).passed is True


def test_too_little_to_judge_by_is_not_measured_rather_than_passed() -> None:
    assert judged(0.5, days=1).passed is None
    empty = np.empty(0)
    nothing = ModelErrors("guesses", "mean error", "s", "a coin", empty, empty, np.empty(0, dtype=np.int64))
    assert not_worse_than_naive(nothing, RULES).passed is None


@pytest.mark.parametrize(
    ("bad", "fine"), [(np.nan, False), (np.inf, False), (-0.5, False), (2.5, False), (2.0, True)]
)
def test_predictions_are_finite_and_in_range(bad: float, fine: bool) -> None:
    found = usable_predictions("sharing scores", np.array([0.0, 1.0, bad]), 0.0, 2.0)
    assert found.passed is fine
    assert found.challenger == (0.0 if fine else 1.0)
    assert found.name == "sharing_scores_usable"
