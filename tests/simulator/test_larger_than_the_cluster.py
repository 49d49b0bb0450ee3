"""Elastic jobs that ask for more GPUs than there are: served as far as it goes, none lost, none too many."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.cluster.changes import SizeChange
from simulator.cluster.spec import ClusterSpec
from simulator.conformance import AuditedSimulation
from simulator.policies.registry import elastic_policy_names, load_policy
from simulator.replay import simulate
from simulator.scenario.scenario import Scenario
from simulator.workload.job import Job
from simulator.workload.skip_rules import BIGGER_THAN_VIRTUAL_CLUSTER
from simulator.workload.speed_up import Elasticity, SpeedUp
from simulator.workload.workload import Workload

HALF_AS_FAST = SpeedUp((0.0, 1.0, 1.5, 2.0, 2.5))


def a_job(
    number: int,
    submit_s: float,
    gpus: int,
    duration_s: float,
    least: int | None,
    curve: SpeedUp | None = None,
) -> Job:
    """An elastic job, or with `least` None a rigid one."""
    curve = curve or SpeedUp.linear(gpus)
    elasticity = None if least is None else Elasticity(duration_s * curve.at(gpus), curve, least)
    return Job(f"j{number}", "vc", "u", gpus, submit_s, duration_s, duration_s, number, elasticity=elasticity)


@dataclass(frozen=True)
class Case:
    workload: Workload
    gpus: int

    @property
    def too_large(self) -> set[str]:
        """The jobs that need more than there is."""
        return {
            job.job_id
            for job in self.workload.jobs
            if (job.gpus if job.elasticity is None else job.elasticity.min_gpus) > self.gpus
        }


@st.composite
def cases(draw: st.DrawFn) -> Case:
    gpus = draw(st.integers(1, 8))
    jobs, now_s = [], 0.0
    for number in range(draw(st.integers(1, 12))):
        now_s += draw(st.sampled_from([0.0, 0.0, 1.0, 30.0, 500.0]))
        demand = draw(st.integers(1, 3 * gpus))
        least = draw(st.sampled_from([0, 0, 0, 1, demand, None]))
        curve = draw(st.sampled_from([None, HALF_AS_FAST]))
        jobs.append(a_job(number, now_s, demand, draw(st.floats(0.5, 900.0)), least, curve))
    return Case(Workload(tuple(jobs), {}), gpus)


@pytest.mark.parametrize("policy", ["fifo", "easy", *elastic_policy_names()])
@settings(max_examples=30)
@given(case=cases())
def test_on_nodes_too_whether_a_policy_resizes_or_not(policy: str, case: Case) -> None:
    cluster = ClusterSpec({"vc": 1}, case.gpus)
    simulation = AuditedSimulation(Scenario(case.workload, cluster), load_policy(policy, {}), name=policy)
    simulation.run()
    assert_all_accounted_for(case, simulation.result())


def assert_all_accounted_for(case: Case, result) -> None:
    left_out = {job.job_id for job in case.workload.jobs} - set(result.jobs["job_id"])
    assert left_out == case.too_large
    assert result.summary["skipped"].get(BIGGER_THAN_VIRTUAL_CLUSTER, 0) == len(left_out)
    assert result.jobs["end_time_s"].notna().all()


def test_fewer_gpus_take_longer_as_the_curve_says() -> None:
    job = a_job(0, 0.0, 4, 100.0, 0, HALF_AS_FAST)
    cluster = ClusterSpec({"vc": 1}, 2)
    result = simulate(Scenario(Workload((job,), {}), cluster), "fifo")
    assert result.jobs["jct_s"].tolist() == pytest.approx([100.0 * 2.5 / 1.5])


def test_a_cluster_that_grows_later_gives_all_that_it_will_have() -> None:
    job = a_job(0, 0.0, 16, 100.0, 1)
    grows = (SizeChange(50.0, "vc", 2),)
    (capped,) = Workload((job,), {}).capped(ClusterSpec({"vc": 1}, 4), grows).jobs
    assert (capped.gpus, capped.duration_s, capped.estimated_duration_s) == (8, 200.0, 200.0)
    late = replace(job, submit_time_s=60.0)
    shrinks = (SizeChange(50.0, "vc", 1),)
    (capped,) = Workload((late,), {}).capped(ClusterSpec({"vc": 2}, 4), shrinks).jobs
    assert capped.gpus == 4
