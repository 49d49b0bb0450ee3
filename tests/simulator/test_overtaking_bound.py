"""Nobody starves: whoever has waited for too long gets nodes promised, and nobody delays the promise."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.cluster import ClusterSpec
from simulator.conformance import AuditedSimulation, check_overtaking, overtaken_gang
from simulator.job import Job
from simulator.mechanisms import overtaking_bound
from simulator.policies.registry import load_policy
from simulator.replay import simulate
from simulator.scenario import Scenario
from simulator.work_audit import ConformanceError
from simulator.workload import Workload

BOUNDED = ("clarity", "lucid", "qssf")


@pytest.fixture(autouse=True, scope="module")
def _never_saturated():
    """Estimates a hundred times too long make any queue look endless."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(overtaking_bound, "SATURATED_S", float("inf"))
        yield


class Promised(AuditedSimulation):
    """Writes down each promise when it is made, and what ran then."""

    def __init__(self, *args, **kwargs):
        self.made = {}
        super().__init__(*args, **kwargs)

    def step(self, until_s=float("inf")):
        """Look at the promises after each moment."""
        if not super().step(until_s):
            return False
        bound = self.policy.overtaking
        for pool in self.pools.values():
            longest, promises = pool.queue.longest_waiting(), bound.promises.get(pool.name, ())
            if longest is not None and self.now_s - longest.pending_since_s >= bound.bound_s:
                assert promises, f"{longest!r} is overdue at {self.now_s} s"
                assert longest in self.made or longest in [promise.job for promise in promises]
            for promise in promises:
                self.made.setdefault(promise.job, (self.now_s, list(pool.running)))
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


@pytest.mark.parametrize("name", BOUNDED)
@settings(max_examples=60, deadline=None)
@given(crowded(), st.sampled_from((1.0, 50.0, 400.0)))
def test_no_job_waits_longer_than_the_bound_and_the_drain_of_what_ran(name, made, bound_s):
    """A promise is kept once what ran when it was made has ended, and what was let in by then."""
    workload, cluster = made
    simulation = Promised(Scenario(workload, cluster), load_policy(name, {"overtaking_bound_s": bound_s}))
    simulation.run()
    for job, (made_s, ran) in simulation.made.items():
        drained_s = max([made_s, *(other.end_time_s for other in ran)])
        let_in = [
            other.end_time_s
            for other in simulation.jobs
            if other is not job and made_s <= other.first_start_time_s < drained_s
        ]
        assert job.first_start_time_s <= max([drained_s, *let_in])


@pytest.mark.parametrize("name", BOUNDED)
@settings(max_examples=60, deadline=None)
@given(crowded(), st.sampled_from((1.0, 50.0, 400.0)))
def test_where_no_job_outlives_its_estimate_a_promise_is_kept_to_the_second(name, made, bound_s):
    workload, cluster = made
    exact = replace(
        workload, jobs=tuple(replace(job, estimated_duration_s=job.duration_s) for job in workload.jobs)
    )
    simulation = Promised(Scenario(exact, cluster), load_policy(name, {"overtaking_bound_s": bound_s}))
    simulation.run()
    for job, (made_s, ran) in simulation.made.items():
        assert job.first_start_time_s <= max([made_s, *(other.end_time_s for other in ran)])


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
