"""Resize: a running job goes on with other GPUs, pays for it, and everything that counts GPUs knows."""

import json
from io import StringIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.errors import BadInputError
from simulator.actions import Colocate, Preempt, Resize, Start
from simulator.cluster.changes import NodeFailure
from simulator.cluster.placement import Placement
from simulator.cluster.spec import ClusterSpec
from simulator.conformance import AuditedSimulation
from simulator.engine.simulation import PolicyError, Simulation
from simulator.policies.fifo import Fifo
from simulator.policy import RunCosts
from simulator.recorders.timeline import TimelineRecorder
from simulator.recorders.usage import UsageRecorder
from simulator.scenario.initial_state import InitialState
from simulator.scenario.scenario import Scenario
from simulator.workload.job import Job
from simulator.workload.speed_up import Elasticity, SpeedUp
from simulator.workload.workload import Workload

CLUSTER = ClusterSpec({"vc": 2}, 4)
CURVE = SpeedUp((0.0, 1.0, 1.8, 2.4, 3.0))  # 4 GPUs are three times as fast as one
WORK_S = 300.0  # on one GPU: 100 s on four


def elastic(number, gpus=4, submit_s=0.0, work_s=WORK_S, curve=CURVE, least=1, **more):
    duration_s = work_s / curve.at(gpus)
    elasticity = Elasticity(work_s, curve, least)
    return Job(
        f"j{number}", "vc", "u", gpus, submit_s, duration_s, None, number, elasticity=elasticity, **more
    )


def rigid(number, gpus=4, submit_s=0.0, duration_s=50.0):
    return Job(f"j{number}", "vc", "u", gpus, submit_s, duration_s, None, number)


class Scripted(Fifo):
    """Starts and resizes as told: `script` maps a moment (s) to what is to be done with the jobs by name."""

    in_order = False
    arrivals_never_delay = False

    def __init__(self, script, resize_s=0.0, preemption_s=0.0):
        self.script = script
        self.costs = RunCosts(preemption_s=preemption_s, resize_s=resize_s)

    def decide(self, snapshot):
        (pool,) = snapshot.pools.values()
        jobs = {view.job.job_id: view for view in (*pool.running, *pool.queue)}
        return [make(jobs) for make in self.script.pop(snapshot.now_s, ())]

    def next_change_s(self, pool, now_s):
        return min(self.script, default=None)


def start(name, *placement):
    return lambda jobs: Start(jobs[name], Placement.of(placement))


def resize(name, *placement):
    return lambda jobs: Resize(jobs[name], Placement.of(placement))


def preempt(name):
    return lambda jobs: Preempt(jobs[name])


def simulated(jobs, script, changes=(), recorder=None, **costs):
    policy = Scripted(dict(script), **costs)
    simulation = AuditedSimulation(
        Scenario(Workload(tuple(jobs), {}), CLUSTER, changes=changes), policy, recorder=recorder
    )
    simulation.run()
    return simulation


def test_a_job_runs_as_fast_as_its_curve_says_for_the_gpus_that_it_holds():
    script = {0.0: [start("j0", (0, 1))], 90.0: [resize("j0", (0, 2))], 140.0: [resize("j0", (0, 2), (1, 2))]}
    view = simulated([elastic(0)], script).jobs[0]
    # 90 s at 1, 50 s at 1.8, and what is left at 3.
    assert view.end_time_s == pytest.approx(140 + (300 - 90 - 90) / 3)
    assert view.resizes == 2
    assert view.overhead_s == 0


def test_a_resize_costs_time_in_which_the_new_gpus_are_held():
    script = {0.0: [start("j0", (0, 1))], 90.0: [resize("j0", (0, 4))]}
    simulation = simulated([elastic(0)], script, resize_s=10.0)
    result = simulation.result()
    (row,) = result.jobs.itertuples()
    assert row.end_time_s == pytest.approx(90 + 10 + 70)
    assert (row.resizes, row.overhead_s, row.queuing_delay_s) == (1, 10.0, 0.0)
    held_gpu_s = 90 * 1 + 80 * 4
    assert result.summary["utilisation_pct"] == pytest.approx(100 * held_gpu_s / (8 * 170))
    assert result.summary["overhead_gpu_s"] == pytest.approx(4 * 10)
    assert result.summary["resizes"] == 1


