"""Nodes of a real Slurm sleep and wake by its own power saving, and all come back whatever happens."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from parts.node_sleep.live.sleeper import BUSY_NODES_FILE
from parts.node_sleep.live.waking import TOUCHED_NODES_FILE, TouchedNodes
from parts.node_sleep.replay.control import BIN_S
from tests.slurm.conftest import skip_without_slurm
from tests.slurm.live_cluster import NAME, LiveCluster
from tests.slurm.private_slurm import Node, Partition
from tests.slurm.sleeping_slurm import SleepingSlurm, sleeping_slurm

pytestmark = pytest.mark.slow

NODES = [f"n{number}" for number in range(1, 7)]


@pytest.fixture(scope="module")
def standing() -> Iterator[SleepingSlurm]:
    skip_without_slurm()
    with sleeping_slurm(
        nodes=[Node(name) for name in NODES],
        partitions=(Partition("vc1", NODES[:4]), Partition("vc2", NODES[4:]), Partition("all", NODES)),
        SuspendExcNodes="n6",
    ) as sleeping:
        yield sleeping


@pytest.fixture
def sleeping(standing: SleepingSlurm) -> SleepingSlurm:
    return standing


@pytest.fixture
def cluster(
    sleeping: SleepingSlurm, tmp_path: Path, small_model_files: dict[str, list[Path]]
) -> Iterator[LiveCluster]:
    cluster = LiveCluster(sleeping.slurm, tmp_path, small_model_files, http_port=0)
    cluster.keep_release()
    try:
        yield cluster
    finally:
        cluster.end_processes()
        if jobs := cluster.queue("%i"):
            sleeping.slurm.run("scancel", "--full", *jobs)
        sleeping.mend()
        cluster.end()


def configure(cluster: LiveCluster, mode: str, *, buffer_nodes: int = 1, more: str = "") -> None:
    """Let nodes sleep; the newest finished bin says that nothing was busy."""
    settings = cluster.folder / "live.toml"
    settings.write_text(
        settings.read_text() + f'[node_sleep]\nmode = "{mode}"\n'
        f"control = {{ buffer_nodes = {buffer_nodes}, keep_bins = 1 }}\n{more}"
    )
    newest_s = int(time.time() // BIN_S - 1) * BIN_S
    (cluster.state / BUSY_NODES_FILE).write_text(json.dumps({"start_s": newest_s, "busy": 0}) + "\n")


def status(cluster: LiveCluster) -> dict[str, object]:
    """What `lucid live status` says of sleeping nodes; empty while nobody answers."""
    said = cluster.lucid("live", "status", f"--cluster={NAME}", "--json")
    return json.loads(said.stdout).get("node_sleep") or {} if said.returncode == 0 else {}


def all_back(cluster: LiveCluster, sleeping: SleepingSlurm) -> bool:
    return not len(TouchedNodes(cluster.state)) and set(sleeping.powers().values()) == {"idle"}


def test_idle_nodes_sleep_and_others_are_left_alone(cluster: LiveCluster, sleeping: SleepingSlurm) -> None:
    sleeping.slurm.run("scontrol", "update", "NodeName=n4", "State=DRAIN", "Reason=fans")
    reservation = ("Reservation=class", "Nodes=n2", "StartTime=now+2hours", "Duration=30", "Users=root")
    sleeping.slurm.run("scontrol", "create", "reservation", *reservation)
    running = cluster.submit("train_u0", "--nodelist=n1", seconds=60)
    cluster.wait(lambda: cluster.queue("%i %T").get(running) == "RUNNING", "a job runs")
    configure(cluster, "control", buffer_nodes=0)
    daemon = cluster.start(mode="observe")
    # Of six one is drained, one reserved, one excluded by the site, one busy.
    cluster.wait(lambda: sleeping.asleep() == {"n3", "n5"}, "two nodes sleep")
    cluster.wait(lambda: status(cluster).get("asleep") == 2, "it is said")
    said = status(cluster)
    assert (said["nodes"], said["awake"], said["busy"], said["put_to_sleep"]) == (5, 3, 1, 2)
    # A job that needs them has them back.
    cluster.submit("train_u3", "--nodelist=n3,n5", "--nodes=2", "--partition=all", gpus=4)
    cluster.wait(lambda: not sleeping.asleep(), "the job's nodes boot")
    cluster.wait(lambda: status(cluster)["wake_ups"] == 2, "it is counted")
    assert daemon.end() == 0
    cluster.wait(lambda: not sleeping.asleep() and not len(TouchedNodes(cluster.state)), "all are awake")
    cluster.wait(cluster.quiet, "the switch ends")
    assert sleeping.powers()["n4"] == "idle+drain"
    assert {"suspend n2", "suspend n4", "suspend n6"}.isdisjoint(sleeping.asked())


@pytest.mark.parametrize("mode", ["observe", "advise"])
def test_below_control_nothing_changes(cluster: LiveCluster, sleeping: SleepingSlurm, mode: str) -> None:
    configure(cluster, mode)
    daemon = cluster.start(mode="control")
    cluster.wait(lambda: "would put to sleep 5 nodes" in daemon.said(), "it is logged")
    cluster.wait(lambda: status(cluster).get("nodes") == 6, "it answers")
    assert status(cluster)["to_sleep"] == (["n4", "n3", "n5", "n2", "n1"] if mode == "advise" else [])
    assert daemon.end() == 0
    assert sleeping.asked() == []
    assert not (cluster.state / TOUCHED_NODES_FILE).exists()


def test_killed_while_nodes_sleep_and_boot_slowly_all_come_back(
    cluster: LiveCluster, sleeping: SleepingSlurm
) -> None:
    sleeping.boot_in(4)
    configure(cluster, "control")
    daemon = cluster.start(mode="observe")
    cluster.wait(lambda: sleeping.asleep() == set(NODES[:5]), "five nodes sleep")
    # A job that has them woken waits for their boots, not for the daemon.
    job = cluster.submit("train_u0", "--nodes=4", "--partition=vc1", gpus=4)
    daemon.kill()
    cluster.wait(lambda: all_back(cluster, sleeping), "the switch wakes the nodes")
    cluster.wait(cluster.quiet, "the switch ends")
    cluster.assert_each_ran_once([job])
    assert "awake again" in (cluster.state / "watch.log").read_text()


def test_a_node_that_does_not_boot_is_named_and_another_woken(
    cluster: LiveCluster, sleeping: SleepingSlurm
) -> None:
    configure(cluster, "control", buffer_nodes=0, more='partitions = ["vc1"]\n')
    daemon = cluster.start(mode="observe")
    cluster.wait(lambda: sleeping.asleep() == set(NODES[:4]), "all of the partition sleep")
    cluster.wait(lambda: set(list(sleeping.powers().values())[:4]) == {"idle+powered_down"}, "deeply")
    sleeping.break_node("n1")
    job = cluster.submit("train_u0", "--partition=vc1", gpus=4, seconds=60)
    cluster.wait(lambda: "down" in sleeping.powers()["n1"].split("+"), "the boot fails")
    cluster.wait(lambda: status(cluster).get("failed") == ["n1"], "it is said")
    # Slurm lets a job whose node failed wait for a while.
    cluster.slurm.run("scontrol", "update", f"JobId={job}", "StartTime=now")
    cluster.wait(lambda: cluster.queue("%i %N").get(job) == "n2", "it has another node")
    assert status(cluster)["failed_boots"] == 1
    assert sleeping.asked().count("resume n1") == 1
    assert len([line for line in sleeping.asked() if line.startswith("resume")]) == 2
    assert cluster.lucid("live", "restore", f"--cluster={NAME}").returncode == 0
    assert daemon.process.wait(timeout=300) == 0
    assert not len(TouchedNodes(cluster.state))
    assert [name for name, state in sleeping.powers().items() if "down" in state] == ["n1"]
