"""Every node that was put to sleep is awake again or named as failed, whoever wakes it, however it goes."""

from dataclasses import replace
from pathlib import Path

import pytest

from foundation.errors import ServiceUnavailableError
from live_scheduler.cluster_state import PowerState
from live_scheduler.safety.dead_mans_switch import Watch
from live_scheduler.safety.heartbeat import HEARTBEAT_FILE, Heartbeat, Moment, write_heartbeat
from parts.node_sleep.live.node_power import PutToSleep, WakeNode
from parts.node_sleep.live.waking import TOUCHED_NODES_FILE, TouchedNodes, wake_touched
from parts.node_sleep.tests.live.sleeping_nodes import MemoryNodes
from tests.live_scheduler.memory_cluster import MemoryCluster

ASLEEP = ("n1", "n2", "n3")


@pytest.fixture
def nodes() -> MemoryNodes:
    """Four nodes of which three have just been told to sleep."""
    nodes = MemoryNodes.awake(4)
    nodes.apply([PutToSleep(name) for name in ASLEEP])
    return nodes


@pytest.fixture
def touched(tmp_path: Path) -> TouchedNodes:
    touched = TouchedNodes(tmp_path)
    touched.note([PutToSleep(name) for name in ASLEEP])
    return touched


def test_each_is_asked_once_it_sleeps_until_it_is_awake(nodes: MemoryNodes, touched: TouchedNodes) -> None:
    done = wake_touched(nodes, touched)
    assert (done.coming, nodes.those(PowerState.BOOTING)) == (ASLEEP, set())  # they still fall asleep
    nodes.step()
    assert wake_touched(nodes, touched).coming == ASLEEP
    assert nodes.those(PowerState.BOOTING) == set(ASLEEP)
    asked = len(nodes.asked)
    assert not wake_touched(nodes, touched).complete
    assert len(nodes.asked) == asked
    nodes.step()
    done = wake_touched(nodes, touched)
    assert (done.awake, done.complete) == (ASLEEP, True)
    assert not len(touched)
    assert not wake_touched(nodes, touched).changed


def test_one_that_does_not_boot_is_named_and_forgotten(nodes: MemoryNodes, touched: TouchedNodes) -> None:
    nodes.broken = frozenset({"n2"})
    failed: list[str] = []
    for _ in range(4):
        failed += wake_touched(nodes, touched).failed
        nodes.step()
    assert failed == ["n2"]
    assert nodes.asked.count(WakeNode("n2")) == 1
    assert not len(touched)


def test_one_whose_boot_had_failed_before_is_tried_once(nodes: MemoryNodes, touched: TouchedNodes) -> None:
    nodes.step()
    nodes.nodes["n1"] = replace(nodes.nodes["n1"], power=PowerState.BOOT_FAILED)
    wake_touched(nodes, touched)
    assert WakeNode("n1") in nodes.asked


def test_nodes_that_are_gone_down_or_another_hands_are_no_longer_ours(
    nodes: MemoryNodes, touched: TouchedNodes
) -> None:
    nodes.step()
    del nodes.nodes["n1"]
    nodes.nodes["n2"] = replace(nodes.nodes["n2"], power=PowerState.AWAY)
    nodes.nodes["n4"] = replace(nodes.nodes["n4"], power=PowerState.ASLEEP)  # an admin's word
    done = wake_touched(nodes, touched)
    assert (done.awake, done.failed, done.coming) == (("n1",), ("n2",), ("n3",))
    assert WakeNode("n4") not in nodes.asked


def test_refusals_are_told_and_asked_again(nodes: MemoryNodes, touched: TouchedNodes) -> None:
    nodes.step()
    nodes.refuses = "Invalid user id"
    assert wake_touched(nodes, touched).refused == tuple((name, "Invalid user id") for name in ASLEEP)
    nodes.refuses = ""
    wake_touched(nodes, touched)
    nodes.step()
    assert wake_touched(nodes, touched).complete


def test_the_record_outlives_torn_lines_and_other_writers(touched: TouchedNodes, tmp_path: Path) -> None:
    path = tmp_path / TOUCHED_NODES_FILE
    with path.open("a") as stream:
        stream.write('{"node": "n9", "how": "beheaded"}\n{"how": "woken"}\n{"node": "n7", "ho')
    TouchedNodes(tmp_path).cross_off(["n1"])
    touched.note([PutToSleep("n5"), WakeNode("n6")])
    assert list(touched) == ["n2", "n3", "n5"]
    assert list(TouchedNodes(tmp_path)) == ["n2", "n3", "n5"]


class Switch:
    """A switch over a folder in which nodes sleep, at a moment of its own."""

    def __init__(self, folder: Path, nodes: MemoryNodes) -> None:
        self.folder, self.nodes = folder, nodes
        self.moment = Moment(1_700_000_000.0, 500.0, "boot")
        self.said: list[str] = []
        self.jobs = MemoryCluster()
        self.watch = Watch(
            folder,
            lambda: (self.jobs, None),
            open_parts={"node_sleep": lambda: nodes},
            clock=lambda: self.moment,
            say=self.said.append,
        )

    def beat(self, *, controls: bool, sleeps_nodes: bool) -> None:
        beat = Heartbeat(self.moment.at_s, self.moment.monotonic_s, "boot", 60.0, controls, 1)
        write_heartbeat(
            self.folder / HEARTBEAT_FILE, replace(beat, parts=("node_sleep",) if sleeps_nodes else ())
        )

    def pass_by(self, seconds: float) -> None:
        self.moment = Moment(self.moment.at_s + seconds, self.moment.monotonic_s + seconds, "boot")

    def look_until_well(self) -> None:
        for _ in range(60):
            if self.watch.look():
                return
            self.pass_by(1.0)
            self.nodes.step()
        raise AssertionError(self.said)


def test_the_switch_wakes_them_when_the_heartbeat_ends(
    nodes: MemoryNodes, touched: TouchedNodes, tmp_path: Path
) -> None:
    nodes.takes = 7
    switch = Switch(tmp_path, nodes)
    switch.beat(controls=False, sleeps_nodes=True)
    for _ in range(3):
        assert switch.watch.look()
        nodes.step()
    assert WakeNode("n1") not in nodes.asked
    switch.pass_by(61.0)
    switch.look_until_well()
    assert nodes.those(PowerState.AWAKE) == {"n1", "n2", "n3", "n4"}
    assert not len(TouchedNodes(tmp_path))
    assert any("3 nodes (n1, n2, n3) awake again" in line for line in switch.said)


def test_a_daemon_that_only_orders_the_queue_now_has_them_woken_and_its_queue_left_alone(
    nodes: MemoryNodes, touched: TouchedNodes, tmp_path: Path
) -> None:
    switch = Switch(tmp_path, nodes)
    for _ in range(5):
        switch.beat(controls=True, sleeps_nodes=False)
        switch.watch.look()
        switch.pass_by(1.0)
        nodes.step()
    assert not len(TouchedNodes(tmp_path))
    assert switch.jobs.asked == []


def test_a_cluster_that_is_away_is_asked_again(
    nodes: MemoryNodes, touched: TouchedNodes, tmp_path: Path
) -> None:
    switch = Switch(tmp_path, nodes)
    nodes.away = True
    with pytest.raises(ServiceUnavailableError):
        switch.watch.look()
    nodes.away = False
    switch.look_until_well()
    assert not len(TouchedNodes(tmp_path))
