"""Workloads and clusters from tables: nothing is lost silently, bad input is named."""

from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest

from foundation.errors import BadInputError
from simulator.cluster.spec import ClusterSpec
from simulator.replay import simulate
from simulator.scenario.scenario import Scenario
from simulator.workload.job import JobProfile
from simulator.workload.job_family import name_family
from simulator.workload.workload import Workload


def table(**columns) -> pd.DataFrame:
    rows = {
        "job_id": ["a", "b", "c", "d", "e"],
        "virtual_cluster": ["x", "x", "y", "x", "x"],
        "user": ["u", None, "u", "v", "v"],
        "gpus": [1, 0, 99, 4, 2],
        "submit_time": [
            "2020-01-01 00:00:10",
            "2020-01-01",
            "2020-01-01",
            "2020-01-01 00:00:05",
            "2020-01-02",
        ],
        "duration_s": [10.0, 5.0, 7.0, np.nan, 3.0],
    }
    return pd.DataFrame(rows | columns)


def test_every_row_is_a_job_or_counted():
    workload = Workload.from_jobs(table()).that_fit(ClusterSpec({"x": 1, "y": 2}))
    assert [job.job_id for job in workload.jobs] == ["a", "e"]
    assert {rule: n for rule, n in workload.skipped.items() if n} == {
        "cpu_job": 1,
        "unknown_duration": 1,
        "bigger_than_virtual_cluster": 1,
    }
    assert len(workload) + sum(workload.skipped.values()) == 5


def test_time_counts_from_the_first_job_that_is_replayed():
    workload = Workload.from_jobs(table())
    assert workload.origin == pd.Timestamp("2020-01-01", tz="UTC")
    assert [job.submit_time_s for job in workload.jobs] == [0, 10, 86_400]
    assert [job.user for job in workload.jobs] == ["u", "u", "v"]
    assert workload.rows.tolist() == [2, 0, 4]


def test_a_virtual_cluster_without_nodes_is_counted():
    workload = Workload.from_jobs(table()).that_fit(ClusterSpec({"x": 1}))
    assert workload.skipped["unknown_virtual_cluster"] == 1


def test_the_window_is_half_open():
    workload = Workload.from_jobs(
        table(), window=(datetime(2020, 1, 1, 0, 0, 10, tzinfo=UTC), datetime(2020, 1, 2, tzinfo=UTC))
    )
    assert [job.job_id for job in workload.jobs] == ["a"]
    assert workload.jobs[0].submit_time_s == 0


def test_estimates_follow_the_rows_of_the_frame():
    workload = Workload.from_jobs(table(), estimated_duration_s=np.array([1.0, 2, 3, 4, np.nan]))
    assert [job.estimated_duration_s for job in workload.jobs] == [3, 1, None]
    assert [job.estimated_duration_s for job in workload.with_estimates(np.array([7.0, 8, 9])).jobs] == [
        7,
        8,
        9,
    ]


@pytest.mark.parametrize("bad", [-np.inf, np.inf])
def test_an_impossible_estimate_is_refused(bad):
    with pytest.raises(BadInputError, match="estimate"):
        Workload.from_jobs(table()).with_estimates(np.array([1.0, bad, 2.0]))


def test_profiles_by_job_type_and_from_the_table():
    measured = JobProfile(50, 20, 4_000, job_type="VGG/CIFAR-10/32/1", sharing_score=0)
    frame = table(
        job_type=["VGG/CIFAR-10/32/1", None, None, None, "other"],
        gpu_util_pct=[40.0, np.nan, np.nan, np.nan, 10.0],
        gpu_mem_util_pct=[30.0, np.nan, np.nan, np.nan, 5.0],
        gpu_mem_mib=[2_000.0, np.nan, np.nan, np.nan, np.nan],
    )
    by_type = Workload.from_jobs(frame, profiles={"VGG/CIFAR-10/32/1": measured})
    assert [job.profile for job in by_type.jobs] == [None, measured, None]
    own = Workload.from_jobs(frame).jobs[1].profile
    assert own == JobProfile(40, 30, 2_000, amp=True, job_type="VGG/CIFAR-10/32/1")


def test_a_table_without_a_needed_column_is_named():
    with pytest.raises(BadInputError, match="duration_s"):
        Workload.from_jobs(table().drop(columns="duration_s"))


def test_the_tables_own_estimates_are_used_unless_others_are_given():
    frame = table(estimated_duration_s=[1.0, 2, 3, 4, np.nan])
    assert [job.estimated_duration_s for job in Workload.from_jobs(frame).jobs] == [3, 1, None]
    others = Workload.from_jobs(frame, estimated_duration_s=np.full(5, 9.0))
    assert [job.estimated_duration_s for job in others.jobs] == [9, 9, 9]


@pytest.mark.parametrize(
    ("names", "nodes", "named"), [(["a", "a"], [1, 2], "more than once"), (["a"], [-1], "-1 nodes")]
)
def test_a_bad_node_table_is_named(names, nodes, named):
    frame = pd.DataFrame({"virtual_cluster": names, "nodes": nodes, "gpus_per_node": 8})
    with pytest.raises(BadInputError, match=named):
        ClusterSpec.from_nodes(frame)


@pytest.mark.parametrize("times", [["never"] * 5, [None] * 5, ["2020-13-01"] * 5])
def test_times_that_cannot_be_read_are_named(times):
    with pytest.raises(BadInputError, match="submit_time"):
        Workload.from_jobs(table(submit_time=times))


