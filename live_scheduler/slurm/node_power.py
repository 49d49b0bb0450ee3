"""Slurm's power saving: the states of nodes by sinfo, POWER_DOWN and POWER_UP by scontrol.

What this relies on, each seen on Slurm 22.05:

- A node that is told POWER_DOWN while jobs run there goes on with them, may get more, and sleeps when it is
  idle; that cannot be taken back (POWER_UP is silently dropped until it sleeps).
- SuspendExcNodes and SuspendExcParts do not hold for what is asked by hand: they are kept to here.
- Slurm gives jobs to sleeping nodes and boots those. One that is not back after ResumeTimeout is set down,
  with the reason "ResumeTimeout reached"; POWER_UP tries again.
- With SuspendTime=INFINITE power saving is off, and POWER_DOWN an invalid state.
"""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cluster_logs.host_lists import expand_hosts
from cluster_logs.slurm_words import NODE_STARTS_NOTHING, gpus_of_gres, node_words
from foundation.errors import ServiceUnavailableError
from live_scheduler.node_sleep.node_power import (
    NodeChange,
    NodeRefusal,
    PoweredNode,
    PowerReading,
    PowerState,
    PutToSleep,
)
from live_scheduler.slurm.commands import call, config_values, sinfo_by_node
from live_scheduler.slurm.scontrol_session import ScontrolSession

_FIELDS = ("NodeList", "PartitionName", "StateComplete", "Gres", "Reason")
POWER_COMMAND = sinfo_by_node(_FIELDS)
_READ_LIMIT_S, _ASK_LIMIT_S = 20.0, 60.0
# slurm.conf is read anew so often; reservations at every look.
_CONFIG_KEPT_S = 60.0
# Slurm would put nodes to sleep that were woken as a buffer.
LEAST_SUSPEND_TIME_S = 86_400

# Nodes that are to reboot are as good as gone; reserved ones, and those that fall asleep, are there.
_AWAY = NODE_STARTS_NOTHING.union({"reboot_requested"}) - {"reserved", "resv", "powering_down"}
_IDLE = frozenset({"idle", "cloud", "dynamic_norm"})
_BUSY = frozenset({"allocated", "mixed", "completing"})
_GIVEN_UP = "ResumeTimeout reached"
_RESERVED_NODES = re.compile(r"(?:^|\s)Nodes=(\S+)")
_SECONDS = re.compile(r"\d+")
_SUSPEND_TIMES = re.compile(r"\bSuspendTime=(\d+)")  # of partitions that have one of their own


@dataclass(frozen=True)
class PowerSettings:
    """What slurm.conf says of power saving; `problem`: why it cannot be driven ("": it can)."""

    excluded_nodes: frozenset[str]
    excluded_partitions: frozenset[str]
    problem: str = ""


class SlurmNodePower:
    """The nodes of one Slurm cluster (`live_scheduler.node_sleep.node_power.PowerControl`)."""

    def __init__(self, keep_awake: Sequence[str] = ()) -> None:
        """Nothing is asked yet; `keep_awake` are host lists of nodes that never sleep."""
        self._keep_awake = frozenset(name for each in keep_awake for name in expand_hosts(each))
        self._config: PowerSettings | None = None
        self._config_read_s = 0.0

    def read(self) -> PowerReading:
        """Return all nodes as they are now."""
        if self._config is None or time.monotonic() - self._config_read_s > _CONFIG_KEPT_S:
            self._config = power_settings(
                call(["scontrol", "show", "config"], limit_s=_READ_LIMIT_S),
                call(["scontrol", "--oneliner", "show", "partition"], limit_s=_READ_LIMIT_S),
            )
            self._config_read_s = time.monotonic()
        config = self._config
        reservations = call(["scontrol", "--oneliner", "show", "reservation"], limit_s=_READ_LIMIT_S)
        untouchable = config.excluded_nodes | self._keep_awake | reserved_nodes(reservations)
        lines = call(POWER_COMMAND, limit_s=_READ_LIMIT_S).splitlines()
        nodes = parse_power(lines, untouchable, config.excluded_partitions)
        return PowerReading(nodes, config.problem)

    def apply(self, changes: Sequence[NodeChange]) -> list[NodeRefusal]:
        """Ask for the changes in their order; return those that Slurm refused."""
        with ScontrolSession(_ASK_LIMIT_S) as session:
            answers = session.tell(
                [
                    f"update NodeName={change.node}"
                    f" State={'POWER_DOWN' if isinstance(change, PutToSleep) else 'POWER_UP'}"
                    for change in changes
                ]
            )
        return [NodeRefusal(change, why) for change, why in zip(changes, answers, strict=True) if why]


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


def power_settings(config: str, partitions: str = "") -> PowerSettings:
    """Return what `scontrol show config` and `scontrol --oneliner show partition` say of power saving."""
    given = {name: value for name, value in config_values(config).items() if value != "(null)"}
    # `n[1-4]:2` keeps any two of them awake: all four are left alone.
    excluded = re.sub(r":\d+", "", given.get("SuspendExcNodes", ""))
    missing = [name for name in ("SuspendProgram", "ResumeProgram") if name not in given]
    suspend_time = _SECONDS.match(given.get("SuspendTime", ""))
    problem = ""
    if missing or suspend_time is None:
        problem = (
            f"Slurm's power saving is off ({' and '.join(missing) or 'SuspendTime=INFINITE'}"
            f"{' not set' if missing else ''} in slurm.conf)."
        )
    else:
        own = _SUSPEND_TIMES.findall(partitions)
        least_s = min(map(int, (suspend_time[0], *own)))
        if least_s < LEAST_SUSPEND_TIME_S:
            problem = (
                f"Slurm puts nodes to sleep itself after SuspendTime={least_s} s, the buffer too:"
                f" set it to {LEAST_SUSPEND_TIME_S} s or more."
            )
    return PowerSettings(
        frozenset(expand_hosts(excluded)),
        frozenset(filter(None, given.get("SuspendExcParts", "").split(","))),
        problem,
    )
