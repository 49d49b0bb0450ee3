"""Nodes of a Slurm cluster with their power, and which are idle: by sinfo.

Slurm gives jobs to sleeping nodes and boots those. One that is not back after ResumeTimeout is set down, with
the reason "ResumeTimeout reached" (seen on Slurm 22.05).
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from cluster_logs.host_lists import expand_hosts
from cluster_logs.slurm_words import NODE_STARTS_NOTHING, gpus_of_gres, node_words
from foundation.errors import ServiceUnavailableError
from live_scheduler.powered_nodes import PoweredNode, PowerState
from live_scheduler.slurm.commands import sinfo_by_node

_FIELDS = ("NodeList", "PartitionName", "StateComplete", "Gres", "Reason")
POWER_COMMAND = sinfo_by_node(_FIELDS)

# Nodes that are to reboot are as good as gone; reserved ones, and those that fall asleep, are there.
_AWAY = NODE_STARTS_NOTHING.union({"reboot_requested"}) - {"reserved", "resv", "powering_down"}
_IDLE = frozenset({"idle", "cloud", "dynamic_norm"})
_BUSY = frozenset({"allocated", "mixed", "completing"})
_GIVEN_UP = "ResumeTimeout reached"
_RESERVED_NODES = re.compile(r"(?:^|\s)Nodes=(\S+)")


def parse_power(
    lines: Sequence[str],
    untouchable: frozenset[str] = frozenset(),
    untouchable_partitions: frozenset[str] = frozenset(),
) -> tuple[PoweredNode, ...]:
    """Return the nodes of sinfo's lines, one for each partition of each node.

    Those that are named, or have one of these partitions, may not sleep. Raises ServiceUnavailableError.
    """
    facts: dict[str, tuple[str, str, str]] = {}
    partitions: dict[str, list[str]] = {}
    for line in lines:
        values = line.split("|", len(_FIELDS) - 1)
        if len(values) != len(_FIELDS):
            raise ServiceUnavailableError(f"sinfo answered {line!r}, not {len(_FIELDS)} fields.")
        name, partition, state, gres, reason = values
        facts[name] = state, gres, reason.rstrip("|")
        partitions.setdefault(name, []).append(partition)
    return tuple(
        _with_state(
            PoweredNode(name, power_of(state, reason), tuple(partitions[name]), gpus_of_gres(gres)),
            state,
            untouchable=name in untouchable or not untouchable_partitions.isdisjoint(partitions[name]),
        )
        for name, (state, gres, reason) in facts.items()
    )


def power_of(state: str, reason: str = "") -> PowerState:
    """Return where a node stands by its state with all flags (`idle+powered_down`), and its reason."""
    words = node_words(state)
    if words & {"powering_up", "power_up"}:
        return PowerState.BOOTING
    if words & {"powering_down", "power_down"}:
        return PowerState.FALLING_ASLEEP
    if "powered_down" not in words:
        return PowerState.AWAY if words & {"down", "not_responding"} else PowerState.AWAKE
    if "down" not in words:
        return PowerState.ASLEEP
    return PowerState.BOOT_FAILED if reason.startswith(_GIVEN_UP) else PowerState.AWAY


def _with_state(node: PoweredNode, state: str, *, untouchable: bool) -> PoweredNode:
    words = node_words(state)
    # A node that boots does not answer, and one that is booted again is still called down.
    expected = {"not_responding", "down"} if node.power is PowerState.BOOTING else set()
    may_sleep = node.power is PowerState.AWAKE and words <= _IDLE and not untouchable
    counts, busy = not words & (_AWAY - expected), bool(words & _BUSY)
    return replace(node, counts=counts, busy=busy, may_sleep=may_sleep)


def reserved_nodes(text: str) -> frozenset[str]:
    """Return the nodes of reservations, present and to come, by `scontrol --oneliner show reservation`."""
    return frozenset(
        name for nodes in _RESERVED_NODES.findall(text) if nodes != "(null)" for name in expand_hosts(nodes)
    )
