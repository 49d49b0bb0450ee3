"""What holds for every workload: closed forms, and the audit of capacity, gangs, time and work."""

import heapq
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.cluster.spec import ClusterSpec
from simulator.conformance import audited
from simulator.policies.registry import load_policy, policy_names
from simulator.replay import simulate
from simulator.scenario.scenario import Scenario
from simulator.workload.colocation import SummedUtilisation
from simulator.workload.job import Job, JobProfile
from simulator.workload.workload import Workload

CLUSTER = ClusterSpec({"a": 3, "b": 11}, 4)

profiles = st.none() | st.builds(
    JobProfile,
    gpu_util_pct=st.floats(1, 100),
    gpu_mem_util_pct=st.floats(1, 100),
    gpu_mem_mib=st.floats(100, 24_000),
    sharing_score=st.sampled_from([None, 0, 1, 2]),
)


@st.composite
def workloads(draw):
    rows = draw(
        st.lists(
            st.tuples(
                st.integers(0, 1_000),
                st.sampled_from(list(CLUSTER.virtual_clusters)),
                st.sampled_from([1, 2, 3, 4, 6, 8, 12]),
                st.integers(0, 2_000),
                st.integers(0, 5_000),
                profiles,
            ),
            max_size=40,
        )
    )
    rows.sort(key=lambda row: row[0])
    return Workload(
        tuple(
            Job(f"j{i}", vc, None, gpus, float(submit), float(duration), float(estimate), i, profile)
            for i, (submit, vc, gpus, duration, estimate, profile) in enumerate(rows)
        ),
        {},
    )


@pytest.mark.parametrize("name", policy_names())
@settings(max_examples=40, deadline=None)
@given(workload=workloads())
def test_capacity_gangs_and_work(name, workload):
    made = load_policy(name, {"profiling_share_max": 0.5} if name == "lucid" else None)
    result = audited(Scenario(workload, CLUSTER, colocation=SummedUtilisation()), made, name=name)
    assert result.jobs["job_id"].tolist() == [job.job_id for job in workload.jobs]
    assert (result.jobs["first_start_time_s"] >= result.jobs["submit_time_s"]).all()
    assert 0 <= result.summary["utilisation_pct"] <= 100 + 1e-9


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(jobs=st.lists(st.tuples(st.integers(0, 50), st.integers(0, 100)), min_size=1, max_size=60))
def test_fifo_on_one_gpu_is_lindleys_recursion(jobs):
    """W(n+1) = max(0, W(n) + S(n) - A(n+1)): the closed form of the single-server queue."""
    submit, rows = 0, []
    for i, (gap, duration) in enumerate(jobs):
        submit += gap if i else 0
        rows.append(Job(f"j{i}", "vc", None, 1, float(submit), float(duration), order=i))
    waits = [0.0]
    for earlier, later in pairwise(rows):
        gap = later.submit_time_s - earlier.submit_time_s
        waits.append(max(0.0, waits[-1] + earlier.duration_s - gap))
    result = simulate(
        Scenario(Workload(tuple(rows), {}), ClusterSpec.of_gpus(1, virtual_cluster="vc")), "fifo"
    )
    assert result.jobs["queuing_delay_s"].tolist() == waits


@settings(max_examples=30, deadline=None)
@given(
    servers=st.integers(2, 9),
    jobs=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 100)), min_size=1, max_size=60),
)
def test_fifo_of_single_gpu_jobs_is_the_k_server_queue(servers, jobs):
    """Kiefer and Wolfowitz: each job takes the server that is free first."""
    submit, rows = 0, []
    for i, (gap, duration) in enumerate(jobs):
        submit += gap if i else 0
        rows.append(Job(f"j{i}", "vc", None, 1, float(submit), float(duration), order=i))
    free_at = [0.0] * servers
    expected = []
    for row in rows:
        start = max(row.submit_time_s, heapq.heappop(free_at))
        expected.append(start)
        heapq.heappush(free_at, start + row.duration_s)
    result = simulate(
        Scenario(Workload(tuple(rows), {}), ClusterSpec.of_gpus(servers, virtual_cluster="vc")), "fifo"
    )
    assert result.jobs["first_start_time_s"].tolist() == expected


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(workload=workloads())
def test_srtf_without_overheads_is_never_beaten_on_one_gpu(workload):
    """Schrage: on one server SRTF minimises the mean completion time."""
    single = Workload(
        tuple(
            Job(
                job.job_id,
                "vc",
                None,
                1,
                job.submit_time_s,
                job.duration_s,
                job.estimated_duration_s,
                job.order,
            )
            for job in workload.jobs
        ),
        {},
    )
    cluster = ClusterSpec.of_gpus(1, virtual_cluster="vc")
    best = simulate(Scenario(single, cluster), "srtf", settings={"preemption_s": 0.0}).summary["mean_jct_s"]
    for other in ("fifo", "sjf", "qssf"):
        assert best <= simulate(Scenario(single, cluster), other).summary["mean_jct_s"] + 1e-6
