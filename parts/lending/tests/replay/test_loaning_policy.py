"""Any policy, with servers of an inference service on loan to its virtual clusters."""

from bisect import bisect_right
from dataclasses import replace

import pandas as pd
import pytest

from parts.lending.replay.inference_service import InferenceService
from parts.lending.replay.loaning_policy import RESTART_S, LoaningPolicy
from parts.lending.replay.settings import LoanSettings
from simulator.cluster.spec import ClusterSpec
from simulator.conformance import AuditedSimulation, audited, check_work, sample_changes, sample_workload
from simulator.engine.simulation import Simulation
from simulator.policies.registry import load_policy, policy_names
from simulator.scenario.scenario import Scenario
from simulator.workload.job import Job
from simulator.workload.workload import Workload
from tests.policies import installed_policies

USAGE = [0.0, 0.3, 1.0, 0.5, 0.8, 0.3, 0.5, 1.0, 0.0, 0.8]


def sample(shape: str, usage: list[float]) -> Scenario:
    workload, cluster = sample_workload(shape, seed=1)
    service = InferenceService(10, [300.0 * bin_ for bin_ in range(len(usage))], usage, repeats=True)
    return Scenario(workload, cluster, changes=sample_changes(shape, 1, cluster), companions=(service,))


@pytest.mark.parametrize("shape", ["churn", "elastic"])
@pytest.mark.parametrize("name", policy_names())
def test_every_policy_keeps_its_books_and_inference_its_servers(name: str, shape: str) -> None:
    settings = (
        LoanSettings(reclaim="greedy") if shape == "churn" else LoanSettings(lend="demand", headroom=0.2)
    )
    headroom = 1 if shape == "churn" else 2
    scenario = sample(shape, USAGE)
    assert scenario.lender is not None
    simulation = AuditedSimulation(scenario, LoaningPolicy(load_policy(name), settings), name=name)
    on_loan_at: dict[float, int] = {}
    while simulation.step():
        on_loan = sum(len(pool.guests) for key, pool in simulation.pools.items() if key in "abc")
        on_loan_at[simulation.now_s] = on_loan
        needed = scenario.lender.servers_needed(simulation.now_s)
        assert on_loan <= max(0, 10 - needed - headroom)
    check_work(simulation.jobs, name)
    assert max(on_loan_at.values()) > 0
    steps = simulation.result().kept[InferenceService.key]
    told_at = [bisect_right(steps, at_s, key=lambda step: step[0]) - 1 for at_s in on_loan_at]
    assert [steps[at][1] for at in told_at] == list(on_loan_at.values())


@pytest.mark.parametrize("name", installed_policies("fifo", "lucid", "tiresias", "pcs"))
def test_without_an_inference_service_or_idle_servers_nothing_changes(name: str) -> None:
    scenario = replace(sample("loaded", [1.0]), changes=())
    plain = audited(replace(scenario, companions=()), load_policy(name), name=name).jobs
    for each in (scenario, replace(scenario, companions=())):
        jobs = audited(each, LoaningPolicy(load_policy(name)), name=name).jobs
        pd.testing.assert_frame_equal(jobs, plain)


def run(
    usage: list[float], jobs: list[Job], nodes: dict[str, int], *, checkpoints: bool = False
) -> Simulation:
    service = InferenceService(4, [300.0 * bin_ for bin_ in range(len(usage))], usage)
    scenario = Scenario(Workload(tuple(jobs), {}), ClusterSpec(nodes), companions=(service,))
    settings = LoanSettings(headroom=0.0)
    simulation = Simulation(
        scenario, LoaningPolicy(load_policy("fifo"), settings, checkpoints=checkpoints), name="fifo"
    )
    simulation.run()
    return simulation


@pytest.mark.parametrize(("checkpoints", "end_s"), [(False, 1200 + RESTART_S), (True, 900 + RESTART_S)])
def test_jobs_on_servers_that_go_back_queue_anew(checkpoints: bool, end_s: float) -> None:
    jobs = [Job("own", "a", None, 8, 0.0, 600.0), Job("guest", "a", None, 8, 0.0, 600.0)]
    simulation = run([0.75, 1.0], jobs, {"a": 1}, checkpoints=checkpoints)
    own, guest = simulation.jobs
    assert (own.end_time_s, guest.preemptions, guest.queuing_delay_s) == (600.0, 1, 300.0)
    # It ran on loan until 300 s, and goes on on the own server from 600 s.
    assert guest.end_time_s == end_s


def test_the_virtual_cluster_whose_jobs_lack_most_borrows_first() -> None:
    jobs = [
        Job("a", "a", None, 16, 0.0, 100.0),
        Job("b1", "b", None, 8, 0.0, 900.0),
        Job("b2", "b", None, 24, 0.0, 100.0),
    ]
    simulation = run([1.0, 0.0, 0.0], jobs, {"a": 2, "b": 3})
    assert [view.first_start_time_s for view in simulation.jobs] == [0.0, 0.0, 300.0]
