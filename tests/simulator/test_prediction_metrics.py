"""Prediction errors and unfairness, by the definitions of PCS (OSDI '24)."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.results.prediction_metrics import prediction_error_pct, prediction_summary, unfairness

TIMES = st.floats(0.001, 1e7)


def table(jct_s, predicted_s, fair_s, state="completed"):
    return pd.DataFrame(
        {
            "state": state,
            "submit_time_s": 100.0,
            "jct_s": jct_s,
            "predicted_end_time_s": np.asarray(predicted_s) + 100.0,
            "fair_time_s": fair_s,
        }
    )


def test_the_error_is_a_share_of_what_was_predicted():
    errors = prediction_error_pct(np.array([50.0, 100.0, 200.0]), np.array([100.0, 100.0, 100.0]))
    assert errors.tolist() == [100.0, 0.0, 50.0]


def test_a_job_that_was_to_take_no_time_has_no_error_when_it_took_none():
    errors = prediction_error_pct(np.array([0.0, 0.0]), np.array([0.0, 5.0]))
    assert errors.tolist() == [0.0, np.inf]


def test_unfairness_is_the_time_over_a_fair_share():
    assert unfairness(np.array([15.0, 10.0, 5.0]), np.array([10.0, 10.0, 10.0])).tolist() == [0.5, 0.0, 0.0]


def test_the_summary_counts_and_interpolates():
    summary = prediction_summary(table([100.0, 110.0, 90.0, 100.0], [100.0] * 4, [100.0, 100.0, 45.0, 100.0]))
    assert summary["predicted_jobs"] == 4
    assert summary["mean_pred_err_pct"] == pytest.approx(5.0)
    assert summary["p50_pred_err_pct"] == pytest.approx(5.0)
    assert summary["max_pred_err_pct"] == pytest.approx(10.0)
    assert summary["p99_pred_err_pct"] == pytest.approx(np.percentile([0, 0, 10, 10], 99))
    assert summary["later_than_predicted_pct"] == 25.0
    assert summary["mean_unfairness"] == pytest.approx((0.1 + 1.0) / 4)
    assert summary["unfair_jobs_pct"] == 50.0


def test_jobs_without_a_prediction_or_an_end_count_in_no_error():
    jobs = table([100.0, 100.0, 100.0], [50.0, np.nan, 50.0], 100.0)
    jobs.loc[2, "state"] = "cancelled"
    summary = prediction_summary(jobs)
    assert (summary["predicted_jobs"], summary["mean_pred_err_pct"]) == (1, 100.0)


def test_nothing_is_said_of_columns_that_are_not_there():
    bare = table([1.0], [1.0], [1.0]).drop(columns=["predicted_end_time_s", "fair_time_s"])
    assert prediction_summary(bare) == {}


@given(st.lists(st.tuples(TIMES, TIMES, TIMES), min_size=1, max_size=20), st.floats(0.001, 1000))
def test_figures_do_not_depend_on_the_unit_of_time(rows, unit):
    jct, predicted, fair = (np.array(column) for column in zip(*rows, strict=True))
    assert np.allclose(
        prediction_error_pct(predicted * unit, jct * unit), prediction_error_pct(predicted, jct)
    )
    assert np.allclose(unfairness(jct * unit, fair * unit), unfairness(jct, fair), atol=1e-9)
    assert (unfairness(jct, fair) >= 0).all()
    assert (prediction_error_pct(predicted, jct) >= 0).all()
