"""Nodes and partitions as sinfo shows them."""

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from cluster_logs.host_lists import expand_hosts
from cluster_logs.slurm_words import (
    NODE_STARTS_NOTHING,
    GpuWord,
    elapsed_s,
    gpu_words,
    gpus_held,
    gpus_of_gres,
    node_words,
)
from foundation.errors import ServiceUnavailableError
from live_scheduler.cluster_state import LiveNode, PoweredNode, PowerState
from live_scheduler.slurm.commands import call, sinfo_by_node

_FIELDS = (
    "NodeList",
    "PartitionName",
    "Available",
    "Time",
    "StateComplete",
    "CPUs",
    "Memory",
    "Gres",
    "GresUsed",
)
_COMMAND = sinfo_by_node(_FIELDS)
# States in which a node may start jobs. Jobs are given to nodes that sleep or boot too.
_MAY_START = frozenset(
    {"idle", "mixed", "mix", "allocated", "alloc", "completing", "comp", "planned", "plnd", "cloud"}
    | {"powered_down"}
)
_BOOTS = frozenset({"power_up", "powering_up"})
_POWER_FIELDS = ("NodeList", "PartitionName", "StateComplete", "Gres", "Reason")
POWER_COMMAND = sinfo_by_node(_POWER_FIELDS)
# Nodes that are to reboot are as good as gone; reserved ones, and those that fall asleep, are there.
_AWAY = NODE_STARTS_NOTHING.union({"reboot_requested"}) - {"reserved", "resv", "powering_down"}
_IDLE = frozenset({"idle", "cloud", "dynamic_norm"})
_BUSY = frozenset({"allocated", "mixed", "completing"})
_GIVEN_UP = "ResumeTimeout reached"
_RESERVED_NODES = re.compile(r"(?:^|\s)Nodes=(\S+)")


@dataclass(frozen=True, slots=True)
class NodeKind:
    """What each node of a partition has, where all have the same."""

    gpus: int
    cpus: int


@dataclass(frozen=True, slots=True)
class NodesRead:
    """The nodes with their partitions; those that start nothing, how long jobs may run, where limited, and
    the memory of each partition's smallest node, in MiB.
    """

    nodes: tuple[LiveNode, ...]
    kinds: Mapping[str, NodeKind]
    closed: frozenset[str]
    longest_run_s: Mapping[str, float]
    least_memory_mib: Mapping[str, float]

    @property
    def partitions(self) -> frozenset[str]:
        """The partitions that exist and have nodes."""
        return frozenset(partition for node in self.nodes for partition in node.partitions)


@dataclass
class _Node:
    gpus: int
    used: int
    available: bool
    partitions: list[str] = field(default_factory=list)


def read_nodes(limit_s: float) -> NodesRead:
    """Return all nodes and partitions. Raises ServiceUnavailableError."""
    return parse_nodes(call(_COMMAND, limit_s=limit_s).splitlines())


def parse_nodes(lines: Sequence[str]) -> NodesRead:
    """Return the nodes of sinfo's lines, one for each partition of each node."""
    nodes: dict[str, _Node] = {}
    kinds: dict[str, set[NodeKind]] = {}
    closed, longest, least = set(), dict[str, float](), dict[str, float]()
    for line in lines:
        values = line.split("|")
        if len(values) != len(_FIELDS) + 1:
            raise ServiceUnavailableError(f"sinfo answered {line!r}, not {len(_FIELDS)} fields.")
        name, partition, available, time_limit, state, cpus, memory, gres, used = values[:-1]
        # A partition's configuration alone decides whether it starts jobs.
        if available != "up":
            closed.add(partition)
        if (limit_s := elapsed_s(time_limit)) is not None:
            longest[partition] = limit_s
        gpus = gpus_of_gres(gres)
        least[partition] = min(float(memory), least.get(partition, float(memory)))
        kinds.setdefault(partition, set()).add(NodeKind(gpus, int(cpus)))
        node = nodes.get(name)
        if node is None:
            node = nodes[name] = _Node(gpus, gpus_used(used), starts_jobs(state))
        node.partitions.append(partition)
    return NodesRead(
        tuple(
            LiveNode(name, node.gpus, min(node.used, node.gpus), node.available, tuple(node.partitions))
            for name, node in nodes.items()
        ),
        {partition: next(iter(each)) for partition, each in kinds.items() if len(each) == 1},
        frozenset(closed),
        longest,
        least,
    )


def starts_jobs(state: str) -> bool:
    """Return whether a node starts jobs, by its state with all flags (`mixed+planned`, `idle~`, `down*`).

    A flag that is not known does not stop it; in a state that is not known it starts nothing.
    """
    words = node_words(state)
    stopped_by = NODE_STARTS_NOTHING - {"not_responding"} if words & _BOOTS else NODE_STARTS_NOTHING
    return bool(words & _MAY_START) and not words & stopped_by


def gpus_used(gres: str) -> int:
    """Return the GPUs in use: whole ones, and those of which a job has a share; each device once.

    Slurm says on which GPUs shares are, `shard:(null):2(IDX:0-1)`, `shard:3(2/4,1/4)`, and where it knows
    types also which are used whole, `gpu:a100:2(IDX:0-1)`. Of `gpu:1` it does not: Slurm takes the first,
    whether a job has a share of it or not. Slices (MIG) are the GPUs that they make up.
    """
    slices = [word for word in gpu_words(gres) if word.sevenths]
    whole, shared, unnumbered = set[int](), set[int](), 0
    for word in gpu_words(gres):
        if word.sevenths:
            continue
        devices = _devices(word)
        if word.kind != "gpu":
            shared |= devices
        elif devices:
            whole |= devices
        elif word.amount >= 1:
            unnumbered += int(word.amount)
    first = itertools.islice((at for at in itertools.count() if at not in whole), unnumbered)
    return len(whole.union(shared, first)) + int(gpus_held(slices).gpus)


def _devices(word: GpuWord) -> set[int]:
    """The numbers of the GPUs that an entry of GresUsed names."""
    if word.detail.startswith("IDX:"):
        numbers = (name[3:] for name in expand_hosts(f"gpu[{word.detail[4:]}]"))
        return {int(number) for number in numbers if number.isdigit()}
    fractions = word.detail.split(",") if "/" in word.detail else []
    return {at for at, fraction in enumerate(fractions) if not fraction.startswith("0/")}


def parse_power(
    lines: Sequence[str],
    untouchable: frozenset[str] = frozenset(),
    untouchable_partitions: frozenset[str] = frozenset(),
) -> tuple[PoweredNode, ...]:
    """Return the nodes, with their power, of sinfo's lines: one for each partition of each node.

    Slurm gives jobs to sleeping nodes and boots those. One that is not back after ResumeTimeout is set down,
    with the reason "ResumeTimeout reached" (seen on Slurm 22.05).

    Those that are named, or have one of these partitions, may not sleep. Raises ServiceUnavailableError.
    """
    facts: dict[str, tuple[str, str, str]] = {}
    partitions: dict[str, list[str]] = {}
    for line in lines:
        values = line.split("|", len(_POWER_FIELDS) - 1)
        if len(values) != len(_POWER_FIELDS):
            raise ServiceUnavailableError(f"sinfo answered {line!r}, not {len(_POWER_FIELDS)} fields.")
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
