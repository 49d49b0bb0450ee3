"""Tests of jobs in workers: their speed, where they may be, restarts, and servers that are on loan."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from foundation.errors import BadInputError
from parts.lending.replay.inference_service import InferenceService
from simulator.actions import Action, Loan, PolicyError, Preempt, Resize, Start
from simulator.cluster import ClusterSpec
from simulator.engine import Simulation
from simulator.initial_state import PoolNodes
from simulator.job import Job
from simulator.job_view import JobView, RunState
from simulator.placement import NOWHERE, Placement
from simulator.policy import Policy, RunCosts
from simulator.scenario import Scenario
from simulator.snapshot import NodePool, Snapshot
from simulator.workers import Workers
from simulator.workload import Workload

Step = Callable[[Snapshot, NodePool], Sequence[Action]]


class Scripted(Policy):
    """Does as a test says, at the moments that it says."""

    costs = RunCosts(preemption_s=63.0, restart_s=63.0)

    def __init__(self, steps: dict[float, Step]) -> None:
        self.steps = dict(steps)

    def priority(self, job: JobView) -> Any:
        return job.index

    def decide(self, snapshot: Snapshot) -> Sequence[Action]:
        step = self.steps.pop(snapshot.now_s, None)
        return [] if step is None else step(snapshot, snapshot.pools["training"])

    def next_change_s(self, pool: NodePool, now_s: float) -> float | None:
        return min(self.steps, default=None)


def job(name: str = "a", *, hours_of_work: float = 1.0, submit_s: float = 0.0, **workers: Any) -> Job:
    """Return a job of 4-GPU workers, 1 to 3 unless said otherwise, with so much work at the least of them."""
    crew = Workers(**{"gpus_each": 4, "least": 1, "most": 3, **workers})
    work = hours_of_work * 3600 * crew.least
    return Job(name, "training", None, crew.gpus, submit_s, work / crew.rate(crew.most), workers=crew)


def service_of(simulation: Simulation) -> InferenceService:
    assert isinstance(simulation.lender, InferenceService)
    return simulation.lender


def played(steps: dict[float, Step], *jobs: Job, k: int = 3, **service: Any) -> Simulation:
    inference = InferenceService(3, (0.0,), (0.0,), loaned_workers_per_worker=k, **service)
    scenario = Scenario(Workload(jobs, {}), ClusterSpec({"training": 2}), companions=(inference,))
    simulation = Simulation(scenario, Scripted(steps))
    simulation.run()
    return simulation


def start(placement: Placement, flexible: Placement = (), *, lend: int = 0) -> Step:
    def step(snapshot: Snapshot, pool: NodePool) -> list[Action]:
        loans: list[Action] = [Loan(snapshot.pools["inference"], pool, node) for node in range(lend)]
        assert pool.queue.head() is not None
        return [*loans, Start(pool.queue.first, Placement.of(placement), flexible=Placement.of(flexible))]

    return step


def test_run_time_follows_the_workers_that_a_job_holds() -> None:
    one = played({0.0: start(((0, 4),))}, job())
    assert one.jobs[0].end_time_s == 3600
    three = played({0.0: start(((0, 8), (1, 4)), ((0, 4), (1, 4)))}, job())
    assert three.jobs[0].end_time_s == 1200
    lossy = played({0.0: start(((0, 8),), ((0, 4),))}, job(loss=0.2))
    assert lossy.jobs[0].end_time_s == pytest.approx(3600 / 1.8)
    tuned = played({0.0: start(((0, 8),), ((0, 4),))}, job(speed_ups=(1.0, 1.5, 1.7)))
    assert tuned.jobs[0].end_time_s == pytest.approx(2400)


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


def test_flexible_workers_come_and_go_without_cost() -> None:
    def grow(snapshot: Snapshot, pool: NodePool) -> list[Action]:
        (view,) = pool.running
        return [Resize(view, Placement.of([(0, 8)]), Placement.of([(0, 4)]))]

    def shrink(snapshot: Snapshot, pool: NodePool) -> list[Action]:
        (view,) = pool.running
        assert view.flexible == ((0, 4),)
        return [Resize(view, Placement.of([(0, 4)]))]

    simulation = played({0.0: start(((0, 4),)), 600.0: grow, 1200.0: shrink}, job())
    (view,) = simulation.jobs
    assert view.end_time_s == 3600 - 600
    assert view.flexible == ()
    assert view.resizes == 2


@pytest.mark.parametrize(("keeps_progress", "end_s"), [(True, 3663), (False, 1000 + 63 + 3600)])
def test_a_preempted_job_makes_no_progress_for_63_s_at_its_next_start(
    keeps_progress: bool, end_s: float
) -> None:
    def preempt(snapshot: Snapshot, pool: NodePool) -> list[Action]:
        (view,) = pool.running
        return [Preempt(view, keeps_progress), Start(view, Placement.of([(1, 4)]))]

    (view,) = played({0.0: start(((0, 4),)), 1000.0: preempt}, job()).jobs
    assert view.end_time_s == pytest.approx(end_s)
    assert view.overhead_s == 63
    assert view.preemptions == 1


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


def test_a_job_asks_for_all_of_its_workers() -> None:
    with pytest.raises(BadInputError, match="most x gpus_each"):
        Workload((Job("a", "training", None, 4, 0.0, 60.0, workers=Workers(4, 1, 2)),), {})
    with pytest.raises(BadInputError, match="2 to 1 workers"):
        Workers(4, 2, 1)
    with pytest.raises(BadInputError, match="speed-ups"):
        Workers(4, 1, 3, speed_ups=(1.0, 1.5))


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
