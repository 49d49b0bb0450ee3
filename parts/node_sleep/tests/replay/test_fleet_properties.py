"""What holds of every cluster whose nodes sleep, under every policy."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parts.node_sleep.replay.node_sleep import NodeSleep
from parts.node_sleep.replay.settings import SleepSettings
from simulator.conformance import (
    SHAPES,
    AuditedSimulation,
    audited,
    check_work,
    sample_changes,
    sample_workload,
)
from simulator.engine.simulation import Simulation
from simulator.job_view import RunState
from simulator.policies.registry import load_policy, policy_names
from simulator.prediction import PredictingSimulation
from simulator.replay import simulate
from simulator.scenario.rules import load_rules
from simulator.scenario.scenario import Scenario
from tests.needs_part import needs_part
from tests.policies import installed_policies

sleeps = st.builds(
    NodeSleep,
    st.builds(
        SleepSettings,
        buffer_nodes=st.integers(0, 6),
        keep_bins=st.integers(0, 3),
        least_nodes=st.integers(1, 3),
        min_awake=st.sampled_from([0, 5]),
        boot_s=st.sampled_from([0.0, 1.0, 300.0, 599.5, 4_000.0]),
    ),
    awake_per_virtual_cluster=st.integers(0, 1),
    boot_failure_share=st.sampled_from([0.0, 0.4]),
    seed=st.integers(0, 9),
)
EAGER = NodeSleep(SleepSettings(buffer_nodes=0, keep_bins=0), boot_failure_share=0.2)


def fleet_in(simulation):
    return simulation._attached[NodeSleep.key]


def fleet_figures(simulation):
    return fleet_in(simulation).summary(simulation.now_s, 0.0, simulation.jobs)


class SleepAudit(AuditedSimulation):
    """Also compares what the fleet believes with the nodes, and looks for jobs that wait in vain."""

    def step(self, until_s=float("inf")):
        if not super().step(until_s):
            return False
        for cluster in fleet_in(self)._clusters:
            for pool in cluster.pools:
                closed = pool.closed_nodes()
                asleep = sum("asleep" in reasons for reasons in closed.values())
                booting = sum("booting" in reasons for reasons in closed.values())
                assert (asleep, booting) == (len(cluster.asleep), len(cluster.booting))
            if cluster.asleep:
                self._nobody_waits_in_vain(cluster)
        return True

    def _nobody_waits_in_vain(self, cluster):
        """With the nodes that boot, every waiting job has a place at once, or no node sleeps."""
        for pool in cluster.pools:
            plan = pool.plan()
            for _ in cluster.booting:
                plan.add_node()
            assert all(plan.place(job.gpus) is not None for job in pool.queue), self.now_s


def outcomes(jobs):
    return {
        view.job.job_id: (view.first_start_time_s, view.end_time_s, view.queuing_delay_s, view.attained_s)
        for view in jobs
    }


@pytest.mark.parametrize("name", policy_names())
@settings(max_examples=12, deadline=None)
@given(shape=st.sampled_from(SHAPES), seed=st.integers(0, 40), sleep=sleeps)
def test_capacity_work_and_no_job_left_behind(name, shape, seed, sleep):
    workload, cluster = sample_workload(shape, seed, jobs=60)
    scenario = Scenario(workload, cluster, changes=sample_changes(shape, seed, cluster), companions=(sleep,))
    simulation = SleepAudit(scenario, load_policy(name), name=name)
    simulation.run()
    check_work(simulation.jobs, name)
    result = simulation.result()  # raises if a job never completed
    states = result.kept[NodeSleep.key]
    assert (np.diff(states.at_s) > 0).all()
    assert (states.busy <= states.awake).all()
    assert (states.short <= states.asleep + states.booting).all()
    assert min(row.min() for row in (states.busy, states.asleep, states.booting, states.short)) >= 0


@pytest.mark.parametrize("name", installed_policies("fifo", "srtf", "lucid", "afs"))
@settings(max_examples=15, deadline=None)
@given(shape=st.sampled_from(SHAPES), seed=st.integers(0, 40))
def test_off_changes_nothing(name, shape, seed):
    workload, cluster = sample_workload(shape, seed, jobs=60)
    scenario = Scenario(workload, cluster, changes=sample_changes(shape, seed, cluster))
    off = scenario.beside(NodeSleep(SleepSettings(control="off"), boot_failure_share=0.9))
    assert simulate(off, name).jobs.equals(simulate(scenario, name).jobs)


@pytest.mark.parametrize("name", installed_policies("fifo", "tiresias", "lucid", "clarity", "afs"))
@settings(max_examples=15, deadline=None)
@given(shape=st.sampled_from(SHAPES), seed=st.integers(0, 50), where=st.floats(0, 1.5), sleep=sleeps)
def test_a_run_that_is_cut_goes_on_exactly_as_the_uncut_one(name, shape, seed, where, sleep):
    workload, cluster = sample_workload(shape, seed, jobs=60)
    scenario = Scenario(workload, cluster, changes=sample_changes(shape, seed, cluster), companions=(sleep,))
    whole = Simulation(scenario, load_policy(name))
    whole.run()
    first = Simulation(scenario, load_policy(name))
    first.run(where * workload.jobs[-1].submit_time_s)
    state = first.state()
    later = tuple(job for job in workload.jobs if job.submit_time_s > first.now_s)
    rest = replace(scenario, workload=replace(workload, jobs=later), cluster=first.cluster, initial=state)
    second = AuditedSimulation(rest, load_policy(name), name=name)
    second.run()
    over = [view for view in first.jobs if view.state in (RunState.COMPLETED, RunState.CANCELLED)]
    assert outcomes((*over, *second.jobs)) == outcomes(whole.jobs)
    assert fleet_figures(second) == pytest.approx(fleet_figures(whole))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 50), sleep=sleeps, where=st.floats(0.1, 0.9))
def test_what_is_submitted_later_changes_no_decision_before(seed, sleep, where):
    workload, cluster = sample_workload("quiet", seed, jobs=60)
    moment_s = where * workload.jobs[-1].submit_time_s
    early = tuple(job for job in workload.jobs if job.submit_time_s < moment_s)
    scenario = Scenario(workload, cluster, companions=(sleep,))

    def until_then(jobs):
        simulation = Simulation(replace(scenario, workload=replace(workload, jobs=jobs)), load_policy("fifo"))
        while simulation.step() and simulation.now_s < moment_s:
            pass
        states = fleet_in(simulation).kept()
        before = int(np.searchsorted(states.at_s, moment_s))
        return [(*values,) for values in zip(states.at_s, states.asleep, states.booting, strict=True)][
            :before
        ]

    late = workload.jobs[len(early) :]
    with_others = until_then((*early, *(replace(job, gpus=8, duration_s=9_000.0) for job in late)))
    assert until_then(workload.jobs) == with_others


@pytest.mark.parametrize("name", policy_names())
def test_every_policy_completes_the_same_jobs_with_nodes_that_sleep(name):
    for shape in ("quiet", "burst", "gangs"):
        workload, cluster = sample_workload(shape, seed=1)
        scenario = Scenario(workload, cluster, companions=(EAGER,))
        result = audited(scenario, load_policy(name), name=name)
        assert (result.jobs["state"] == "completed").all()
        again = simulate(scenario, load_policy(name)).jobs
        assert again.equals(result.jobs)
        assert result.kept[NodeSleep.key].asleep.max() > 0


@needs_part("experiments")
def test_under_the_artifacts_rules_too():
    workload, cluster = sample_workload("loaded", seed=1)
    for name in ("srtf", "tiresias", "lucid"):
        scenario = Scenario(workload, cluster, rules=load_rules("lucid-artifact"), companions=(EAGER,))
        result = simulate(scenario, name)
        assert (result.jobs["state"] == "completed").all()
        assert result.kept[NodeSleep.key].asleep.max() > 0


def test_predictions_know_of_boots_and_not_which_will_fail():
    workload, cluster = sample_workload("quiet", seed=2, jobs=60)
    sure = NodeSleep(SleepSettings(buffer_nodes=0, keep_bins=0))
    scenario = Scenario(workload, cluster, companions=(sure,))
    simulation = PredictingSimulation(scenario, load_policy("fifo"), by="truth")
    simulation.run()
    result = simulation.result()
    waited = result.jobs["queuing_delay_s"] == sure.settings.boot_s
    assert waited.any()
    assert (result.jobs["predicted_end_time_s"] == result.jobs["end_time_s"])[waited].mean() > 0.8
    failing = PredictingSimulation(
        scenario.beside(replace(sure, boot_failure_share=0.5)), load_policy("fifo"), by="truth"
    )
    failing.run()
    late = failing.result().jobs
    assert (late["end_time_s"] - late["predicted_end_time_s"] >= 300).any()
