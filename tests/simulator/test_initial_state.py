"""A simulation that begins in a cluster that is in use: cut anywhere, it goes on as if it had not been."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.errors import BadInputError, UnknownNameError
from simulator.cluster.placement import Placement
from simulator.cluster.spec import ClusterSpec
from simulator.conformance import SHAPES, SHARED, AuditedSimulation, sample_changes, sample_workload
from simulator.engine.simulation import Simulation
from simulator.job_view import JobView, RunState
from simulator.policies.registry import load_policy, policy_names
from simulator.replay import simulate
from simulator.scenario.initial_state import InitialState, PoolNodes
from simulator.scenario.rules import load_rules
from simulator.scenario.scenario import Scenario
from simulator.stages.profiler import PROFILER
from simulator.workload.colocation import SummedUtilisation
from simulator.workload.job import Job, JobProfile
from simulator.workload.workload import Workload


def outcome(view):
    return (
        view.first_start_time_s,
        view.start_time_s,
        view.end_time_s,
        view.queuing_delay_s,
        view.attained_s,
    )


def cut_and_resumed(name, workload, cluster, changes, moment_s, rules="default"):
    """Return (uncut outcomes, outcomes of the run that was cut) by job."""
    scenario = Scenario(
        workload, cluster, rules=load_rules(rules), changes=changes, colocation=SummedUtilisation()
    )
    whole = Simulation(scenario, load_policy(name))
    whole.run()
    first = Simulation(scenario, load_policy(name))
    first.run(moment_s)
    state = first.state()
    later = tuple(job for job in workload.jobs if job.submit_time_s > first.now_s)
    rest = replace(scenario, workload=replace(workload, jobs=later), cluster=first.cluster, initial=state)
    second = AuditedSimulation(rest, load_policy(name), name=name)
    second.run()
    over = [v for v in first.jobs if v.state in (RunState.COMPLETED, RunState.CANCELLED)]
    assert len(over) + len(second.jobs) == len(whole.jobs)
    got = {view.job.job_id: outcome(view) for view in (*over, *second.jobs)}
    return {view.job.job_id: outcome(view) for view in whole.jobs}, got


@pytest.mark.slow
@pytest.mark.parametrize("name", policy_names())
@settings(max_examples=12, deadline=None)
@given(
    shape=st.sampled_from(SHAPES), seed=st.integers(0, 50), where=st.floats(0, 1.5), on_event=st.booleans()
)
def test_a_run_that_is_cut_goes_on_exactly_as_the_uncut_one(name, shape, seed, where, on_event):
    workload, cluster = sample_workload(shape, seed, jobs=80)
    jobs = workload.jobs
    moment_s = where * jobs[-1].submit_time_s
    if on_event:
        moment_s = jobs[int(where / 1.5 * (len(jobs) - 1))].submit_time_s
    whole, resumed = cut_and_resumed(name, workload, cluster, sample_changes(shape, seed, cluster), moment_s)
    assert resumed == whole


@pytest.mark.parametrize(("name", "rules"), [("srtf", "lucid-artifact"), ("tiresias", "lucid-artifact")])
@pytest.mark.parametrize("moment_s", [100.0, 777.7, 3_000.0])
def test_completion_times_and_steps_of_other_rules_go_on_too(name, rules, moment_s):
    workload, cluster = sample_workload("loaded", 4)
    whole, resumed = cut_and_resumed(name, workload, cluster, (), moment_s, rules)
    assert resumed == whole


@pytest.mark.parametrize("name", [name for name in policy_names() if load_policy(name).unequal_nodes])
@pytest.mark.parametrize("moment_s", [100.0, 777.7, 3_000.0])
def test_nodes_that_are_shared_or_differ_in_size_go_on_too(name, moment_s):
    workload, cluster = sample_workload(SHARED, 4)
    failures = sample_changes(SHARED, 4, cluster)
    whole, resumed = cut_and_resumed(name, workload, cluster, failures, moment_s)
    assert resumed == whole


@pytest.mark.parametrize("name", ["fair_share", "lucid", "clarity", "tsafrir_easy"])
def test_without_what_the_policy_remembered_every_job_still_ends(name):
    """As after a restart: what is remembered is made anew of what is to be seen."""
    workload, cluster = sample_workload("loaded", 1)
    first = Simulation(Scenario(workload, cluster), load_policy(name))
    first.run(1_500)
    later = tuple(job for job in workload.jobs if job.submit_time_s > first.now_s)
    second = AuditedSimulation(
        Scenario(replace(workload, jobs=later), first.cluster, initial=replace(first.state(), history=None)),
        load_policy(name),
        name=name,
    )
    second.run()
    assert all(view.state is RunState.COMPLETED for view in second.jobs)


@pytest.mark.parametrize("name", ["lucid", "clarity"])
def test_a_state_is_there_while_jobs_are_overdue(name):
    workload, cluster = sample_workload("loaded", seed=1, jobs=200)
    policy = load_policy(name, {"overtaking_bound_s": 600.0})
    simulation = Simulation(Scenario(workload, cluster), policy)
    overdue = 0
    while simulation.step():
        simulation.state()
        overdue += bool(policy.overtaking.memory()[1])
    assert overdue > 10


def test_a_state_can_be_used_any_number_of_times_and_the_first_simulation_goes_on():
    workload, cluster = sample_workload("loaded", 2)
    first = Simulation(Scenario(workload, cluster), load_policy("qssf"))
    first.run(500)
    state = first.state()
    later = replace(workload, jobs=tuple(job for job in workload.jobs if job.submit_time_s > first.now_s))

    def ends():
        simulation = Simulation(Scenario(later, cluster, initial=state), load_policy("qssf"))
        simulation.run()
        return [view.end_time_s for view in simulation.jobs]

    assert ends() == ends()
    first.run()
    assert [view.end_time_s for view in first.jobs[-len(later.jobs) :]] == ends()[-len(later.jobs) :]


# -- states that are made by hand, as a live scheduler does --------------------------------------------------


def job(number, gpus, duration_s, submit_s=0.0, estimate_s=None, vc="vc", **more):
    estimate_s = duration_s if estimate_s is None else estimate_s
    return Job(
        f"j{number}", vc, "u", gpus, float(submit_s), float(duration_s), float(estimate_s), number, **more
    )


def runs(a_job, index, placement, elapsed_s, pool="vc"):
    view = JobView(a_job, index)
    view.pool, view.placement = pool, Placement.of(placement)
    view.state = RunState.RUNNING
    view.start_time_s = view.first_start_time_s = -float(elapsed_s)
    view.attained_s = float(elapsed_s)
    view.remaining_s = a_job.duration_s - elapsed_s
    return view


def waits(a_job, index, pool="vc"):
    view = JobView(a_job, index)
    view.pool, view.state = pool, RunState.PENDING
    return view


NO_JOBS = Workload((), {})
CLUSTER = ClusterSpec({"vc": 2}, 4)


def played(state, cluster=CLUSTER, policy="fifo", workload=NO_JOBS):
    simulation = Simulation(Scenario(workload, cluster, initial=state), load_policy(policy))
    simulation.run()
    return {view.job.job_id: (view.first_start_time_s, view.end_time_s) for view in simulation.jobs}


def test_running_jobs_end_when_their_work_is_done_and_free_their_gpus():
    state = InitialState(
        0.0,
        running=(runs(job(0, 4, 100, -60), 0, ((0, 4),), 60), runs(job(1, 2, 50, -20), 1, ((1, 2),), 10)),
        waiting=(waits(job(2, 4, 30, -50), 2), waits(job(3, 2, 30, -40), 3)),
    )
    assert played(state) == {"j0": (-60, 40), "j1": (-10, 40), "j2": (40, 70), "j3": (40, 70)}
    # Shortest first: the small one goes ahead at once.
    assert played(state, policy="qssf")["j3"] == (0, 30)


def test_the_queue_is_served_in_the_order_of_submission_before_second_0():
    state = InitialState(0.0, waiting=(waits(job(9, 8, 10, -5), 9), waits(job(4, 8, 10, -50), 4)))
    assert played(state) == {"j4": (0, 10), "j9": (10, 20)}


def test_taken_gpus_and_closed_nodes_are_nobodys():
    nodes = {"vc": PoolNodes(3, 4, taken=((0, 2),), closed={1: frozenset({"down"})})}
    state = InitialState(
        0.0,
        waiting=(waits(job(0, 4, 10, -9), 0), waits(job(1, 4, 10, -8), 1), waits(job(2, 2, 10, -7), 2)),
        nodes=nodes,
    )
    assert played(state) == {"j0": (0, 10), "j1": (10, 20), "j2": (10, 20)}
    # A job on a closed node runs on, and no other gets its GPUs afterwards.
    state = replace(state, running=(runs(job(7, 4, 30, -20), 7, ((1, 4),), 20),))
    assert played(state) == {"j0": (0, 10), "j1": (10, 20), "j2": (10, 20), "j7": (-20, 10)}


def test_a_pool_may_have_nodes_of_another_size():
    state = InitialState(0.0, waiting=(waits(job(0, 4, 10, -9), 0),), nodes={"vc": PoolNodes(2, 2)})
    assert played(state, ClusterSpec({"vc": 2}, 8)) == {"j0": (0, 10)}


def test_a_run_with_a_limit_goes_on_in_the_profiler_and_its_job_queues_at_home():
    cluster = ClusterSpec({"vc": 1}, 4, partitions={PROFILER: 1})
    profile = JobProfile(50, 20, 1_000, sharing_score=1)
    measured = runs(job(0, 2, 500, -60, profile=profile), 0, ((0, 2),), 60, PROFILER)
    measured.run_limit_s, measured.profiled = 200.0, True
    at_home = runs(job(1, 4, 300, -10), 1, ((0, 4),), 10)
    state = InitialState(0.0, running=(measured, at_home))
    ends = played(state, cluster, "lucid")
    assert ends == {"j0": (-60, 790), "j1": (-10, 290)}  # all of its work is still to do, once j1 has ended


def test_a_pair_goes_on_at_the_speed_of_a_pair():
    pair = [runs(job(i, 4, 100, -20), i, ((0, 4),), 20) for i in (0, 1)]
    for view, other in (pair, pair[::-1]):
        view.partner, view.speed, view.was_colocated = other, 0.5, True
        view.remaining_s = 90.0
    pair[1].joined = True
    pair[1].remaining_s = 50.0
    state = InitialState(0.0, running=tuple(pair), waiting=(waits(job(2, 4, 10, -5), 2),))
    # j1 has ended after 100 s; j0 has 40 s left by then, alone at full speed.
    cluster = ClusterSpec({"vc": 1}, 4)
    assert played(state, cluster) == {"j0": (-20, 140), "j1": (-20, 100), "j2": (140, 150)}


def test_no_more_nodes_are_set_aside_of_a_cluster_that_is_in_use():
    simulation = Simulation(
        Scenario(
            NO_JOBS,
            ClusterSpec({"vc": 40}, 8),
            initial=InitialState(0.0, waiting=(waits(job(0, 1, 10, -5), 0),)),
        ),
        load_policy("lucid"),
    )
    assert not simulation.cluster.partitions
    simulation.run()
    assert simulation.jobs[0].end_time_s == 10


def test_new_jobs_are_submitted_while_it_goes_on():
    state = InitialState(100.0, running=(runs(job(0, 8, 50, 60), 0, ((0, 4), (1, 4)), 0),))
    state.running[0].start_time_s = state.running[0].run_since_s = 90.0
    later = Workload((job(1, 4, 10, 100), job(2, 8, 10, 105)), {})
    assert played(state, workload=later)["j1"] == (140, 150)
    result = simulate(Scenario(later, CLUSTER, initial=state), "fifo")
    assert result.jobs["job_id"].tolist() == ["j0", "j1", "j2"]
    assert result.jobs["queuing_delay_s"].tolist() == [0, 40, 45]


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (
            InitialState(0.0, running=(runs(job(0, 4, 9, -5), 0, ((0, 2),), 5),)),
            "runs on 2 GPUs, and needs 4",
        ),
        (InitialState(0.0, running=(runs(job(0, 4, 9, -5), 0, ((7, 4),), 5),)), "not there"),
        (
            InitialState(0.0, running=tuple(runs(job(i, 4, 9, -5), i, ((0, 4),), 5) for i in (0, 1))),
            "j1",
        ),
        (InitialState(0.0, running=(runs(job(0, 4, 9, -5), 0, ((0, 4),), 5, "elsewhere"),)), "elsewhere"),
        (InitialState(0.0, waiting=(waits(job(0, 4, 9, -5), 0, "elsewhere"),)), "elsewhere"),
    ],
)
def test_a_state_that_cannot_be_is_refused(state, said):
    with pytest.raises((BadInputError, UnknownNameError), match=said):
        played(state)


def test_nothing_is_to_happen_in_the_past():
    late = runs(job(0, 4, 300, -250), 0, ((0, 4),), 250)
    late.run_limit_s = 200.0
    with pytest.raises(BadInputError, match="before 0"):
        played(InitialState(0.0, running=(late,)))


def test_a_job_of_the_past_is_no_new_job():
    with pytest.raises(BadInputError, match="begins at 100"):
        played(InitialState(100.0), workload=Workload((job(0, 1, 5, 99),), {}))


def test_true_run_times_can_be_exchanged():
    workload, cluster = sample_workload("loaded", 3)
    first = Simulation(Scenario(workload, cluster), load_policy("qssf"))
    first.run(400)
    state = first.state()
    views = (*state.running, *state.waiting)
    same = state.with_durations({view.job.job_id: view.job.duration_s for view in views})
    twice = state.with_durations({view.job.job_id: 2 * view.job.duration_s for view in views})
    before, after, longer = (played(s, cluster, "qssf") for s in (state, same, twice))
    assert after == before
    for view in state.running:
        ends = longer[view.job.job_id][1] - before[view.job.job_id][1]
        assert ends == pytest.approx(view.job.duration_s)
    assert [view.job.duration_s for view in state.running] == [  # the state itself is as it was
        view.job.duration_s for view in first.state().running
    ]