def log(**columns):
    """Four jobs of a log: one ran, one was cancelled while it waited, one while it ran, one needs CPUs."""
    base = {
        "job_id": ["ran", "left", "killed", "cpu"],
        "virtual_cluster": ["x"] * 4,
        "user": ["u", "u", "v", None],
        "name": ["train_2020-09-01_3", "train_2020-10-11_12", "train_2020-10-11_12", None],
        "gpus": [4, 4, 1, 0],
        "cpus": [8, 8, 8, 6],
        "state": ["COMPLETED", "CANCELLED", "CANCELLED", "COMPLETED"],
        "submit_time": [
            "2024-01-01T00:00:00",
            "2024-01-01T00:01:00",
            "2024-01-01T00:02:00",
            "2023-12-31T00:00:00",
        ],
        "start_time": ["2024-01-01T00:00:10", None, "2024-01-01T00:02:30", "2023-12-31T00:00:00"],
        "end_time": [
            "2024-01-01T01:00:10",
            "2024-01-01T00:11:00",
            "2024-01-01T00:03:00",
            "2023-12-31T00:10:00",
        ],
        "duration_s": [3600.0, np.nan, 30.0, 600.0],
    }
    return pd.DataFrame({**base, **columns})


def test_a_job_cancelled_while_it_waited_waits_until_then():
    workload = Workload.from_jobs(log())
    jobs = {job.job_id: job for job in workload.jobs}
    assert (jobs["left"].cancel_time_s, jobs["left"].duration_s) == (660.0, 600.0)
    assert jobs["ran"].cancel_time_s is None
    assert jobs["killed"].cancel_time_s is None, "it ran, for as long as its log says"
    result = simulate(Scenario(workload, ClusterSpec({"x": 1}, 4)), "fifo").jobs.set_index("job_id")
    assert result.loc["left", "state"] == "cancelled"
    assert result.loc["left", "end_time_s"] == 660.0
    assert result.loc["left", "queuing_delay_s"] == 600.0
    assert result["state"].drop("left").eq("completed").all()
    # What an elapsed time of 0 says of it does not matter; where it is unwanted it is counted.
    assert Workload.from_jobs(log(duration_s=[3600.0, 0.0, 30.0, 600.0])).jobs == workload.jobs
    without = Workload.from_jobs(log(), withdrawn_jobs=False)
    assert [job.job_id for job in without.jobs] == ["ran", "killed"]
    assert without.skipped["unknown_duration"] == 1


def test_a_job_that_ended_while_it_waited_waits_until_then_whatever_its_state():
    jobs = {job.job_id: job for job in Workload.from_jobs(log(state=["FAILED"] * 4)).jobs}
    assert jobs["left"].cancel_time_s == 660.0, "past its deadline, or refused"
    assert jobs["ran"].cancel_time_s is None
    stated = Workload.from_jobs(log(state=["FAILED"] * 4, duration_s=[3600.0, 90.0, 30.0, 600.0])).jobs
    assert [job.duration_s for job in stated] == [3600.0, 90.0, 30.0], "a log may tell no start of a run"


def test_cpu_jobs_need_a_cluster_that_sets_cores_aside():
    frame = log()
    without = Workload.from_jobs(frame)
    assert without.skipped["cpu_job"] == 1
    assert without.origin == pd.Timestamp("2024-01-01", tz="UTC"), "a job left out does not move second 0"
    workload = Workload.from_jobs(frame, cpu_jobs=True)
    first = workload.jobs[0]
    assert (first.job_id, first.gpus, first.cpus) == ("cpu", 0, 6)
    assert all(job.cpus == 0 for job in workload.jobs[1:]), "a GPU job's cores are not what it waits for"
    assert workload.that_fit(ClusterSpec({"x": 1}, 4)).skipped["cpu_job"] == 1
    fits = workload.that_fit(ClusterSpec({"x": 1}, 4, cpu_cores_per_node=8))
    assert len(fits) == 4
    unknown = Workload.from_jobs(log(cpus=[8, 8, 8, None]), cpu_jobs=True)
    assert unknown.skipped["cpu_job"] == 1
    for kept in (without, workload, fits, unknown):
        assert len(kept) + sum(kept.skipped.values()) == len(frame)


def test_a_template_is_the_job_type_or_the_users_family_of_names():
    named = [job.template for job in Workload.from_jobs(log()).jobs]
    assert named == ["u/train_#", "u/train_#", "v/train_#"]
    typed = Workload.from_jobs(log(job_type=["VGG/CIFAR-10/32/1", None, None, None])).jobs
    assert [job.template for job in typed] == ["VGG/CIFAR-10/32/1", "u/train_#", "v/train_#"]
    nameless = Workload.from_jobs(log().drop(columns="name")).jobs
    assert [job.template for job in nameless] == [None, None, None]


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("train_2020-09-01_lr0.1", "train_#_lr#"),
        ("train_2020-10-11_lr0.02", "train_#_lr#"),
        ("Eval-3fa9c1b2", "eval-#"),
        ("eval-3FA9C1B2D4", "eval-#"),
        ("defaced_facade", "defaced_facade"),
        ("resnet50", "resnet#"),
        ("job 17/24", "job #"),
        ("", ""),
    ],
)
def test_what_differs_from_run_to_run_is_masked(name, family):
    assert name_family(name) == family


def test_a_column_may_say_that_a_job_has_a_long_cold_start():
    jobs = Workload.from_jobs(log(long_cold_start=[True, None, False, False])).jobs
    assert [job.long_cold_start for job in jobs] == [True, False, False]


def test_jobs_stopped_at_their_limit_are_known():
    frame = log(source_state=["TIMEOUT", "CANCELLED by 1000", None, "COMPLETED"])
    workload = Workload.from_jobs(frame)
    assert {job.job_id: job.timed_out for job in workload.jobs} == {
        "ran": True,
        "left": False,
        "killed": False,
    }
    result = simulate(Scenario(workload, ClusterSpec({"x": 1}, 4)), "fifo")
    assert result.summary["timed_out_jobs"] == 1
