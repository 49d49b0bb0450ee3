"""Workloads and clusters from tables: nothing is lost silently, bad input is named."""

from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest

from cluster_logs.errors import BadInputError
from simulator.cluster import ClusterSpec
from simulator.workload import JobProfile, Workload


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
        table(), start=datetime(2020, 1, 1, 0, 0, 10, tzinfo=UTC), end=datetime(2020, 1, 2, tzinfo=UTC)
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


@pytest.mark.parametrize("bad", [-1.0, np.inf])
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
    own = Workload.from_jobs(frame, sharing_scores=np.array([2.0, 0, 0, 0, 1])).jobs[1].profile
    assert own == JobProfile(40, 30, 2_000, amp=True, job_type="VGG/CIFAR-10/32/1", sharing_score=2)


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
