"""Nodes of a simulated cluster that sleep and boot: what jobs wait for, and which nodes are chosen."""

from dataclasses import replace

import numpy as np
import pytest

from foundation.errors import BadInputError, UnknownNameError
from parts.node_sleep.replay.control import DemandForecast
from parts.node_sleep.replay.node_sleep import NodeSleep
from parts.node_sleep.replay.settings import SleepSettings
from simulator.actions import PolicyError
from simulator.cluster.changes import NodeFailure, SizeChange
from simulator.cluster.spec import ClusterSpec
from simulator.conformance import audited
from simulator.engine.simulation import Simulation
from simulator.policies.fifo import Fifo
from simulator.policies.registry import load_policy
from simulator.replay import simulate
from simulator.scenario.initial_state import InitialState, PoolNodes
from simulator.scenario.scenario import Scenario
from simulator.workload.job import Job
from simulator.workload.workload import Workload
from tests.needs_part import needs_part

HOUR_S = 3_600.0


def buffer(nodes=0, *, boot_s=300.0, keep_bins=0, **more):
    own = {
        key: more.pop(key)
        for key in ("boot_failure_share", "awake_per_virtual_cluster", "seed")
        if key in more
    }
    return NodeSleep(SleepSettings(buffer_nodes=nodes, boot_s=boot_s, keep_bins=keep_bins, **more), **own)


# Submitted last, when all is over: figures are of the time in which jobs are submitted.
LAST = (9 * HOUR_S, 1, 60)


def workload(*jobs, vc="vc"):
    """Jobs as (submit_time_s, gpus, duration_s) or, with a virtual cluster, four values."""
    return Workload(
        tuple(
            Job(f"j{i}", job[3] if len(job) > 3 else vc, "u", job[1], float(job[0]), float(job[2]), order=i)
            for i, job in enumerate(jobs)
        ),
        {},
    )


def run(jobs, cluster, sleep, policy="fifo", **more):
    companions = () if sleep is None else (sleep,)
    return audited(Scenario(jobs, cluster, companions=companions, **more), load_policy(policy), name=policy)


def waits(result):
    return result.jobs["queuing_delay_s"].tolist()


# A job that keeps one node busy, so that the others have hours to fall asleep in.
KEEPS_ONE_BUSY = (0, 8, 10 * HOUR_S)


def test_a_job_waits_for_the_boot_of_the_nodes_that_it_needs_and_no_longer():
    jobs = workload(KEEPS_ONE_BUSY, (2 * HOUR_S, 16, 600), LAST)
    result = run(jobs, ClusterSpec({"vc": 4}), buffer(boot_s=420))
    assert waits(result) == [0, 420, 420]
    assert result.summary["wake_ups"] == 1
    assert result.summary["nodes_per_wake_up"] == 2
    assert result.summary["node_minutes_short"] == pytest.approx(2 * 420 / 60)
    assert result.summary["jobs_that_waited_for_boots"] == 1


def test_a_buffer_of_idle_nodes_saves_the_wait():
    jobs = workload(KEEPS_ONE_BUSY, (2 * HOUR_S, 16, 600))
    assert waits(run(jobs, ClusterSpec({"vc": 4}), buffer(2))) == [0, 0]
    assert waits(run(jobs, ClusterSpec({"vc": 4}), buffer(1))) == [0, 300]


def test_nodes_sleep_from_the_first_check_on_and_mean_is_over_time():
    result = run(workload((0, 8, 6_001), (6_000, 1, 0)), ClusterSpec({"vc": 3}), buffer())
    assert result.summary["nodes_asleep_mean"] == pytest.approx(2 * (6_000 - 600) / 6_000)
    assert result.summary["kwh_saved"] == pytest.approx(2 * 5_400 / 3_600 * 2.4)
    assert result.summary["node_utilisation_pct"] == pytest.approx(100 / 3)
    assert result.summary["node_utilisation_awake_pct"] == pytest.approx(100 * 6_000 / (6_000 + 2 * 600))
    states = result.kept[NodeSleep.key]
    assert states.at_s.tolist()[:2] == [0.0, 600.0]
    assert states.asleep.tolist()[:2] == [0.0, 2.0]