def test_a_pause_that_is_cut_short_by_another_resize_begins_anew():
    script = {
        0.0: [start("j0", (0, 4))],
        30.0: [resize("j0", (0, 2))],
        34.0: [resize("j0", (1, 2))],  # moves, as many GPUs as before
    }
    view = simulated([elastic(0)], script, resize_s=10.0).jobs[0]
    assert view.end_time_s == pytest.approx(44 + (300 - 90) / 1.8)
    assert view.overhead_s == 14.0
    assert view.resizes == 2


def test_a_preempted_job_may_resume_on_fewer_gpus_and_pays_in_seconds():
    script = {0.0: [start("j0", (0, 4))], 40.0: [preempt("j0")], 50.0: [start("j0", (0, 1))]}
    view = simulated([elastic(0)], script, preemption_s=20.0).jobs[0]
    assert view.end_time_s == pytest.approx(50 + 20 + 180)
    assert view.overhead_s == 20.0
    assert view.queuing_delay_s == 10.0


def test_gpus_that_are_given_up_serve_others_at_the_same_moment():
    jobs = [elastic(0), rigid(1, gpus=6, submit_s=10.0)]
    script = {0.0: [start("j0", (0, 4))], 10.0: [resize("j0", (0, 2)), start("j1", (1, 4), (0, 2))]}
    simulation = simulated(jobs, script)
    assert [view.end_time_s for view in simulation.jobs] == [pytest.approx(10 + 270 / 1.8), 60.0]


def test_a_failed_node_costs_all_progress_wherever_else_the_job_runs():
    script = {0.0: [start("j0", (0, 2))], 50.0: [resize("j0", (0, 2), (1, 2))], 80.0: [start("j0", (0, 4))]}
    simulation = simulated([elastic(0)], script, [NodeFailure(80.0, "vc", 1, 500.0)], resize_s=5.0)
    view = simulation.jobs[0]
    assert (view.end_time_s, view.failures, view.lost_s, view.overhead_s) == (180.0, 1, 80.0, 0.0)
    assert simulation.result().summary["lost_gpu_s"] == pytest.approx(2 * 50 + 4 * 30)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ({0.0: [resize("j0", (0, 2))]}, "resizes"),  # it waits
        ({0.0: [start("j1", (0, 4))], 1.0: [resize("j1", (0, 2))]}, "must be elastic"),
        ({0.0: [start("j0", (0, 2))], 1.0: [resize("j0", (0, 1))]}, "runs on 2 to 4"),
        ({0.0: [start("j0", (0, 1))]}, "runs on 2 to 4"),
        ({0.0: [start("j0", (0, 2))], 1.0: [resize("j0", (0, 3), (1, 2))]}, "runs on 2 to 4"),
        ({0.0: [start("j0", (0, 2))], 1.0: [resize("j0", (0, 2))]}, "that it holds"),
        ({0.0: [start("j0", (0, 2))], 1.0: [resize("j0", (0, 2), (1, 0))]}, "no placement"),
        ({0.0: [start("j0", (0, 2))], 1.0: [resize("j0", (0, 2), (0, 1))]}, "no placement"),
        ({0.0: [start("j0", (0, 2)), start("j1", (1, 4))], 1.0: [resize("j0", (0, 2), (1, 1))]}, "taken"),
        ({0.0: [start("j0", (0, 2))], 1.0: [resize("j0", (7, 3))]}, "taken"),
        (
            {
                0.0: [start("j0", (0, 4)), lambda jobs: Colocate(jobs["j1"], jobs["j0"])],
                1.0: [resize("j0", (0, 2))],
            },
            "alone",
        ),
        (
            {0.0: [start("j0", (0, 2)), lambda jobs: Colocate(jobs["j1"], jobs["j0"])]},
            "on as many GPUs",
        ),
    ],
)
def test_what_cannot_be_is_refused(script, said):
    with pytest.raises(PolicyError, match=said):
        simulated([elastic(0, least=2), rigid(1)], script)


