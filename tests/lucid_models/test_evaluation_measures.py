"""What an evaluation says of a difference: its size, its interval, and in one word."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.model_quality.verdicts import verdict
from lucid_models.evaluation.measures import compared, duration_metrics, log10_errors, r_squared

DAYS = np.repeat(np.arange(20), 50)


def test_equal_errors_differ_by_nothing() -> None:
    errors = np.random.default_rng(0).exponential(size=DAYS.size)
    assert compared(errors, errors, DAYS) == {"worse_by": 0.0, "worse_by_low": 0.0, "worse_by_high": 0.0}


@pytest.mark.parametrize(("shift", "said"), [(0.5, "ours better"), (-0.5, "ours worse")])
def test_a_clear_difference_is_named(shift: float, said: str) -> None:
    random = np.random.default_rng(0)
    ours = random.exponential(size=DAYS.size)
    found = compared(ours + shift + random.normal(0, 0.1, DAYS.size), ours, DAYS)
    assert found["worse_by_low"] < shift < found["worse_by_high"]
    assert verdict({"model": "rival", **found}) == said


def test_days_that_differ_from_each_other_leave_a_difference_open() -> None:
    """Row by row the difference looks sure; but it is one good day against nineteen."""
    ours = np.ones(DAYS.size)
    theirs = np.where(DAYS == 7, 3.0, 0.99)
    found = compared(theirs, ours, DAYS)
    assert found["worse_by"] > 0
    assert verdict({"model": "rival", **found}) == "level"


def test_rows_that_one_side_lacks_take_no_part() -> None:
    ours, theirs = np.ones(DAYS.size), np.full(DAYS.size, 2.0)
    theirs[::3] = np.nan
    assert compared(theirs, ours, DAYS)["worse_by"] == 1.0
    nothing = compared(np.full(DAYS.size, np.nan), ours, DAYS)
    assert set(nothing.values()) == {None}
    assert verdict({"model": "rival", **nothing}) == ""


def test_one_day_has_no_interval() -> None:
    found = compared(np.full(50, 2.0), np.ones(50), np.zeros(50, dtype=np.intp))
    assert found == {"worse_by": 1.0, "worse_by_low": None, "worse_by_high": None}
    assert verdict({"model": "rival", **found}) == ""


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(1, 1e6), min_size=2, max_size=30), st.floats(0.1, 10))
def test_an_estimate_off_by_a_factor_orders_as_the_truth_does(truth: list[float], factor: float) -> None:
    seconds = np.array(truth) + np.arange(len(truth)) * 1e-3
    found = duration_metrics(seconds, np.maximum(seconds, 10) * factor, np.ones(len(truth)))
    assert found["kendall_tau"] >= 0
    np.testing.assert_allclose(
        log10_errors(100 * seconds, 100 * seconds * factor), abs(np.log10(factor)), atol=1e-9
    )


def test_an_order_of_equals_agrees_with_nothing_and_below_a_second_counts_as_one() -> None:
    truth, ones = np.array([1.0, 10.0, 100.0]), np.ones(3)
    assert duration_metrics(truth, np.full(3, 5.0), ones)["kendall_tau"] == 0.0
    assert duration_metrics(truth, np.array([-50.0, 10.0, 100.0]), ones) == pytest.approx(
        {"kendall_tau": 1.0, "spearman": 1.0, "mae_log10": 0.0}
    )


def test_r_squared_of_the_mean_is_zero() -> None:
    truth = np.array([1.0, 2.0, 6.0])
    assert r_squared(truth, np.full(3, 3.0)) == pytest.approx(0.0)
    assert r_squared(truth, truth) == 1.0
    assert r_squared(np.ones(3), truth) == 0.0
