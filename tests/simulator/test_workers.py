"""Tests of jobs in workers: their speed, flexible workers, and restarts."""

import pytest

from foundation.errors import BadInputError
from simulator.actions import Action, Preempt, Resize, Start
from simulator.cluster.placement import Placement
from simulator.cluster.spec import ClusterSpec
from simulator.engine.simulation import Simulation
from simulator.scenario.scenario import Scenario
from simulator.snapshot import NodePool, Snapshot
from simulator.workload.job import Job
from simulator.workload.workers import Workers
from simulator.workload.workload import Workload
from tests.simulator.scripted_workers import Scripted, Step, job, start


def played(steps: dict[float, Step], *jobs: Job) -> Simulation:
    simulation = Simulation(Scenario(Workload(jobs, {}), ClusterSpec({"training": 2})), Scripted(steps))
    simulation.run()
    return simulation


def test_run_time_follows_the_workers_that_a_job_holds() -> None:
    one = played({0.0: start(((0, 4),))}, job())
    assert one.jobs[0].end_time_s == 3600
    three = played({0.0: start(((0, 8), (1, 4)), ((0, 4), (1, 4)))}, job())
    assert three.jobs[0].end_time_s == 1200
    lossy = played({0.0: start(((0, 8),), ((0, 4),))}, job(loss=0.2))
    assert lossy.jobs[0].end_time_s == pytest.approx(3600 / 1.8)
    tuned = played({0.0: start(((0, 8),), ((0, 4),))}, job(speed_ups=(1.0, 1.5, 1.7)))
    assert tuned.jobs[0].end_time_s == pytest.approx(2400)


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


def test_a_job_asks_for_all_of_its_workers() -> None:
    with pytest.raises(BadInputError, match="most x gpus_each"):
        Workload((Job("a", "training", None, 4, 0.0, 60.0, workers=Workers(4, 1, 2)),), {})
    with pytest.raises(BadInputError, match="2 to 1 workers"):
        Workers(4, 2, 1)
    with pytest.raises(BadInputError, match="speed-ups"):
        Workers(4, 1, 3, speed_ups=(1.0, 1.5))