def test_off_is_a_cluster_whose_nodes_never_sleep():
    jobs = workload(KEEPS_ONE_BUSY, (2 * HOUR_S, 16, 600), (3 * HOUR_S, 12, 700))
    awake = simulate(Scenario(jobs, ClusterSpec({"vc": 4})), "fifo")
    off = run(jobs, ClusterSpec({"vc": 4}), NodeSleep(SleepSettings(control="off")))
    assert off.jobs.equals(awake.jobs)
    assert (off.summary["nodes_asleep_mean"], off.summary["wake_ups"]) == (0, 0)
    assert not awake.kept
    assert "nodes_asleep_mean" not in awake.summary


def test_a_job_on_gpus_that_are_free_wakes_no_node():
    jobs = workload((0, 4, 10 * HOUR_S), (2 * HOUR_S, 4, 600), LAST)
    result = run(jobs, ClusterSpec({"vc": 4}), buffer())
    assert waits(result) == [0, 0, 0]
    assert result.summary["wake_ups"] == 0


def test_free_gpus_that_are_scattered_are_not_enough_for_a_gang():
    """Two nodes with four free GPUs each cannot take a job of eight."""
    jobs = workload((0, 5, 9 * HOUR_S), (1, 5, 9 * HOUR_S), (2 * HOUR_S, 6, 600))
    assert waits(run(jobs, ClusterSpec({"vc": 3}), buffer())) == [0, 0, 300]


def test_a_gang_that_running_jobs_keep_out_finds_the_other_nodes_awake():
    """Helios, algorithm 2: what is requested beyond the active nodes is woken, whatever else is missing."""
    jobs = workload((0, 8, 3 * HOUR_S), (2 * HOUR_S, 24, 600))
    assert waits(run(jobs, ClusterSpec({"vc": 3}), buffer())) == [0, HOUR_S]


def test_virtual_clusters_are_woken_their_own_nodes_and_the_buffer_goes_where_spares_are_fewest():
    jobs = workload((0, 8, 9 * HOUR_S, "a"), (1, 8, 9 * HOUR_S, "b"), (2 * HOUR_S, 8, 600, "a"))
    scenario = Scenario(jobs, ClusterSpec({"a": 6, "b": 6}), companions=(buffer(1),))
    simulation = Simulation(scenario, load_policy("fifo"))
    simulation.run(1.5 * HOUR_S)
    asleep = {name: len(pool.closed_nodes()) for name, pool in simulation.pools.items()}
    assert asleep == {"a": 5, "b": 4}  # most idle nodes first, the first virtual cluster on ties
    simulation.run(2 * HOUR_S)
    booting = {
        name: sorted(node for node, reasons in pool.closed_nodes().items() if reasons == {"booting"})
        for name, pool in simulation.pools.items()
    }
    assert booting == {"a": [1, 2], "b": []}


def test_the_lowest_indices_wake_and_the_highest_sleep():
    jobs = workload(KEEPS_ONE_BUSY, (2 * HOUR_S, 8, 600))
    simulation = Simulation(
        Scenario(jobs, ClusterSpec({"vc": 4}), companions=(buffer(1),)), load_policy("fifo")
    )
    simulation.run(HOUR_S)
    assert sorted(simulation.pools["vc"].closed_nodes()) == [2, 3]


def test_some_nodes_of_each_virtual_cluster_never_sleep():
    jobs = workload((0, 8, 9 * HOUR_S, "a"), (2 * HOUR_S, 8, 600, "b"))
    cluster = ClusterSpec({"a": 2, "b": 2})
    assert waits(run(jobs, cluster, buffer())) == [0, 300]
    assert waits(run(jobs, cluster, buffer(awake_per_virtual_cluster=1))) == [0, 0]


