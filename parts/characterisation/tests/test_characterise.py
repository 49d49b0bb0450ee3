"""A log's figures, tables and implications on jobs whose answers are known."""

from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_logs.log_statistics.capacity import capacity_of
from cluster_logs.log_statistics.observed_log import UtilisationRule
from cluster_logs.log_statistics.occupancy import held_by_minute, occupancy
from cluster_logs.log_statistics.statistics import concentration_curve, gini, held_by_top
from parts.characterisation import breakdowns, waiting, waste
from parts.characterisation.characterise import characterise
from parts.characterisation.figures import lorenz_curve
from parts.characterisation.implications import judge_implications
from parts.characterisation.inputs import find_window
from parts.characterisation.tests.small_log import job, observed

HOUR_S = 3_600.0
_SECONDS = st.integers(0, 7_000_000).map(lambda ms: ms / 1_000)


def test_half_open_minutes_count_a_job_for_as_long_as_it_ran() -> None:
    log = observed([job(0, 0, 120, gpus=2)], {"vc1": 4})
    assert occupancy(log).busy[:4].tolist() == [2, 2, 0, 0]


def test_inclusive_minutes_count_the_minute_of_the_end_too() -> None:
    log = observed([job(0, 30, 60, gpus=2)], {"vc1": 4}, rule=UtilisationRule.INCLUSIVE)
    assert occupancy(log).busy[:4].tolist() == [2, 2, 0, 0]
    assert occupancy(observed([job(0, 30, 60, gpus=2)], {"vc1": 4})).busy[:4].tolist() == [0, 2, 0, 0]


def test_utilisation_is_cut_at_the_gpus_that_there_are() -> None:
    log = observed([job(0, 0, 86_400, gpus=8)], {"vc1": 4})
    assert characterise(log).numbers["utilisation.mean_pct"] == 100


def test_jobs_submitted_before_the_window_still_hold_their_gpus_in_it() -> None:
    jobs = [job(0, 0, 2 * 86_400, gpus=2), job(86_400 + 60, 90_000, 60, gpus=1)]
    log = observed(jobs, {"vc1": 4}, start=datetime(2020, 4, 2, tzinfo=UTC))
    assert len(log.jobs) == 1
    assert characterise(log).numbers["utilisation.mean_pct"] == pytest.approx(50, abs=0.1)


def test_jobs_that_still_run_hold_their_gpus_to_the_end() -> None:
    log = observed([job(0, 0, None, gpus=2, state="RUNNING")], {"vc1": 4})
    assert characterise(log).numbers["utilisation.mean_pct"] == 50


@given(
    st.lists(st.tuples(_SECONDS, _SECONDS, st.integers(1, 64)), min_size=1, max_size=30),
    st.sampled_from(UtilisationRule),
)
def test_differences_give_what_looking_at_each_minute_gives(
    jobs: list[tuple[float, float, int]], rule: UtilisationRule
) -> None:
    begins = np.array([start for start, _, _ in jobs])
    ends = begins + np.array([run for _, run, _ in jobs])
    gpus = np.array([size for _, _, size in jobs], dtype=float)
    minutes_s = np.arange(60.0) * 60
    if rule is UtilisationRule.HALF_OPEN:
        holds = (begins <= minutes_s[:, None]) & (minutes_s[:, None] < ends)
    else:
        holds = (begins // 60 <= minutes_s[:, None] / 60) & (minutes_s[:, None] / 60 <= ends // 60)
    assert held_by_minute(begins, ends, gpus, minutes_s, rule) == pytest.approx((holds * gpus).sum(axis=1))


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=200))
def test_gini_is_one_less_twice_the_area_below_the_lorenz_curve(amounts: list[float]) -> None:
    if sum(amounts) <= 0:
        assert np.isnan(gini(amounts))
        return
    curve = lorenz_curve(amounts)
    area = np.trapezoid(curve["held_pct"] / 100, curve.index / 100)
    assert gini(amounts) == pytest.approx(1 - 2 * area, abs=1e-9)
    assert -1e-9 <= gini(amounts) < 1


