"""Coverage of run times by week: what is counted where, and which weeks lie outside of the aim."""

import numpy as np
import pytest

from experiments.model_quality.run_time_coverage import (
    SaidQuantiles,
    coverage_by_week,
    coverage_of_test,
    outside,
)
from lucid_models.evaluation.duration import DurationTest


def test_jobs_count_in_the_week_of_their_submission():
    submit_s = 1e9 + 86_400.0 * np.array([0, 6.9, 7.1, 21])
    truth_s = np.array([10.0, 10, 10, 10])
    before = SaidQuantiles(np.array([9.0, 11, 9, 9]), np.array([9.5, 22, 9.5, 18]))
    after = SaidQuantiles(np.full(4, 10.0), np.full(4, 40.0))
    rows = coverage_by_week(submit_s, truth_s, before, after)
    assert [(row["week"], row["jobs"]) for row in rows] == [(1, 2), (2, 1), (4, 1)]
    assert (rows[0]["coverage_p50_before"], rows[0]["coverage_p90_before"]) == (0.5, 0.5)
    assert (rows[2]["coverage_p50_before"], rows[2]["coverage_p90_before"]) == (0.0, 1.0)
    assert all(row["coverage_p50"] == row["coverage_p90"] == 1.0 and row["width"] == 4.0 for row in rows)


@pytest.mark.parametrize(
    ("jobs", "p50", "p90", "expected"),
    [
        (500, 0.5, 0.9, []),
        (500, 0.53, 0.87, ["coverage_p50", "coverage_p90"]),
        (500, 0.48, 0.93, ["coverage_p90"]),
        (100, 0.2, 0.2, []),
    ],
)
def test_weeks_outside_of_the_aim_are_named_where_jobs_are_enough(jobs, p50, p90, expected):
    assert outside({"jobs": jobs, "coverage_p50": p50, "coverage_p90": p90}) == expected


@pytest.mark.thorough("the experiments")
def test_the_test_of_a_log_tells_every_week(jobs, duration_settings):
    test = DurationTest(jobs, 4)
    rows = coverage_of_test(test, *test.measure(duration_settings))
    assert sum(row["jobs"] for row in rows) == len(test.test)
    assert [row["week"] for row in rows] == [1, 2]
