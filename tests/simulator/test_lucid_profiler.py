"""Time-aware scaling of the profiler: where jobs are measured, for how long, and on whose nodes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.cluster.spec import ClusterSpec
from simulator.conformance import audited, sample_workload
from simulator.engine.simulation import Simulation
from simulator.policies.lucid import Lucid, LucidSettings
from simulator.replay import simulate
from simulator.scenario.scenario import Scenario
from simulator.stages.profiler import PROFILER
from simulator.workload.forecast import ThroughputForecast
from simulator.workload.job import Job, JobProfile
from simulator.workload.workload import Workload

ONE_NODE = {"profiling_share_max": 0.5, "profiling_nodes": 1}
TWO = ClusterSpec({"vc": 2}, 8)


def job(i, submit, gpus, duration, *, vc="vc", estimate=None, **more):
    measured = JobProfile(30, 10, 5_000, job_type="t", sharing_score=2)
    return Job(f"j{i}", vc, "u", gpus, float(submit), duration, estimate or duration, i, measured, **more)


def run(*jobs, cluster=TWO, forecast=None, **chosen):
    policy = Lucid(LucidSettings(**{**ONE_NODE, "sharing": "none", **chosen}))
    return simulate(Scenario(Workload(jobs, {}), cluster, forecast=forecast), policy).jobs


def test_a_job_that_finds_idle_gpus_runs_there_at_once_and_loses_nothing():
    jobs = run(job(0, 0, 4, 1_000), job(1, 5, 4, 1_000))
    assert jobs["jct_s"].tolist() == [1_000, 1_000]
    assert not jobs["profiled"].any()


def test_jobs_of_the_same_second_do_not_count_on_the_same_gpus():
    jobs = run(*[job(i, 0, 8, 1_000) for i in range(2)], job(2, 0, 16, 1_000), cluster=ClusterSpec({"vc": 3}))
    # j0 finds a node, j1 the other; nothing is left for j2, which is too large for the profiler.
    assert not jobs["profiled"].any()
    assert jobs["first_start_time_s"].tolist() == [0, 0, 1_000]


def test_who_has_to_wait_is_profiled_meanwhile():
    jobs = run(job(0, 0, 8, 1_000), job(1, 10, 8, 500), job(2, 20, 8, 100))
    assert jobs["profiled"].tolist() == [False, True, True]
    # j1 is profiled from 10 to 210, j2 after it from 210 to its end at 310.
    assert jobs["lost_s"].tolist() == [0, 200, 0]
    assert jobs["end_time_s"].tolist() == [1_000, 1_500, 310]
    assert jobs["queuing_delay_s"].tolist() == [0, 790, 190]


def test_a_profiling_run_is_cut_short_when_gpus_turn_up_at_home():
    jobs = run(job(0, 0, 8, 100), job(1, 10, 8, 5_000))
    # j1's node is free at 100; waiting for the end of its profiling at 210 would only cost time.
    assert jobs["end_time_s"].tolist() == [100, 5_100]
    assert jobs["lost_s"].tolist() == [0, 90]
    assert jobs["preemptions"].sum() == 0
    # One that is believed to end on the profiler stays there.
    jobs = run(job(0, 0, 8, 100), job(1, 10, 8, 150))
    assert jobs["end_time_s"].tolist() == [100, 160]
    strict = run(job(0, 0, 8, 100), job(1, 210, 8, 5_000), profiling_in_place=False)
    assert strict["lost_s"].tolist() == [0, 200]


def test_slow_starters_are_profiled_for_longer_and_that_does_not_shrink():
    jobs = run(
        job(0, 0, 8, 5_000),
        job(1, 10, 4, 5_000, long_cold_start=True),
        job(2, 10, 4, 5_000),
        *[job(i, 11, 8, 5_000) for i in range(3, 7)],
    )
    assert jobs["lost_s"].tolist()[1] == 600
    # When j2 starts, what waits would fill the profiler once: T_prof has not shrunk yet.
    assert jobs["lost_s"].tolist()[2] == 200


def test_profiling_shrinks_when_many_are_forecast_to_arrive():
    calm = ThroughputForecast(3_600, [1.0], [0.0], [1.0], [0.0])
    storm = ThroughputForecast(3_600, [1.0], [72.0], [1.0], [72.0])  # 4 jobs within 200 s
    jobs = [job(0, 0, 8, 5_000), job(1, 10, 8, 5_000)]
    assert run(*jobs, forecast=calm)["lost_s"].tolist() == [0, 200]
    assert run(*jobs, forecast=storm)["lost_s"].tolist() == [0, 60]
    assert run(*jobs, forecast=storm, profiling_scales=False)["lost_s"].tolist() == [0, 200]


def test_large_jobs_skip_a_crowded_profiler():
    crowd = [job(i, 10 + i, 4, 5_000) for i in range(1, 8)]
    jobs = run(job(0, 0, 8, 20_000), *crowd, job(8, 20, 8, 3_000))
    assert jobs["profiled"].iloc[1]
    assert not jobs["profiled"].iloc[8]  # its queue would fill the profiler more than once
    patient = run(job(0, 0, 8, 20_000), *crowd, job(8, 20, 8, 3_000), profiling_scales=False)
    assert patient["profiled"].iloc[8]


def borrowing(**chosen):
    """VC a is full, VC b idle; three 8-GPU jobs of a come to a profiler of one node."""
    jobs = [
        job(0, 0, 24, 5_000, vc="a"),
        *[job(i, 10, 8, 3_000, vc="a") for i in range(1, 4)],
        job(4, 100, 32, 500, vc="b"),
    ]
    cluster = ClusterSpec({"a": 4, "b": 4}, 8)
    policy = Lucid(
        LucidSettings(
            profiling_nodes=1, profiling_share_max=0.2, profiling_scales=False, sharing="none", **chosen
        )
    )
    simulation = Simulation(Scenario(Workload(tuple(jobs), {}), cluster), policy)
    return simulation, policy


def test_the_profiler_borrows_idle_nodes_and_gives_them_back_when_they_are_needed():
    simulation, _ = borrowing()
    profiler, lender = simulation.pools[PROFILER], simulation.pools["b"]
    assert (profiler.total_gpus, lender.total_gpus) == (8, 32)
    simulation.run(until_s=10)
    # The first of the three has the profiler's node; two nodes are borrowed for the others.
    assert (profiler.total_gpus, lender.total_gpus) == (24, 16)
    assert len(profiler.running) == 3
    simulation.run(until_s=100)
    assert len(lender.queue) == 1
    simulation.run(until_s=210)
    jobs = simulation.jobs
    assert (profiler.total_gpus, lender.total_gpus) == (8, 32)
    ends = {view.start_time_s for view in jobs[4:]}
    assert max(ends) <= 210  # as soon as the profiling runs on its nodes were over
    simulation.run()
    assert simulation.completed == 5


def test_nothing_is_borrowed_where_it_is_not_allowed():
    for chosen in ({"borrowed_nodes_max": 0}, {"lender_idle_min": 4}):
        simulation, _ = borrowing(**chosen)
        simulation.run(until_s=10)
        assert simulation.pools[PROFILER].total_gpus == 8


def test_without_space_awareness_the_profiler_serves_by_submission():
    crowd = [job(0, 0, 8, 5_000), job(1, 10, 8, 1_000), job(2, 11, 8, 1_000), job(3, 12, 1, 1_000)]
    first = run(*crowd, profiling_scales=False)["first_start_time_s"].tolist()
    assert first == [0, 10, 410, 210]
    naive = run(*crowd, profiling_scales=False, profiling_order="submission")["first_start_time_s"].tolist()
    assert naive == [0, 10, 210, 410]


@pytest.mark.parametrize("duration", [1.0, 60.0, 5_000.0])
def test_an_idle_cluster_costs_nobody_anything(duration):
    workload = Workload(tuple(job(i, 600 * i, 1 + i % 8, duration) for i in range(20)), {})
    for cluster in (ClusterSpec({"vc": 40}), ClusterSpec({"vc": 20}), ClusterSpec({"vc": 12})):
        result = simulate(Scenario(workload, cluster), "lucid")
        assert result.summary["mean_jct_s"] == duration


@settings(max_examples=20, deadline=None)
@given(
    shape=st.sampled_from(["loaded", "burst", "gangs"]),
    seed=st.integers(0, 10_000),
    nodes=st.integers(1, 3),
    borrowed=st.integers(0, 6),
    idle=st.integers(0, 2),
    in_place=st.booleans(),
)
def test_the_books_balance_however_the_profiler_scales(shape, seed, nodes, borrowed, idle, in_place):
    workload, cluster = sample_workload(shape, seed, jobs=60)
    policy = Lucid(
        LucidSettings(
            profiling_share_max=0.3,
            profiling_nodes=nodes,
            borrowed_nodes_max=borrowed,
            lender_idle_min=idle,
            profiling_in_place=in_place,
        )
    )
    result = audited(Scenario(workload, cluster), policy, name="lucid")
    assert len(result.jobs) == 60