def test_the_first_user_of_figure_8_stands_at_zero_percent() -> None:
    curve = concentration_curve([1.0, 6.0, 3.0])
    assert curve.index.tolist() == [0, 50, 100]
    assert curve["held_pct"].tolist() == pytest.approx([60, 90, 100])
    assert held_by_top(curve, 25) == pytest.approx(75)


def test_users_without_gpu_jobs_count() -> None:
    measured = characterise(observed([job(0, 0, 60), job(0, 0, 60, user="bob", gpus=0)]))
    assert measured.numbers["users.users"] == 2
    assert measured.figures["fig8a"]["gpu_time_pct"].tolist() == [100, 100]


def test_what_a_log_lacks_is_dropped_by_name_and_the_rest_stands() -> None:
    bare = [job(60 * i, None, 60.0, user=None, state=None) for i in range(5)]
    measured = characterise(observed(bare))
    dropped = {each.item: each.reason for each in measured.dropped}
    assert {"fig1a", "fig2b", "fig5a", "fig6a", "fig6b", "fig3", "lorenz_virtual_clusters"} - set(
        measured.figures
    ) == {"lorenz_virtual_clusters"}
    assert dropped["fig8a"] == "the log names no users"
    assert dropped["fig7b"] == "the log has no final states"
    assert dropped["fig5b"] == "the log has no CPU jobs"
    assert "nodes" in dropped["fig2a"]
    assert "start times" in dropped["table3"]
    assert list(measured.figures["fig3"]) == ["gpu_jobs", "single_gpu_jobs", "multi_gpu_jobs", "mean_gpus"]
    assert "fig3: utilisation" in dropped
    assert [each.number for each in measured.implications] == [1, 2, 3, 4, 5, 6, 7]
    assert measured.implications[4].holds is None
    assert any(item.startswith("implication 5") for item in dropped)


def test_a_window_without_jobs_drops_everything() -> None:
    later = datetime(2021, 1, 1, tzinfo=UTC)
    measured = characterise(observed([job(0, 0, 60)], start=later, end=datetime(2021, 1, 2, tzinfo=UTC)))
    assert measured.figures == measured.tables == measured.numbers == {}
    assert all(each.holds is None for each in measured.implications)


def test_one_job_is_a_log() -> None:
    measured = characterise(observed([job(0, 60, 60)], {"vc1": 1}))
    assert measured.numbers["gpu_time.total_s"] == 60
    assert measured.tables["table1"].iloc[0].to_dict() == {
        "virtual_clusters": 1,
        "jobs": 1,
        "nodes": 1,
        "gpus": 1,
    }


def test_single_gpu_jobs_of_a_log_like_helios() -> None:
    jobs = [job(i, 0, 60.0) for i in range(8)] + [job(i, 0, 540.0, gpus=8) for i in range(2)]
    fourth = characterise(observed(jobs)).implications[3]
    assert fourth.value == 80
    assert fourth.holds is True
    assert fourth.evidence[1].value == pytest.approx(100 * 480 / (480 + 8_640))


def test_waiting_is_charged_to_those_that_hold_the_gpus() -> None:
    jobs = [
        job(0, 0, HOUR_S, gpus=3, user="ada"),
        job(0, 0, HOUR_S, gpus=1, user="bob"),
        job(0, HOUR_S, HOUR_S, gpus=4, user="cy"),
    ]
    pairs = waiting.waits_behind_users(observed(jobs)).reset_index()
    charged = pairs.set_index("holding_user")["waited_h"].to_dict()
    assert charged == pytest.approx({"ada": 0.75, "bob": 0.25})
    assert set(pairs["waiting_user"]) == {"cy"}
    assert pairs["waited_pct"].sum() == pytest.approx(100)


