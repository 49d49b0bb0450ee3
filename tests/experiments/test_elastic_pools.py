"""Elastic jobs that ask for more GPUs than a pool has: served as far as it goes, none lost, none too many."""

import pytest
from hypothesis import given, settings

from experiments.artifact_rules.pcs_rules import PCS_ARTIFACT
from parts.elastic.allocation import Pool
from parts.elastic.engine import ElasticSimulation
from simulator.cluster.spec import ClusterSpec
from simulator.policies.registry import elastic_policy_names, load_policy
from simulator.replay import simulate
from simulator.scenario.rules import DEFAULT
from simulator.scenario.scenario import Scenario
from simulator.workload.workload import Workload
from tests.simulator.test_larger_than_the_cluster import (
    HALF_AS_FAST,
    Case,
    a_job,
    assert_all_accounted_for,
    cases,
)


@pytest.mark.parametrize("policy", elastic_policy_names())
@settings(max_examples=30)
@given(case=cases())
def test_in_pools_all_elastic_jobs_end_and_never_hold_more_than_there_is(policy: str, case: Case) -> None:
    fitting = case.workload.that_fit(ClusterSpec({"vc": 1}, case.gpus))
    simulation = ElasticSimulation(fitting, Pool(case.gpus), load_policy(policy, rules=PCS_ARTIFACT).rule)
    while simulation.step():
        assert sum(job.gpus for job in simulation.active) <= case.gpus * (1 + 1e-9)
    result = simulate(Scenario(case.workload, ClusterSpec({"vc": 1}, case.gpus), rules=PCS_ARTIFACT), policy)
    assert {job.job.job_id for job in simulation.ended} == set(result.jobs["job_id"])
    assert_all_accounted_for(case, result)


def test_fewer_gpus_take_longer_as_the_curve_says() -> None:
    job = a_job(0, 0.0, 4, 100.0, 0, HALF_AS_FAST)
    cluster = ClusterSpec({"vc": 1}, 2)
    for rules in (DEFAULT, PCS_ARTIFACT):
        result = simulate(Scenario(Workload((job,), {}), cluster, rules=rules), "srsf")
        assert result.jobs["jct_s"].tolist() == pytest.approx([100.0 * 2.5 / 1.5])
