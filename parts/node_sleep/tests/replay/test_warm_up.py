"""Nodes that sleep in a replay that begins with jobs from before its days."""

from dataclasses import replace

import pytest

from parts.node_sleep.replay.node_sleep import NodeSleep
from parts.node_sleep.replay.settings import SleepSettings
from simulator.cluster.spec import ClusterSpec
from simulator.replay import simulate
from simulator.scenario.scenario import Scenario
from simulator.workload.job import Job
from simulator.workload.workload import Workload


def test_nodes_that_sleep_are_counted_from_the_end_of_the_warm_up() -> None:
    """One of two nodes is busy for a day of warm-up and asleep for the day that counts."""
    day_s = 86_400.0
    jobs = (
        Job("warm", "vc", "u", 8, 0.0, day_s),
        Job("first", "vc", "u", 4, day_s, 1.0),
        Job("last", "vc", "u", 4, 2 * day_s, 1.0),
    )
    sleep = NodeSleep(SleepSettings(control="buffer", buffer_nodes=0, boot_s=0.0))
    scenario = Scenario(Workload(jobs, {}), ClusterSpec({"vc": 2}, 4), companions=(sleep,))
    whole = simulate(scenario, "fifo")
    counted = simulate(replace(scenario, counted_from_s=day_s), "fifo")
    assert whole.kept[NodeSleep.key] is not None
    assert counted.kept[NodeSleep.key] is not None
    assert counted.kept[NodeSleep.key].at_s[0] == day_s
    asleep_node_s = whole.summary["nodes_asleep_mean"] * 2 * day_s
    assert counted.summary["nodes_asleep_mean"] == pytest.approx(asleep_node_s / day_s)
    assert counted.summary["wake_ups"] <= whole.summary["wake_ups"]