def test_all_waiting_is_charged_to_somebody_beyond_the_eight_largest_users_too() -> None:
    jobs = [job(0, 3_600 * i, HOUR_S, user=f"user{i}") for i in range(20)]
    log = observed(jobs)
    shares = waiting.behind_others_statistics(log)
    assert sum(shares.values()) == pytest.approx(100)
    total_h = waiting.waits_behind_users(log)["waited_h"].sum()
    assert total_h == pytest.approx(sum(min(i, 24) for i in range(20)))


def test_idle_gpus_beside_a_waiting_job_that_would_fit() -> None:
    jobs = [job(0, 0, HOUR_S, gpus=2), job(0, HOUR_S, 60, gpus=2), job(0, HOUR_S, 60, gpus=8)]
    row = waste.idle_while_waiting(observed(jobs, {"vc1": 4})).loc["vc1"]
    assert row["minutes_with_waiting"] == 60
    assert row["idle_pct"] == 50
    assert row["fits_pct"] == 100
    assert row["idle_gpu_hours"] == 2


def test_unused_time_limits_weigh_by_gpus() -> None:
    jobs = [job(0, 0, 900, gpus=4, time_limit_s=3_600.0), job(0, 0, 3_600, time_limit_s=3_600.0)]
    assert waste.limit_statistics(observed(jobs))["unused_gpu_time_pct"] == pytest.approx(60)


def test_cancelled_and_failed_gpu_time() -> None:
    jobs = [
        job(0, 0, 100, gpus=2, state="CANCELLED"),
        job(0, 0, 100, state="FAILED"),
        job(0, 0, 700, state="COMPLETED"),
    ]
    table = waste.lost_gpu_time(observed(jobs))
    assert table["gpu_time_pct"].to_dict() == pytest.approx(
        {"cancelled": 20, "failed within 2 min": 10, "failed later": 0, "cancelled or failed": 30}
    )


def test_table_4_takes_15_minutes_as_middle_and_6_hours_too() -> None:
    jobs = [job(0, run, run) for run in (899.0, 900.0, 21_600.0, 21_601.0)]
    assert waiting.queuing_by_duration(observed(jobs))["jobs"].tolist() == [1, 2, 1]


def test_weeks_are_iso_weeks() -> None:
    jobs = [job(0, 0, 60), job(5 * 86_400, 5 * 86_400, 60)]
    assert breakdowns.counts(observed(jobs), breakdowns.by_week).index.tolist() == ["2020-W14", "2020-W15"]


def test_a_window_is_whole_days_of_the_logs_clock_and_changing_the_clock_makes_none_longer() -> None:
    from zoneinfo import ZoneInfo

    zone = ZoneInfo("America/Los_Angeles")
    first, last = (datetime(2017, 11, day, 12, tzinfo=zone).timestamp() for day in (4, 6))
    window = find_window(np.array([first, last]), zone)
    assert window.days == 3
    assert window.local([window.start_s])[0] == pd.Timestamp("2017-11-04")


def test_a_day_whose_sizes_are_all_zero_is_a_gap() -> None:
    rows = [("a", 2, -np.inf), ("a", 0, 100.0), ("a", 3, 200.0)]
    nodes = pd.DataFrame(rows, columns=["virtual_cluster", "nodes", "from_s"]).assign(gpus_per_node=8)
    capacity = capacity_of(nodes)
    assert capacity is not None
    assert capacity.at(np.array([0.0, 150.0, 250.0])).tolist() == [16, 16, 24]


def test_an_implication_with_a_rule_that_cannot_be_measured_does_not_hold_and_may_fail() -> None:
    second = judge_implications({"utilisation_by_size.single_gpu_utilisation_pct": 2.0})[1]
    assert (second.holds, second.evidence[1].holds) == (None, True)
    assert judge_implications({"utilisation_by_size.single_gpu_utilisation_pct": 9.0})[1].holds is False
