"""What Slurm says of the power of its nodes, word by word as 22.05 says it."""

import pytest

from foundation.errors import ServiceUnavailableError
from live_scheduler.cluster_state import PowerState
from live_scheduler.slurm.node_reading import parse_power, power_of, reserved_nodes, starts_jobs
from parts.node_sleep.live.slurm_power import power_settings

CONFIG = """
ResumeProgram           = /etc/slurm/resume
ResumeTimeout           = 900 sec
SuspendExcNodes         = login[1-2],gpu[1-8]:4
SuspendExcParts         = interactive,debug
SuspendProgram          = /etc/slurm/suspend
SuspendTime             = 31536000 sec
"""


@pytest.mark.parametrize(
    ("state", "reason", "power"),
    [
        ("idle", "none", PowerState.AWAKE),
        ("mixed+cloud", "none", PowerState.AWAKE),
        ("idle+drain", "fans", PowerState.AWAKE),
        ("idle+power_down", "none", PowerState.FALLING_ASLEEP),
        ("mixed+power_down", "none", PowerState.FALLING_ASLEEP),
        ("idle+powering_down", "none", PowerState.FALLING_ASLEEP),
        ("idle+powered_down", "none", PowerState.ASLEEP),
        ("idle+drain+powered_down", "fans", PowerState.ASLEEP),
        ("mixed+powered_down", "none", PowerState.ASLEEP),
        ("idle+power_up+powered_down", "none", PowerState.BOOTING),
        ("mixed+not_responding+powering_up", "none", PowerState.BOOTING),
        ("down+powered_down+not_responding", "ResumeTimeout reached", PowerState.BOOT_FAILED),
        ("down+powered_down", "fans", PowerState.AWAY),
        ("down+not_responding", "Not responding", PowerState.AWAY),
        ("idle+not_responding", "none", PowerState.AWAY),
    ],
)
def test_states(state: str, reason: str, power: PowerState) -> None:
    assert power_of(state, reason) is power


@pytest.mark.parametrize(
    ("state", "counts", "busy", "may_sleep"),
    [
        ("idle", True, False, True),
        ("idle+cloud", True, False, True),
        ("idle+planned", True, False, False),
        ("idle+reserved", True, False, False),
        ("idle+maintenance+reserved", False, False, False),
        ("mixed", True, True, False),
        ("idle+completing", True, True, False),
        ("idle+drain", False, False, False),
        ("idle+powered_down", True, False, False),
        ("mixed+not_responding+powering_up", True, True, False),
        ("down+not_responding+powering_up", True, False, False),
        ("down+powered_down+not_responding", False, False, False),
    ],
)
def test_what_a_node_is_good_for(state: str, counts: bool, busy: bool, may_sleep: bool) -> None:
    (node,) = parse_power([f"n1|vc1|{state}|gpu:4|none|"])
    assert (node.counts, node.busy, node.may_sleep, node.gpus) == (counts, busy, may_sleep, 4)


def test_nodes_of_several_partitions_and_those_that_nobody_may_touch() -> None:
    lines = [
        "n1|vc1|idle|gpu:4|none|",
        "n1|all|idle|gpu:4|none|",
        "n2|all|idle|gpu:4|a|b|",
        "n3|dev|idle||none|",
    ]
    nodes = {node.name: node for node in parse_power(lines, frozenset({"n2"}), frozenset({"dev"}))}
    assert nodes["n1"].partitions == ("vc1", "all")
    assert [name for name, node in nodes.items() if node.may_sleep] == ["n1"]
    with pytest.raises(ServiceUnavailableError, match="sinfo answered"):
        parse_power(["slurm_load_node: error"])


def test_nodes_of_reservations_present_and_to_come() -> None:
    text = (
        "ReservationName=a StartTime=2026-11-22T22:17:17 Nodes=n[2-3] NodeCnt=2 State=INACTIVE\n"
        "ReservationName=b Nodes=(null) NodeCnt=0 Features=x State=ACTIVE\n"
    )
    assert reserved_nodes(text) == {"n2", "n3"}
    assert reserved_nodes("No reservations in the system\n") == frozenset()


def test_what_slurm_conf_says_of_power_saving() -> None:
    settings = power_settings(CONFIG)
    assert settings.excluded_nodes == {"login1", "login2", *(f"gpu{n}" for n in range(1, 9))}
    assert settings.excluded_partitions == {"interactive", "debug"}
    assert settings.problem == ""
    off = power_settings(CONFIG.replace("31536000 sec", "INFINITE"))
    assert off.problem == "Slurm's power saving is off (SuspendTime=INFINITE in slurm.conf)."
    missing = power_settings(CONFIG.replace("/etc/slurm/suspend", "(null)"))
    assert "SuspendProgram not set" in missing.problem
    soon = power_settings(CONFIG.replace("31536000", "600"))
    assert "after SuspendTime=600 s" in soon.problem
    own = power_settings(
        CONFIG, "PartitionName=a SuspendTime=GLOBAL\nPartitionName=b SuspendTime=900 State=UP\n"
    )
    assert "after SuspendTime=900 s" in own.problem


@pytest.mark.parametrize(
    ("state", "starts"),
    [
        ("mixed+not_responding+powering_up", True),
        ("idle+power_up+powered_down", True),
        ("idle+powered_down", True),
        ("idle+powering_down", False),
        ("idle+not_responding", False),
        ("down+not_responding+powering_up", False),
    ],
)
def test_nodes_that_boot_take_jobs(state: str, starts: bool) -> None:
    assert starts_jobs(state) is starts
