"""Sleeping nodes in the metrics and in the status."""

from dataclasses import replace
from pathlib import Path

import pytest

from live_scheduler.live_settings import LiveSettings, Mode
from live_scheduler.safety.control_lease import ControlLease
from parts.node_sleep.live.settings import NodeSleepSettings
from parts.node_sleep.live.sleeper import NodeSleeper
from parts.node_sleep.replay.control import BIN_S
from parts.node_sleep.tests.live.sleeping_nodes import MemoryNodes
from tests.live_scheduler.live_answers import NOW_S, STATE, Live, metrics_of


def test_metrics_tell_of_sleeping_nodes_where_nodes_sleep(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.see(STATE)
    assert not any("asleep" in name for name in metrics_of(live))
    nodes = MemoryNodes.awake(6, partition="away")
    monkeypatch.setattr(ControlLease, "_arm", lambda _: None)
    sleep = NodeSleepSettings(Mode.CONTROL, {"buffer_nodes": 2})
    lease = ControlLease(tmp_path, LiveSettings("small", tables={"node_sleep": sleep}))
    live.daemon.part_stages["node_sleep"] = NodeSleeper(nodes, sleep, tmp_path, lease)
    for later_s in (0.0, BIN_S, 2.0 * BIN_S):
        live.see(replace(STATE, at_s=NOW_S + later_s))
        nodes.step()
    live.see(replace(STATE, at_s=NOW_S + 2.0 * BIN_S + 2.0))
    found = metrics_of(live)
    assert found['lucid_live_nodes{power="awake"}'] == 2
    assert found['lucid_live_nodes{power="asleep"}'] == 4
    assert found["lucid_live_nodes_put_to_sleep_total"] == 4
    assert found["lucid_live_failed_boots_total"] == found["lucid_live_short_nodes"] == 0
    said = live.get("/v1/status").json()["node_sleep"]
    assert said["to_sleep"] == ["n6", "n5", "n4", "n3"]
