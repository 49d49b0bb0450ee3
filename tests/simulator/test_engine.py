"""The engine's order of events, and what it refuses."""

import gc
import weakref

import pytest

from simulator.cluster.spec import ClusterSpec
from simulator.conformance import sample_workload
from simulator.engine.simulation import Simulation
from simulator.policies.registry import load_policy
from simulator.replay import simulate
from simulator.scenario.scenario import Scenario
from simulator.workload.job import Job
from simulator.workload.skip_rules import BIGGER_THAN_VIRTUAL_CLUSTER
from simulator.workload.workload import Workload
from tests.policies import installed_policies


def workload(*jobs: tuple[float, int, float], virtual_cluster: str = "vc") -> Workload:
    """Jobs as (submit_time_s, gpus, duration_s); the estimate is the truth."""
    return Workload(
        tuple(
            Job(f"j{i}", virtual_cluster, "u", gpus, submit, duration, duration, order=i)
            for i, (submit, gpus, duration) in enumerate(jobs)
        ),
        {},
    )


def starts(result) -> list[float]:
    return result.jobs["first_start_time_s"].tolist()


def test_gpus_freed_at_t_serve_jobs_submitted_at_t():
    result = simulate(Scenario(workload((0, 8, 100), (100, 8, 5)), ClusterSpec({"vc": 1})), "fifo")
    assert starts(result) == [0, 100]
    assert result.summary["mean_queuing_delay_s"] == 0
    assert result.summary["makespan_s"] == 105
    assert result.summary["utilisation_pct"] == pytest.approx(100)


def test_the_first_job_that_does_not_fit_holds_up_the_rest():
    result = simulate(Scenario(workload((0, 5, 10), (1, 8, 10), (2, 1, 10)), ClusterSpec({"vc": 1})), "fifo")
    assert starts(result) == [0, 10, 20]


def test_a_job_bigger_than_its_virtual_cluster_is_left_out_and_counted():
    result = simulate(Scenario(workload((0, 9, 10), (1, 8, 10)), ClusterSpec({"vc": 1})), "fifo")
    assert result.jobs["job_id"].tolist() == ["j1"]
    assert result.summary["skipped"] == {BIGGER_THAN_VIRTUAL_CLUSTER: 1}


def test_virtual_clusters_do_not_wait_for_each_other():
    jobs = (*workload((0, 8, 100)).jobs, Job("other", "b", "u", 8, 1, 5, 5, order=1))
    result = simulate(Scenario(Workload(jobs, {}), ClusterSpec({"vc": 1, "b": 1})), "fifo")
    assert starts(result) == [0, 1]


@pytest.mark.parametrize("name", installed_policies("fifo", "lucid", "pcs"))
def test_a_finished_simulation_goes_at_once(name):
    """With gigabytes of jobs, none may wait for the garbage collector."""
    workload, cluster = sample_workload("quiet", seed=1, jobs=20)
    gc.disable()
    try:
        simulation = Simulation(Scenario(workload, cluster), load_policy(name))
        simulation.run()
        gone = weakref.ref(simulation)
        del simulation
        assert gone() is None
    finally:
        gc.enable()
