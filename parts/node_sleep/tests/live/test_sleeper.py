"""The control's numbers meet nodes: what is asked in each mode, and what becomes of boots."""

import random
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from foundation.errors import BadInputError, UnknownNameError
from live_scheduler.cluster_state import ClusterState, LiveJob, PowerState
from live_scheduler.live_settings import LiveSettings, Mode
from live_scheduler.release import Pinned
from live_scheduler.safety.control_lease import ControlLease
from live_scheduler.settings_file import settings_from
from parts.node_sleep.live.node_power import PutToSleep, WakeNode
from parts.node_sleep.live.settings import NodeSleepSettings
from parts.node_sleep.live.sleep_status import SleepingNodes
from parts.node_sleep.live.sleeper import NodeSleeper
from parts.node_sleep.live.waking import TouchedNodes, wake_touched
from parts.node_sleep.replay.control import BIN_S, DemandForecast
from parts.node_sleep.tests.live.sleeping_nodes import MemoryNodes

START_S = 2_900_000.0 * BIN_S


@dataclass
class Site:
    """Nodes, a sleeper over them, and a clock."""

    folder: Path
    nodes: MemoryNodes
    settings: NodeSleepSettings
    now_s: float = START_S
    waiting: list[LiveJob] = field(default_factory=list)
    released: Pinned = field(default_factory=Pinned)

    def __post_init__(self) -> None:
        settings = LiveSettings("c", tables={"node_sleep": self.settings})
        lease = ControlLease(self.folder, settings)
        self.sleeper = NodeSleeper(self.nodes, self.settings, self.folder, lease)

    def look(self, later_s: float = 2.0) -> SleepingNodes:
        self.now_s += later_s
        return self.sleeper.look(ClusterState(self.now_s, tuple(self.waiting), ()), self.released)

    def look_after_a_bin(self) -> SleepingNodes:
        """Let a bin begin and end with a look in it."""
        self.look(BIN_S)
        self.nodes.step()
        return self.look(BIN_S)


