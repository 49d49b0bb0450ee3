"""The figures of merit: by hand on small schedules, and what always holds."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foundation.errors import BadInputError
from simulator.conformance import sample_workload
from simulator.replay import simulate
from simulator.results.metrics import (
    bounded_slowdown,
    by_group,
    jain_index,
    progress_rates,
    schedule_summary,
    starved,
)
from simulator.scenario.scenario import Scenario

seconds = st.floats(0, 1e8)
jobs_times = st.lists(st.tuples(seconds, seconds), min_size=1, max_size=30)  # (queuing, run time)


def schedule(rows: list[tuple[float, float]], **columns: object) -> pd.DataFrame:
    """Jobs of one GPU each, submitted at 0: (queuing delay, run time) in seconds."""
    queuing, duration = (np.array([row[i] for row in rows], dtype=float) for i in (0, 1))
    frame = pd.DataFrame(
        {
            "job_id": [f"j{i}" for i in range(len(rows))],
            "virtual_cluster": "vc",
            "user": "u",
            "gpus": 1,
            "state": "completed",
            "submit_time_s": 0.0,
            "duration_s": duration,
            "first_start_time_s": queuing,
            "end_time_s": queuing + duration,
            "queuing_delay_s": queuing,
            "jct_s": queuing + duration,
            "preemptions": 0,
            "colocated": False,
            "overhead_s": 0.0,
            "lost_s": 0.0,
            "profiled": False,
            "ended_in_profiling": False,
            "withdrawn": False,
            "would_have_started": False,
        }
    )
    return frame.assign(**columns)


def summary(frame: pd.DataFrame, gpus: int = 4) -> dict[str, float]:
    return schedule_summary(frame, total_gpus=gpus, held_gpu_s=float((frame.duration_s * frame.gpus).sum()))


def test_a_schedule_that_can_be_checked_by_hand():
    frame = schedule(
        [(0, 50), (100, 100), (7_300, 2), (0, 1_000), (36_000, 60)],
        user=["a", "a", "b", "b", None],
        gpus=[1, 2, 1, 16, 1],
    )
    found = summary(frame, gpus=20)
    assert found["jobs"] == found["completed_jobs"] == 5
    assert found["mean_jct_s"] == (50 + 200 + 7_302 + 1_000 + 36_060) / 5
    assert found["median_queuing_delay_s"] == 100
    assert found["queued_jobs"] == 3
    assert found["makespan_s"] == 36_060
    # slowdowns: 1, 2, 730.2 (of 10 s, the bound), 1, 601
    assert found["bounded_slowdown_mean"] == pytest.approx((1 + 2 + 730.2 + 1 + 601) / 5)
    assert found["bounded_slowdown_p95"] == pytest.approx(601 + 0.8 * (730.2 - 601))
    # user a: (1 + 1/2) / 2; user b: (1/730.2 + 1) / 2; the job without a user counts for none
    a, b = 0.75, (1 / 730.2 + 1) / 2
    assert found["jain_users"] == pytest.approx((a + b) ** 2 / (2 * (a * a + b * b)))
    assert found["jain_virtual_clusters"] == 1  # there is one
    assert found["starved_jobs_pct"] == 40  # 7,300 s for 2 s of work, 36,000 s for a minute
    assert found["large_jobs"] == 1
    assert found["large_jobs_mean_jct_s"] == 1_000
    assert found["small_jobs_mean_queuing_delay_s"] == (0 + 100 + 7_300 + 36_000) / 4
    assert (found["short_jobs"], found["short_jobs_queued"]) == (3, 2)  # 50, 2 and 60 s
    assert found["debugging_jobs"] == 4
    assert found["debugging_jobs_queued_pct"] == 75
    assert found["debugging_jobs_mean_queuing_delay_s"] == (0 + 100 + 7_300 + 36_000) / 4
    work = 50 + 200 + 2 + 16_000 + 60
    assert found["utilisation_pct"] == found["effective_utilisation_pct"] == 100 * work / (20 * 36_060)


def test_a_cancelled_job_has_waited_but_has_no_completion_time():
    frame = schedule([(10, 100), (5_000, 5_000)], state=["completed", "cancelled"])
    frame.loc[1, ["end_time_s", "jct_s"]] = 5_000.0  # withdrawn after 5,000 s, never started
    found = summary(frame)
    assert (found["jobs"], found["completed_jobs"], found["cancelled_jobs"]) == (2, 1, 1)
    assert found["mean_jct_s"] == 110
    assert found["bounded_slowdown_mean"] == pytest.approx(1.1)
    assert found["mean_queuing_delay_s"] == 2_505
    assert found["starved_jobs_pct"] == 50
    assert found["debugging_jobs"] == 1  # how long the other one would have run is unknown
    assert found["effective_utilisation_pct"] == 100 * 100 / (4 * 5_000)


def test_packing_lifts_the_effective_utilisation_over_the_held_one():
    """Two jobs of 80 s share one of two GPUs, at 0.8 of their speed each: 100 s held, 160 s of work."""
    packed = schedule([(0, 80), (0, 80)], end_time_s=100.0, jct_s=100.0, colocated=True)
    found = schedule_summary(packed, total_gpus=2, held_gpu_s=100.0)
    assert found["utilisation_pct"] == 50
    assert found["effective_utilisation_pct"] == 80


def test_overheads_of_preemption_are_held_but_not_effective():
    workload, cluster = sample_workload("loaded", seed=3)
    found = simulate(Scenario(workload, cluster), "srtf").summary
    assert found["preemptions"] > 0
    overhead_pct = 100 * found["overhead_gpu_s"] / (cluster.total_gpus * found["makespan_s"])
    assert found["utilisation_pct"] - found["effective_utilisation_pct"] == pytest.approx(overhead_pct)


def test_no_jobs_give_figures_all_the_same():
    found = summary(schedule([]))
    assert found["jobs"] == found["mean_jct_s"] == found["starved_jobs_pct"] == found["utilisation_pct"] == 0
    assert found["jain_users"] is None


def test_a_log_without_users_says_nothing_about_their_fairness():
    found = summary(schedule([(0, 10), (50, 10)], user=None))
    assert found["jain_users"] is None
    assert found["jain_virtual_clusters"] == 1


@pytest.mark.parametrize(
    ("queuing", "run", "expected"),
    [
        (3_600, 1, False),
        (3_601, 1, True),
        (3_601, 360.2, False),
        (86_400, 8_639, True),
        (86_400, 8_640, False),
    ],
)
def test_starvation_begins_at_an_hour_and_at_ten_run_times(queuing, run, expected):
    assert starved([queuing], [run]).tolist() == [expected]


@given(jobs_times)
def test_a_slowdown_is_at_least_one_and_at_most_the_unbounded_one(rows):
    queuing, run = (np.array([row[i] for row in rows]) for i in (0, 1))
    slowdown = bounded_slowdown(queuing + run, run)
    assert (slowdown >= 1).all()
    long = run >= 10
    assert slowdown[long] == pytest.approx(1 + queuing[long] / run[long])
    assert (slowdown <= 1 + queuing / 10).all()
    assert (bounded_slowdown(queuing + run, run, bound_s=60) <= slowdown).all()


@given(jobs_times)
def test_percentiles_grow_and_stay_within_the_jobs(rows):
    found = summary(schedule(rows))
    for name in ("jct_s", "queuing_delay_s"):
        points = [found[f"{label}_{name}"] for label in ("median", "p90", "p95", "p99", "p999")]
        assert points == sorted(points)
        assert points[-1] <= max(found["longest_wait_s"], *(queuing + run for queuing, run in rows))
    assert 0 <= found["starved_jobs_pct"] <= 100
    assert found["short_jobs"] <= found["debugging_jobs"] <= found["jobs"]


shares = st.lists(st.floats(0, 1e6), min_size=1, max_size=50)


@given(shares)
def test_jains_index_lies_between_one_of_n_and_one(values):
    index = jain_index(values)
    assert 1 / len(values) - 1e-9 <= index <= 1


@given(st.integers(1, 60), st.floats(1e-300, 1e300))
def test_equal_shares_are_fair_and_k_of_n_is_k_of_n(parties, share):
    assert jain_index([share] * parties) == pytest.approx(1)
    assert jain_index([share] * parties + [0.0] * parties) == pytest.approx(0.5)


@pytest.mark.slow
@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=30), st.floats(1e-6, 1e6), st.randoms())
def test_jains_index_knows_neither_unit_nor_order(values, unit, random):
    shuffled = random.sample(values, len(values))
    assert jain_index([value * unit for value in shuffled]) == pytest.approx(jain_index(values))


@pytest.mark.parametrize("values", [[1.0, float("nan")], [-1.0, 2.0], [[1.0]]])
def test_jains_index_of_what_is_no_share_is_refused(values):
    with pytest.raises(BadInputError):
        jain_index(values)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(1, 1e6)), min_size=1, max_size=20))
def test_serving_the_worst_group_like_the_best_makes_a_schedule_fair(rows):
    groups = pd.Series([name for name, _ in rows])
    rates = progress_rates(np.array([slowdown for _, slowdown in rows]), groups)
    assert len(rates) == groups.nunique()
    assert ((rates > 0) & (rates <= 1)).all()
    assert jain_index(np.full(len(rates), rates.max())) == pytest.approx(1)


def test_groups_state_their_slowdown():
    rows = by_group(schedule([(0, 100), (300, 100)], user=["a", "b"]), "user")
    assert [row["bounded_slowdown_mean"] for row in rows] == [1, 4]
