"""No job starves: one that has waited for too long is served as EASY serves its first job."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.cluster.spec import ClusterSpec
from simulator.conformance import AuditedSimulation, check_overtaking, overtaken_gang
from simulator.policies.registry import load_policy
from simulator.replay import simulate
from simulator.scenario.scenario import Scenario
from simulator.work_audit import ConformanceError
from simulator.workload.job import Job
from simulator.workload.workload import Workload

BOUNDED = ("clarity", "lucid", "qssf")


class Reserved(AuditedSimulation):
    """Writes down when nodes are first reserved for a job, and what ran then."""

    def __init__(self, *args, **kwargs):
        self.made = {}
        super().__init__(*args, **kwargs)

    def step(self, until_s=float("inf")):
        """Look at the reservations after each moment."""
        if not super().step(until_s):
            return False
        bound = self.policy.overtaking
        for pool in self.pools.values():
            longest, next_job = pool.queue.longest_waiting(), bound.served_next.get(pool.name)
            if longest is not None and self.now_s - longest.pending_since_s >= bound.bound_s:
                assert next_job is longest, f"{longest!r} is overdue at {self.now_s} s"
            if next_job is not None:
                self.made.setdefault(next_job, (self.now_s, list(pool.running)))
        return True


@st.composite
def crowded(draw):
    """Jobs of all sizes on few nodes, more than these can serve; estimates are wrong either way."""
    nodes = draw(st.integers(1, 3))
    count = draw(st.integers(5, 40))
    jobs, now_s = [], 0
    for order in range(count):
        now_s += draw(st.integers(0, 40))
        duration_s = draw(st.integers(1, 300))
        jobs.append(
            Job(
                job_id=f"j{order}",
                virtual_cluster="vc",
                user="user",
                gpus=draw(st.integers(1, 8 * nodes)),
                submit_time_s=float(now_s),
                duration_s=float(duration_s),
                estimated_duration_s=duration_s * draw(st.sampled_from((0.01, 0.3, 1.0, 3.0, 100.0))),
                order=order,
            )
        )
    return Workload(tuple(jobs), {}), ClusterSpec({"vc": nodes}, 8)


@pytest.mark.parametrize("believed", ["estimates", "limits"])
@pytest.mark.parametrize("name", BOUNDED)
@settings(max_examples=60, deadline=None)
@given(made=crowded(), bound_s=st.sampled_from((1.0, 50.0, 400.0)))
def test_no_job_waits_longer_than_the_bound_and_the_drain_of_what_ran(name, believed, made, bound_s):
    """Where no job outlives its estimate, or its time limit, whatever its estimate is.

    Once it is the next to be served, a job starts at the latest when what ran then has ended.
    """
    workload, cluster = made
    if believed == "limits":
        jobs = tuple(replace(job, time_limit_s=job.duration_s) for job in workload.jobs)
    else:
        jobs = tuple(replace(job, estimated_duration_s=job.duration_s) for job in workload.jobs)
    scenario = Scenario(replace(workload, jobs=jobs), cluster)
    simulation = Reserved(scenario, load_policy(name, {"overtaking_bound_s": bound_s}))
    simulation.run()
    for job, (made_s, ran) in simulation.made.items():
        assert job.first_start_time_s <= max([made_s, *(other.end_time_s for other in ran)])


@pytest.mark.parametrize("name", BOUNDED)
@settings(max_examples=30, deadline=None)
@given(made=crowded(), bound_s=st.sampled_from((1.0, 50.0, 400.0)))
def test_wrong_estimates_move_a_reservation_and_lose_nobody(name, made, bound_s):
    workload, cluster = made
    simulation = Reserved(Scenario(workload, cluster), load_policy(name, {"overtaking_bound_s": bound_s}))
    simulation.run()
    assert simulation.result().summary["completed_jobs"] == len(workload)


@pytest.mark.parametrize("name", BOUNDED)
def test_a_gang_is_not_overtaken_for_ever(name):
    check_overtaking(lambda: load_policy(name, {"overtaking_bound_s": 3_600.0}), name=name)


@pytest.mark.parametrize("name", BOUNDED)
def test_without_a_bound_it_is(name):
    policy = load_policy(name, {"overtaking_bound_s": 0.0})
    assert policy.overtaking_bound_s == float("inf")
    workload, cluster = overtaken_gang(3_600.0)
    waits_s = simulate(Scenario(workload, cluster), policy).jobs.set_index("job_id")["queuing_delay_s"]
    policy.overtaking_bound_s = 3_600.0  # a policy that says so and does not keep it
    assert waits_s["gang"] > 3_600.0 + 2 * 180.0
    with pytest.raises(ConformanceError, match="bound on overtaking is 3600 s"):
        check_overtaking(lambda: policy, name=name)
