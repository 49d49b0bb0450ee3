"""Tests of jobs in workers beside an inference service: where they may be, their speed on its servers."""

from dataclasses import replace
from typing import Any

import pytest

from foundation.errors import BadInputError
from parts.lending.replay.inference_service import InferenceService
from simulator.actions import PolicyError
from simulator.cluster.placement import NOWHERE, Placement
from simulator.cluster.spec import ClusterSpec
from simulator.engine.simulation import Simulation
from simulator.job_view import JobView, RunState
from simulator.replay import simulate
from simulator.scenario.initial_state import PoolNodes
from simulator.scenario.scenario import Scenario
from simulator.snapshot import NodePool
from simulator.workload.job import Job
from simulator.workload.skip_rules import BIGGER_THAN_VIRTUAL_CLUSTER
from simulator.workload.workers import Workers
from simulator.workload.workload import Workload
from tests.simulator.scripted_workers import Scripted, Step, job, start


def service_of(simulation: Simulation) -> InferenceService:
    assert isinstance(simulation.lender, InferenceService)
    return simulation.lender


def played(steps: dict[float, Step], *jobs: Job, k: int = 3, **service: Any) -> Simulation:
    inference = InferenceService(3, (0.0,), (0.0,), loaned_workers_per_worker=k, **service)
    scenario = Scenario(Workload(jobs, {}), ClusterSpec({"training": 2}), companions=(inference,))
    simulation = Simulation(scenario, Scripted(steps))
    simulation.run()
    return simulation


def test_three_loaned_workers_do_the_work_of_one() -> None:
    loaned = played({0.0: start(((2, 8), (3, 4)), lend=2)}, job(loanable=True))
    assert loaned.jobs[0].end_time_s == 3600
    as_fast = played({0.0: start(((2, 4),), lend=1)}, job(loanable=True), k=1)
    assert as_fast.jobs[0].end_time_s == 3600


def test_a_heterogeneous_job_on_both_kinds_of_servers_runs_at_the_mixed_speed() -> None:
    mixed = start(((0, 4), (2, 8), (3, 4)), ((2, 8), (3, 4)), lend=2)
    assert played({0.0: mixed}, job(heterogeneous=True)).jobs[0].end_time_s == pytest.approx(3600 / 1.4)
    ideal = played({0.0: mixed}, job(heterogeneous=True), mixed_speed=1.0)
    assert ideal.jobs[0].end_time_s == pytest.approx(1800)


@pytest.mark.parametrize(
    ("step", "workers", "says"),
    [
        (start(((0, 2),)), {}, "2 GPUs on server 0 are no workers of 4 GPUs"),
        (start(((0, 4),)), {"least": 2}, "1 base workers of 1"),
        (start(((0, 8),), ((0, 4),)), {"least": 2}, "1 base workers of 2"),
        (start(((0, 8), (1, 8))), {}, "of 4 in all; it runs on 1 to 3"),
        (start(((0, 4),), ((1, 4),)), {}, "more flexible workers than workers"),
        (start(((2, 8), (3, 4)), lend=2), {}, "may not run on loaned servers"),
        (start(((2, 8),), lend=2), {"loanable": True}, "0.666667 base workers"),
        (start(((0, 4), (2, 8), (3, 4)), lend=2), {"loanable": True}, "own and on loaned servers at once"),
    ],
)
def test_workers_are_only_where_they_may_be(step: Step, workers: dict[str, Any], says: str) -> None:
    with pytest.raises(PolicyError, match=says):
        played({0.0: step}, job(**workers))


def test_a_state_keeps_loans_and_flexible_workers() -> None:
    steps = {0.0: start(((2, 8), (3, 4)), ((3, 4),), lend=2)}
    inference = InferenceService(3, (0.0,), (0.0,), loaned_workers_per_worker=1)
    scenario = Scenario(
        Workload((job(loanable=True),), {}), ClusterSpec({"training": 2}), companions=(inference,)
    )
    simulation = Simulation(scenario, Scripted(steps))
    simulation.run(100.0)
    state = simulation.state()
    assert state.running[0].flexible == ((3, 4),)
    resumed = Simulation(
        Scenario(
            Workload((), {}),
            simulation.cluster,
            companions=(inference,),
            initial=state,
        ),
        Scripted({}),
    )
    assert sorted(resumed.pools["training"].guests) == [2, 3]
    resumed.run()
    assert resumed.jobs[0].state is RunState.COMPLETED
    assert resumed.jobs[0].end_time_s == 1200