def test_recorders_see_a_slice_end_and_another_begin():
    usage, file = UsageRecorder(), StringIO()
    script = {0.0: [start("j0", (0, 1))], 90.0: [resize("j0", (0, 2))]}
    simulated([elastic(0)], script, recorder=usage)
    seen = usage.usage()
    assert list(zip(seen.at_s, seen.gpus_in_use, strict=True))[:2] == [(0.0, 1.0), (90.0, 2.0)]
    assert seen.gpus_in_use[-1] == 0
    assert set(seen.waiting_jobs) == {0.0}

    timeline = TimelineRecorder(file)
    simulated([elastic(0)], script, recorder=timeline)
    timeline.close()
    slices = [event for event in json.loads(file.getvalue())["traceEvents"] if event["ph"] == "X"]
    spans = sorted((event["ts"] / 1e6, event["dur"] / 1e6, event["tid"]) for event in slices)
    end_s = 90 + 210 / 1.8
    gpu_0, gpu_1 = 1, 3  # every second thread is for a job that shares
    assert spans == [
        (0, 90, gpu_0),
        (90, pytest.approx(end_s - 90, abs=1e-5), gpu_0),
        (90, pytest.approx(end_s - 90, abs=1e-5), gpu_1),
    ]
    said = [event["args"] for event in slices if "ended" in event["args"]]
    assert [(args["gpus"], args["ended"]) for args in said] == [(1, "resized"), (2, "completed")]


def test_a_job_without_enough_gpus_for_it_is_no_state_to_begin_with():
    simulation = Simulation(
        Scenario(Workload((elastic(0, least=2),), {}), CLUSTER), Scripted({0.0: [start("j0", (0, 3))]})
    )
    simulation.run(10.0)
    state = simulation.state()
    ahead = Simulation(Scenario(Workload((), {}), CLUSTER, initial=state), Fifo())
    ahead.run()
    assert ahead.jobs[0].end_time_s == pytest.approx(300 / 2.4)
    (view,) = state.running
    view.placement = Placement.of([(0, 1)])
    with pytest.raises(BadInputError, match="needs 2 to 4"):
        Simulation(Scenario(Workload((), {}), CLUSTER, initial=InitialState(10.0, running=(view,))), Fifo())


@pytest.mark.parametrize(
    ("job", "said"),
    [
        ({"duration_s": 99.0}, "speed-up curve"),
        ({"gpus": 2, "duration_s": 300 / 1.8, "least": 3}, "on 3 or more"),
    ],
)
def test_a_job_that_contradicts_its_curve_is_refused(job, said):
    least = job.pop("least", 1)
    made = {"gpus": 4, "duration_s": 100.0, **job}
    elasticity = Elasticity(WORK_S, CURVE, least)
    with pytest.raises(BadInputError, match=said):
        Workload((Job("j", "vc", "u", submit_time_s=0.0, elasticity=elasticity, **made),), {})


sizes = st.integers(1, 4)


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(st.tuples(st.integers(1, 40), sizes, sizes), max_size=8),
    first=sizes,
    resize_s=st.sampled_from([0.0, 3.0, 25.0]),
    curve=st.lists(st.floats(-0.2, 1.0), min_size=3, max_size=3),
)
def test_any_resizes_leave_all_of_the_work_done(steps, first, resize_s, curve):
    """The end follows from a walk over the segments; the audit checks nodes and work beside it."""
    speeds = [0.0, 1.0]
    for gain in curve:
        speeds.append(speeds[-1] + max(gain, -0.5 * speeds[-1]))
    shape = SpeedUp(tuple(speeds))
    script = {0.0: [start("j0", (0, first))]}
    held, moments, now_s = first, [], 0
    left, paused_until_s = 400.0, 0.0
    for gap, on_0, on_1 in steps:
        at = now_s + gap
        worked = max(0.0, at - max(now_s, paused_until_s)) * shape.at(held)
        placement = ((0, on_0),) if on_0 == on_1 or on_0 + on_1 > 4 else ((0, on_0), (1, on_1))
        count = sum(gpus for _, gpus in placement)
        if worked >= left:
            break
        if (moments and placement == moments[-1]) or (not moments and placement == ((0, first),)):
            continue
        left -= worked
        moments.append(placement)
        script[float(at)] = [resize("j0", *placement)]
        held, now_s, paused_until_s = count, at, max(paused_until_s, at + resize_s)
    end_s = max(now_s, paused_until_s) + left / shape.at(held)
    simulation = simulated([elastic(0, work_s=400.0, curve=shape)], script, resize_s=resize_s)
    view = simulation.jobs[0]
    assert view.end_time_s == pytest.approx(end_s)
    assert view.resizes == len(moments)
    assert view.attained_s == pytest.approx(end_s)