def test_a_failed_boot_is_tried_again_and_costs_a_boot_each_time():
    jobs = workload(KEEPS_ONE_BUSY, *((h * HOUR_S, 8, 600) for h in range(2, 9)), LAST)
    result = run(jobs, ClusterSpec({"vc": 2}), buffer(boot_failure_share=0.5, seed=3))
    boots = sum(waits(result)[:-1]) / 300
    assert result.summary["boots_failed"] > 0
    assert boots == result.summary["wake_ups"] + result.summary["boots_failed"]
    assert run(jobs, ClusterSpec({"vc": 2}), buffer(boot_failure_share=0.5, seed=3)).jobs.equals(result.jobs)
    assert waits(run(jobs, ClusterSpec({"vc": 2}), buffer(boot_failure_share=0.5, seed=4))) != waits(result)


def test_nodes_that_boot_at_once_cost_no_wait():
    jobs = workload(KEEPS_ONE_BUSY, (2 * HOUR_S, 16, 600), LAST)
    result = run(jobs, ClusterSpec({"vc": 4}), buffer(boot_s=0.0))
    assert waits(result) == [0, 0, 0]
    assert result.summary["wake_ups"] == 1


def test_a_node_that_fails_asleep_comes_back_awake():
    jobs = workload(KEEPS_ONE_BUSY, (2 * HOUR_S, 8, 600))
    failure = NodeFailure(HOUR_S, "vc", 1, 3_500.0)
    result = run(jobs, ClusterSpec({"vc": 2}), buffer(), changes=(failure,))
    assert waits(result) == [0, 0]  # it was repaired 100 s before, and a check puts it to sleep at 2 h
    later = NodeFailure(2 * HOUR_S + 100, "vc", 1, 1_000.0)  # while it boots
    jobs = workload(KEEPS_ONE_BUSY, (2 * HOUR_S, 8, 600))
    assert waits(run(jobs, ClusterSpec({"vc": 2}), buffer(), changes=(later,))) == [0, 1_100]


def test_failures_of_sleeping_nodes_count_as_those_of_others():
    jobs = workload(KEEPS_ONE_BUSY)
    failure = NodeFailure(HOUR_S, "vc", 2, HOUR_S)
    awake = run(jobs, ClusterSpec({"vc": 3}), None, changes=(failure,))
    asleep = run(jobs, ClusterSpec({"vc": 3}), buffer(), changes=(failure,))
    assert asleep.summary["utilisation_pct"] == awake.summary["utilisation_pct"]


def test_a_virtual_cluster_that_shrinks_loses_sleeping_nodes_and_gains_them_awake():
    jobs = workload(KEEPS_ONE_BUSY, (3 * HOUR_S + 10, 16, 600))
    changes = (SizeChange(HOUR_S, "vc", 1), SizeChange(3 * HOUR_S + 5, "vc", 3))
    result = run(jobs, ClusterSpec({"vc": 3}), buffer(), changes=changes)
    assert waits(result) == [0, 0]


def test_nodes_whose_cores_are_in_use_do_not_sleep_and_cpu_jobs_wake_nodes():
    cpu = Job("cpu", "vc", "u", 0, 0.0, 5 * HOUR_S, order=1, cpus=4)
    later = Job("later", "vc", "u", 0, 2 * HOUR_S, 600.0, order=2, cpus=8)
    jobs = replace(workload(KEEPS_ONE_BUSY), jobs=(*workload(KEEPS_ONE_BUSY).jobs, cpu, later))
    cluster = ClusterSpec({"vc": 3}, cpu_cores_per_node=8)
    result = run(jobs, cluster, buffer())
    assert waits(result) == [0, 0, 300]  # both the GPUs and the cores of node 0 are in use; 1 and 2 sleep