def test_an_inference_service_has_a_name_of_its_own() -> None:
    service = InferenceService(1, (0.0,), (0.0,), name="training")
    scenario = Scenario(Workload((), {}), ClusterSpec({"training": 2}), companions=(service,))
    with pytest.raises(BadInputError, match="another name"):
        Simulation(scenario, Scripted({}))


@pytest.mark.parametrize(
    ("placement", "flexible", "says"),
    [
        (((0, 4), (2, 4)), (), "own and on loaned servers at once"),
        (((2, 8),), (), "0.666667 base workers"),
        (((0, 8),), ((0, 8),), "0 base workers"),
        (((0, 6),), (), "no workers of 4 GPUs"),
    ],
)
def test_a_state_in_which_a_job_runs_where_its_workers_cannot_be_is_refused(
    placement: Placement, flexible: Placement, says: str
) -> None:
    began = played({0.0: start(((2, 8), (3, 4)), lend=2)}, job(loanable=True))
    state = Simulation(
        Scenario(Workload((), {}), began.cluster, companions=(service_of(began),)),
        Scripted({}),
    ).state()
    view = JobView(job(loanable=True), 0)
    view.pool, view.state = "training", RunState.RUNNING
    view.placement, view.flexible = Placement.of(placement), Placement.of(flexible)
    guests = {2: ("inference", 0), 3: ("inference", 1)}
    nodes = {**state.nodes, "training": PoolNodes(4, 8, guests=guests)}
    initial = replace(state, running=(view,), nodes=nodes)
    scenario = Scenario(
        Workload((), {}),
        began.cluster,
        companions=(service_of(began),),
        initial=initial,
    )
    with pytest.raises(BadInputError, match=says):
        Simulation(scenario, Scripted({}))
    view.placement, view.flexible = Placement.of([(2, 8), (3, 4)]), NOWHERE
    assert Simulation(scenario, Scripted({})).jobs[0].held_gpus == 12


@pytest.mark.parametrize("repeats", [True, False])
def test_a_job_that_a_policy_never_starts_ends_a_replay_beside_an_inference_service(repeats: bool) -> None:
    class Idles(Scripted):
        def next_change_s(self, pool: NodePool, now_s: float) -> float | None:
            return now_s + 300.0

    service = InferenceService(3, (0.0, 300.0, 90_000.0), (0.5, 0.0, 1.0), repeats=repeats)
    scenario = Scenario(Workload((job(),), {}), ClusterSpec({"training": 2}), companions=(service,))
    simulation = Simulation(scenario, Idles({}))
    simulation.run()
    assert 90_000 < simulation.now_s < 500_000
    with pytest.raises(PolicyError, match="left 1 of 1 jobs incomplete"):
        simulation.result()
    late = Simulation(scenario, Idles({90_000.0: start(((0, 4),))}))
    late.run()
    assert late.jobs[0].end_time_s == 93_600


@pytest.mark.parametrize(
    ("gpus_each", "least", "starts"),
    [(8, 2, True), (9, 1, False), (5, 2, True), (5, 3, False), (4, 4, True), (4, 5, False)],
)
def test_a_worker_needs_one_node_for_itself(gpus_each: int, least: int, starts: bool) -> None:
    workers = Workers(gpus_each, least, least)
    job = Job("j", "vc", "u", workers.gpus, 0.0, 50.0, 50.0, workers=workers)
    service = InferenceService(4, (0.0,), (0.5,))
    scenario = Scenario(Workload((job,), {}), ClusterSpec({"vc": 2}), companions=(service,))
    result = simulate(scenario, "lyra")
    assert (result.summary["jobs"] == 1) == starts
    assert result.summary["skipped"] == ({} if starts else {BIGGER_THAN_VIRTUAL_CLUSTER: 1})
