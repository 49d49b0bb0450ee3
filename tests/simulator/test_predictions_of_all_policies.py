"""What is predicted at submission is exactly what a naive forward run shows, under every policy."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.cluster.spec import ClusterSpec
from simulator.conformance import SHAPES, sample_changes, sample_workload
from simulator.engine.simulation import Simulation
from simulator.job_view import RunState
from simulator.policies.registry import load_policy, policy_names
from simulator.prediction import PredictingSimulation
from simulator.replay import simulate
from simulator.scenario.scenario import Scenario
from simulator.workload.colocation import SummedUtilisation
from simulator.workload.job import Job
from simulator.workload.workload import Workload
from tests.policies import installed_policies


def naively(name, workload, cluster, changes, moments):
    """Predict by fresh simulations that begin with the state and run to the end; only at some moments."""
    scenario = Scenario(workload, cluster, changes=changes, colocation=SummedUtilisation())
    simulation = Simulation(scenario, load_policy(name), name=name)
    predicted, first = {}, 0
    while simulation.step():
        submitted = [view for view in simulation.jobs[first:] if view.submit_time_s <= simulation.now_s]
        first += len(submitted)
        if not submitted or simulation.decisions % moments:
            continue
        state = simulation.state()
        for view in (*state.running, *state.waiting):  # which job will be withdrawn is unknown
            view.job = replace(view.job, cancel_time_s=None)
        rest = Scenario(Workload((), {}), simulation.cluster, initial=state, colocation=SummedUtilisation())
        ahead = Simulation(rest, load_policy(name), name=name)
        ahead.run()
        ends = {view.job.job_id: view.end_time_s for view in ahead.jobs}
        for view in submitted:
            over = view.state is RunState.COMPLETED
            predicted[view.job.job_id] = view.end_time_s if over else ends.get(view.job.job_id)
    return predicted


@pytest.mark.parametrize("name", policy_names())
@settings(max_examples=6, deadline=None)
@given(shape=st.sampled_from(SHAPES), seed=st.integers(0, 200))
def test_predictions_equal_naive_forward_runs_and_change_nothing(name, shape, seed):
    workload, cluster = sample_workload(shape, seed, jobs=50)
    changes = sample_changes(shape, seed, cluster)
    scenario = Scenario(workload, cluster, changes=changes, colocation=SummedUtilisation())
    predicting = PredictingSimulation(scenario, load_policy(name), name=name, by="truth")
    predicting.run()
    assert "predicted_end_time_s" in predicting.result().jobs
    plain = Simulation(scenario, load_policy(name), name=name)
    plain.run()
    assert [view.end_time_s for view in predicting.jobs] == [view.end_time_s for view in plain.jobs]
    predicted = {view.job.job_id: view.predicted_end_time_s for view in predicting.jobs}
    naive = naively(name, workload, cluster, changes, moments=5)
    assert {job_id: predicted[job_id] for job_id in naive} == naive


@pytest.mark.parametrize("name", installed_policies("fifo", "elastic_fifo"))
@settings(max_examples=10, deadline=None)
@given(shape=st.sampled_from(["quiet", "loaded", "burst", "gangs", "elastic"]), seed=st.integers(0, 200))
def test_where_arrivals_never_delay_the_true_end_is_what_a_forward_run_shows(name, shape, seed):
    workload, cluster = sample_workload(shape, seed, jobs=50)
    workload = replace(workload, jobs=tuple(replace(job, cancel_time_s=None) for job in workload.jobs))
    assert load_policy(name).arrivals_never_delay
    table = simulate(Scenario(workload, cluster), name, predict=True, predict_by="truth").jobs.set_index(
        "job_id"
    )
    assert table["predicted_end_time_s"].tolist() == table["end_time_s"].tolist()
    naive = naively(name, workload, cluster, (), moments=3)
    assert table["end_time_s"][list(naive)].tolist() == list(naive.values())


def test_easy_lets_later_jobs_delay_earlier_ones_and_says_so():
    assert not load_policy("easy").arrivals_never_delay
    summary = simulate(
        Scenario(*sample_workload("gangs", 2, jobs=60)), "easy", predict=True, predict_by="truth"
    ).summary
    assert summary["later_than_predicted_pct"] > 0


def test_what_cannot_be_known_does_not_count():
    """A job that is withdrawn later is predicted as if it stayed, and so are those behind it."""
    cluster = ClusterSpec({"a": 1}, 4)
    jobs = [
        Job("first", "a", "u", 4, 0.0, 8.0, 8.0, 0),
        Job("gone", "a", "u", 4, 1.0, 100.0, 100.0, 1, cancel_time_s=7.0, withdrawn=True),
        Job("second", "a", "u", 4, 5.0, 50.0, 50.0, 2),
        Job("third", "a", "u", 4, 20.0, 10.0, 10.0, 3),
    ]
    table = simulate(
        Scenario(Workload(tuple(jobs), {}), cluster), "fifo", predict=True, predict_by="truth"
    ).jobs
    assert table["predicted_end_time_s"].tolist() == [8.0, 108.0, 158.0, 68.0]
    assert table["end_time_s"].tolist() == [8.0, 7.0, 58.0, 68.0]