@pytest.fixture(autouse=True)
def no_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here has a cluster that a process apart could wake."""
    monkeypatch.setattr(ControlLease, "_arm", lambda _: None)


def site(folder: Path, nodes: MemoryNodes, mode: Mode = Mode.CONTROL, **more: object) -> Site:
    control = {"buffer_nodes": 1, "keep_bins": 1}
    return Site(folder, nodes, NodeSleepSettings(mode, control, **more))  # type: ignore[arg-type]


def test_idle_nodes_sleep_once_a_bin_has_ended(tmp_path: Path) -> None:
    here = site(tmp_path, MemoryNodes.awake(6))
    here.nodes.give_jobs({"n1", "n2"})
    assert here.look().decided_s is None  # no bin has ended
    view = here.look_after_a_bin()
    assert here.nodes.asked == [PutToSleep("n6"), PutToSleep("n5"), PutToSleep("n4")]
    assert (view.put_to_sleep, view.problem) == (3, None)
    assert set(TouchedNodes(tmp_path)) == {"n4", "n5", "n6"}


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.ADVISE])
def test_below_control_nothing_is_asked_or_written(tmp_path: Path, mode: Mode) -> None:
    here = site(tmp_path, MemoryNodes.awake(4), mode)
    here.look_after_a_bin()
    view = here.look_after_a_bin()
    assert view.describe_wanted().startswith("would put to sleep 3 nodes")
    assert here.nodes.asked == []
    assert not len(TouchedNodes(tmp_path))


def test_a_boot_for_a_job_brings_the_buffer_along_once(tmp_path: Path) -> None:
    here = site(tmp_path, MemoryNodes.awake(6))
    here.look_after_a_bin()
    assert len(here.nodes.those(PowerState.FALLING_ASLEEP)) == 5
    here.nodes.step()
    here.look()
    here.nodes.give_jobs({"n1", "n2", "n3"})  # the cluster wakes two of them itself
    here.nodes.asked.clear()
    view = here.look()
    assert here.nodes.asked == [WakeNode("n4")]
    assert (view.short, view.wake_ups) == (2, 2)
    here.look()
    assert here.nodes.asked == [WakeNode("n4")]
    here.nodes.step()
    assert here.look().wake_ups == 3


def test_a_node_that_has_a_job_and_sleeps_yet_is_about_to_boot_for_it(tmp_path: Path) -> None:
    """Slurm gives it the job at once, and says that it boots a cycle of its power saving later."""
    here = Site(tmp_path, MemoryNodes.awake(6), NodeSleepSettings(Mode.CONTROL, {"buffer_nodes": 0}))
    here.look_after_a_bin()
    here.nodes.step()
    here.look()
    here.nodes.asked.clear()
    here.nodes.nodes["n2"] = replace(here.nodes.nodes["n2"], busy=True)
    views = [here.look() for _ in range(4)]
    assert here.nodes.asked == [], "no other node is woken for the same job"
    assert [(view.booting, view.wake_ups) for view in views] == [(1, 1)] * 4


def test_a_job_that_got_its_node_after_it_was_read_is_not_short_of_another(tmp_path: Path) -> None:
    here = site(tmp_path, MemoryNodes.awake(6))
    here.look_after_a_bin()
    here.nodes.step()
    here.nodes.give_jobs({"n1"})
    here.look()
    here.nodes.asked.clear()
    here.waiting = [LiveJob("1", "vc1", "vc1", 4, 0.0, nodes=1)]
    here.nodes.give_jobs({"n1", "n2"})  # n2 is the waiting job's
    here.look()
    assert here.nodes.asked == [WakeNode("n3")]  # the buffer, that one is woken for
    here.waiting = [LiveJob("2", "vc1", "vc1", 4, 0.0, nodes=1)]
    here.look()  # another job has waited for a whole look
    assert here.nodes.asked == [WakeNode("n3")], "n3 boots for it"
    here.waiting *= 2
    here.look()
    assert here.nodes.asked == [WakeNode("n3"), WakeNode("n4"), WakeNode("n5")]


def test_a_job_that_no_node_can_serve_keeps_no_others_awake(tmp_path: Path) -> None:
    here = site(tmp_path, MemoryNodes.awake(4))
    here.waiting = [LiveJob("1", "other", "other", 4, 0.0, reason="Resources")]
    here.look_after_a_bin()
    assert len(here.nodes.asked) == 3


class Forecast:
    """Says what it is told to, and remembers what it was asked."""

    def __init__(self, near_mean: float) -> None:
        self.near_mean = near_mean
        self.asked: list[tuple[list[float], float]] = []

    def forecast(self, busy: NDArray[np.float64], last_bin_start_s: float) -> DemandForecast:
        self.asked.append((busy.tolist(), last_bin_start_s))
        return DemandForecast(self.near_mean, self.near_mean, {})


@pytest.mark.parametrize(("near_mean", "sleeping"), [(1.0, 4), (5.0, 0)])
def test_the_forecast_of_a_release_decides_with_its_settings(
    tmp_path: Path, near_mean: float, sleeping: int
) -> None:
    settings = NodeSleepSettings(Mode.CONTROL, {"buffer_nodes": 1})
    here = Site(tmp_path, MemoryNodes.awake(6), settings)
    forecast = Forecast(near_mean)
    here.released = Pinned(forecast, {"control": "forecast", "buffer_nodes": 4, "past_bins": 1})
    here.nodes.give_jobs({"n1", "n2", "n3"})
    here.look()
    here.nodes.give_jobs({"n1"})
    here.look(BIN_S)
    view = here.look(BIN_S)
    assert view.control == "forecast"
    assert forecast.asked == [([3.0, 1.0], START_S + BIN_S)]
    assert len(here.nodes.asked) == sleeping


def test_without_its_forecast_a_buffer_is_kept_and_that_is_said(tmp_path: Path) -> None:
    here = Site(tmp_path, MemoryNodes.awake(6), NodeSleepSettings(Mode.CONTROL, {"control": "forecast"}))
    assert here.look().control == "buffer (the forecast of nodes is not in the release)"


def test_nodes_that_a_waiting_job_collects_stay_awake(tmp_path: Path) -> None:
    here = site(tmp_path, MemoryNodes.awake(4))
    here.nodes.give_jobs({"n1"})
    here.waiting = [LiveJob("1", "vc1", "vc1", 16, 0.0, nodes=4, reason="Resources")]
    for _ in range(3):
        here.look_after_a_bin()
    assert here.nodes.asked == []
    here.waiting = []
    here.look_after_a_bin()
    assert len(here.nodes.asked) == 2


def test_a_failed_boot_is_counted_left_alone_and_tried_again_later(tmp_path: Path) -> None:
    here = site(tmp_path, MemoryNodes.awake(4), rest_after_failure_s=3_600.0)
    here.look_after_a_bin()
    here.nodes.step()
    here.nodes.broken = frozenset({"n2"})
    here.look()
    here.nodes.give_jobs({"n1", "n2"})
    here.look()
    here.nodes.step()
    view = here.look()
    assert (view.failed, view.failed_boots) == (("n2",), 1)
    here.nodes.asked.clear()
    for _ in range(20):
        here.nodes.step()
        here.look(60.0)
    assert WakeNode("n2") not in here.nodes.asked
    for _ in range(50):
        here.nodes.step()
        here.look(60.0)
    assert here.nodes.asked.count(WakeNode("n2")) == 1


def test_what_is_refused_is_left_alone_too_and_comes_off_the_record(tmp_path: Path) -> None:
    here = site(tmp_path, MemoryNodes.awake(3))
    here.nodes.refuses = "Access/permission denied"
    view = here.look_after_a_bin()
    assert list(view.refused.values()) == ["Access/permission denied"] * 2
    assert view.put_to_sleep == 0
    here.nodes.asked.clear()
    here.look_after_a_bin()
    assert here.nodes.asked == [PutToSleep("n1")]  # the others rest
    here.look()
    assert not len(TouchedNodes(tmp_path))


def test_minima_partitions_and_rates_hold(tmp_path: Path) -> None:
    nodes = MemoryNodes.awake(8)
    here = site(tmp_path, nodes, awake_in={"vc1": 5})
    here.look_after_a_bin()
    assert len(nodes.asked) == 3
    slow = MemoryNodes.awake(8)
    view = site(tmp_path / "slow", slow, nodes_per_minute=2).look_after_a_bin()
    assert (len(slow.asked), view.deferred) == (2, 5)
    elsewhere = MemoryNodes.awake(8)
    site(tmp_path / "elsewhere", elsewhere, partitions=("vc2",)).look_after_a_bin()
    assert elsewhere.asked == []


def test_what_nobody_has_seen_is_no_reason_to_sleep(tmp_path: Path) -> None:
    here = site(tmp_path, MemoryNodes.awake(4), Mode.OBSERVE)
    here.look_after_a_bin()
    later = site(tmp_path, MemoryNodes.awake(4))
    later.now_s = here.now_s
    later.look(5 * BIN_S)
    assert later.nodes.asked == []
    later.look(BIN_S)
    assert len(later.nodes.asked) == 3


def test_a_cluster_or_disk_in_trouble_changes_nothing(tmp_path: Path) -> None:
    here = site(tmp_path, MemoryNodes.awake(4))
    here.nodes.problem = "Slurm's power saving is off."
    assert here.look_after_a_bin().problem == "Slurm's power saving is off."
    here.nodes.problem, here.nodes.away = "", True
    assert here.look(BIN_S).problem == "The nodes are away."
    assert here.nodes.asked == []
    here.nodes.away = False
    (tmp_path / "touched_nodes.jsonl").mkdir()
    view = here.look_after_a_bin()
    assert "touched_nodes.jsonl" in (view.problem or "")
    assert here.nodes.asked == []


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_every_node_that_was_put_to_sleep_is_on_record_and_comes_back(
    tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    here = site(tmp_path, MemoryNodes.awake(10))
    here.nodes.takes = chance.choice([1, 3])
    for _ in range(200):
        here.nodes.broken = (
            frozenset(chance.sample(sorted(here.nodes.nodes), 1))
            if chance.random() < 0.1
            else here.nodes.broken
        )
        here.nodes.give_jobs(set(chance.sample(sorted(here.nodes.nodes), chance.randrange(6))))
        here.look(chance.choice([2.0, 300.0]))
        not_awake = here.nodes.those(PowerState.ASLEEP) | here.nodes.those(PowerState.FALLING_ASLEEP)
        assert not_awake <= set(TouchedNodes(tmp_path))
        here.nodes.step()
    touched = TouchedNodes(tmp_path)
    failed = set()
    for _ in range(20):
        failed |= set(wake_touched(here.nodes, touched).failed)
        here.nodes.step()
    assert not len(TouchedNodes(tmp_path))
    assert here.nodes.those(PowerState.AWAKE) | failed | here.nodes.those(PowerState.BOOT_FAILED) == set(
        here.nodes.nodes
    )


@pytest.mark.parametrize(
    ("table", "error", "words"),
    [
        ({"mode": "sleep"}, UnknownNameError, "sleep"),
        ({"control": {"buffer_nodes": -1}}, BadInputError, "buffer_nodes is -1"),
        ({"control": {"buffers": 1}}, UnknownNameError, "buffers"),
        ({"control": {"boot_s": 9.0}}, BadInputError, "boot_s"),
        ({"awake_in": {"vc1": "two"}}, BadInputError, "'two'"),
        ({"nodes_per_minute": 0}, BadInputError, "nodes_per_minute is 0"),
        ({"naps": True}, UnknownNameError, "naps"),
        (7, BadInputError, "Give a table"),
    ],
)
def test_bad_settings_are_refused(table: object, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as said:
        settings_from({"cluster": "c", "node_sleep": table})
    assert words in str(said.value)
