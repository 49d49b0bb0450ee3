"""Tsafrir's estimate: the last two jobs that had ended, and nothing from the future."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foundation.errors import BadInputError
from simulator.conformance import sample_workload
from simulator.workload.job import Job
from simulator.workload.user_history_estimates import NOTHING_KNOWN_S, user_history_estimates
from simulator.workload.workload import Workload


def workload(*rows: tuple[str | None, int, float, float], origin=None) -> Workload:
    """(user, gpus, submit, duration)."""
    return Workload(
        tuple(
            Job(f"j{i}", "vc", user, gpus, at, took, order=i) for i, (user, gpus, at, took) in enumerate(rows)
        ),
        {},
        origin,
    )


def test_the_mean_of_the_users_last_two_ended_jobs():
    jobs = workload(("u", 1, 0, 10), ("u", 1, 20, 30), ("u", 1, 60, 50), ("u", 1, 200, 1), ("u", 1, 205, 1))
    assert user_history_estimates(jobs).tolist() == [NOTHING_KNOWN_S, 10, 20, 40, 25.5]


def test_a_running_job_is_not_known_yet():
    assert user_history_estimates(workload(("u", 1, 0, 100), ("u", 1, 50, 5)))[1] == NOTHING_KNOWN_S
    late = user_history_estimates(workload(("u", 1, 0, 10), ("u", 1, 50, 5)), ends_s=np.array([80.0, 90.0]))
    assert late[1] == NOTHING_KNOWN_S


def test_a_new_user_gets_the_mean_at_equal_gpu_demand_and_then_of_all():
    jobs = workload(("u", 2, 0, 10), ("u", 4, 0, 40), ("new", 2, 100, 1), ("newer", 8, 100, 1))
    assert user_history_estimates(jobs)[2:].tolist() == [10, 25]


def test_without_users_the_virtual_cluster_and_the_demand_stand_in():
    jobs = workload((None, 1, 0, 10), (None, 2, 0, 90), (None, 1, 100, 1))
    assert user_history_estimates(jobs)[2] == 10


def test_history_counts_and_only_from_before():
    origin = pd.Timestamp("2020-01-02", tz="UTC")
    history = pd.DataFrame(
        {
            "user": ["u", "u", "u", "u"],
            "virtual_cluster": "vc",
            "gpus": 1,
            "submit_time": pd.to_datetime(["2020-01-01", "2020-01-01", "2020-01-01", "2020-01-02"], utc=True),
            "end_time": pd.to_datetime(
                ["2020-01-01 01:00", "2020-01-02 00:01:00", None, "2020-01-02 00:00:10"],
                utc=True,
                format="mixed",
            ),
            "duration_s": [100.0, 300.0, 7.0, 9.0],
        }
    )
    jobs = workload(("u", 1, 0, 1e6), ("u", 1, 59, 1e6), ("u", 1, 60, 1e6), origin=origin)
    assert user_history_estimates(jobs, history=history).tolist() == [100, 100, 200]


@given(seed=st.integers(0, 50), cut=st.integers(1, 119))
def test_no_estimate_moves_when_the_future_does(seed, cut):
    jobs, _ = sample_workload("loaded", seed)
    moment = jobs.jobs[cut].submit_time_s
    shifted = replace(
        jobs,
        jobs=tuple(
            replace(job, duration_s=job.duration_s + 5_000)
            if job.submit_time_s + job.duration_s > moment
            else job
            for job in jobs.jobs
        ),
    )
    before = [job.submit_time_s <= moment for job in jobs.jobs]
    np.testing.assert_array_equal(
        user_history_estimates(jobs)[before], user_history_estimates(shifted)[before]
    )


def test_ends_of_another_length_are_refused():
    with pytest.raises(BadInputError, match="ends_s"):
        user_history_estimates(workload(("u", 1, 0, 1)), ends_s=np.zeros(2))


def test_nobody_learns_from_a_job_that_was_withdrawn_while_it_waited():
    jobs = (
        Job("a", "x", "u", 1, 0.0, 50.0, order=0),
        Job("b", "x", "u", 1, 0.0, 7.0, order=1, cancel_time_s=7.0, withdrawn=True),
        Job("c", "x", "u", 1, 100.0, 9.0, order=2),
    )
    assert user_history_estimates(Workload(jobs, {}))[2] == 50.0