def test_nodes_that_a_policy_sets_aside_stay_awake():
    rows = [(i * HOUR_S, 1, 100.0) for i in range(8)]
    estimated = workload(*rows).with_estimates(np.array([row[2] for row in rows]))
    scenario = Scenario(estimated, ClusterSpec({"vc": 20}), companions=(buffer(),))
    simulation = Simulation(scenario, load_policy("lucid"))
    aside = [pool for name, pool in simulation.pools.items() if name != "vc"]
    assert aside
    while simulation.step():
        assert not any(pool.closed_nodes() for pool in aside)
    assert simulation.result().summary["nodes_asleep_mean"] > 10


class _Falls:
    """A forecaster that remembers what it was asked."""

    def __init__(self):
        self.asked = []

    def forecast(self, busy, last_bin_start_s):
        self.asked.append((busy.tolist(), last_bin_start_s))
        return DemandForecast(0.0, 0.0, {})


def test_a_forecast_is_asked_about_finished_bins_on_the_clock_of_the_log():
    import pandas as pd

    forecaster = _Falls()
    origin = pd.Timestamp("2020-05-01T00:03:00Z")
    jobs = replace(workload((0, 16, 1_000), (0, 8, 9_000)), origin=origin)
    sleep = NodeSleep(SleepSettings(control="forecast", buffer_nodes=0, past_bins=1), forecaster=forecaster)
    run(jobs, ClusterSpec({"vc": 4}), sleep)
    busy, last = forecaster.asked[0]
    # Bins are whole on the clock: the first holds 420 s, the job of 1,000 s ends in the second.
    assert busy == [3.0, 3.0, 1.0]
    assert last == origin.timestamp() - 180 + 2 * 600


def test_a_simulation_in_which_nothing_starts_ends_although_checks_would_go_on():
    class StartsNothing(Fifo):
        def decide(self, snapshot):
            return []

    scenario = Scenario(workload((0, 8, 100)), ClusterSpec({"vc": 2}), companions=(buffer(),))
    with pytest.raises(PolicyError, match="left 1 of 1 jobs incomplete"):
        simulate(scenario, StartsNothing())


def test_controls_that_cannot_decide_as_time_passes_are_refused():
    with pytest.raises(BadInputError, match="reads the future"):
        NodeSleep(SleepSettings(control="helios-artifact"))
    with pytest.raises(BadInputError, match="forecaster"):
        NodeSleep(SleepSettings(control="forecast"))


@pytest.mark.parametrize(
    ("data", "error", "named"),
    [
        ({"boot_failure_share": 1.0}, BadInputError, "boot_failure_share is 1.0"),
        ({"boot_failure_share": "some"}, BadInputError, "boot_failure_share is 'some'"),
        ({"awake_per_virtual_cluster": -1}, BadInputError, "awake_per_virtual_cluster is -1"),
        ({"bufer_nodes": 1}, UnknownNameError, "buffer_nodes"),
        ({"control": "best"}, UnknownNameError, "forecast"),
        ({"boot_s": -1}, BadInputError, "boot_s is -1"),
    ],
)
def test_settings_that_cannot_be_are_refused_by_name(data, error, named):
    with pytest.raises(error, match=named):
        NodeSleep.from_data(data)


@needs_part("experiments")
def test_pools_without_nodes_have_none_that_sleep():
    from simulator.scenario.rules import load_rules

    scenario = Scenario(
        workload((0, 1, 10)), ClusterSpec({"vc": 1}), rules=load_rules("pcs-artifact"), companions=(buffer(),)
    )
    with pytest.raises(BadInputError, match="sleep or be watched"):
        simulate(scenario, "afs")


def test_a_cluster_that_begins_with_sleeping_nodes_needs_someone_to_wake_them():
    asleep = {1: frozenset({"asleep"}), 2: frozenset({"booting"})}
    state = InitialState(0.0, nodes={"vc": PoolNodes(3, 8, closed=asleep)})
    jobs = workload((10, 24, 100))
    with pytest.raises(BadInputError, match="has nothing that wakes them"):
        Simulation(Scenario(jobs, ClusterSpec({"vc": 3}), initial=state), load_policy("fifo"))
    result = run(jobs, ClusterSpec({"vc": 3}), buffer(boot_s=60), initial=state)
    assert waits(result) == [60]
