"""The seam between the control of sleeping nodes and a cluster: what is read of nodes, and what is asked."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Protocol


class PowerState(StrEnum):
    """Where a node stands between awake and asleep."""

    AWAKE = "awake"
    ASLEEP = "asleep"
    BOOTING = "booting"
    FALLING_ASLEEP = "falling asleep"  # it starts no job, and cannot be woken before it sleeps
    BOOT_FAILED = "boot failed"  # it did not come back in time: the cluster counts it as down
    AWAY = "away"  # down, drained or not responding, for a reason that is not its power


@dataclass(frozen=True, slots=True)
class PoweredNode:
    """A node at one moment.

    `counts`: it is neither down nor drained, so it can run jobs, or could if it were awake. `busy`: jobs
    are allocated to it, also while it boots for them. `may_sleep`: it is awake and idle, and neither
    reserved, nor kept for a job, nor excluded by its site.
    """

    name: str
    power: PowerState
    partitions: tuple[str, ...]
    gpus: int = 0
    counts: bool = True
    busy: bool = False
    may_sleep: bool = False


@dataclass(frozen=True)
class PowerReading:
    """All nodes at one moment; `problem`: why the cluster's power saving cannot be driven ("": it can)."""

    nodes: tuple[PoweredNode, ...]
    problem: str = ""

    @cached_property
    def by_name(self) -> dict[str, PoweredNode]:
        """The nodes by their names."""
        return {node.name: node for node in self.nodes}

    def foreseen(self) -> "PowerReading":
        """Return it with sleeping nodes that have got jobs as ones that boot: it is said a moment later."""
        nodes = tuple(
            replace(node, power=PowerState.BOOTING) if node.busy and node.power is PowerState.ASLEEP else node
            for node in self.nodes
        )
        return replace(self, nodes=nodes)


@dataclass(frozen=True, slots=True)
class PutToSleep:
    """Let an idle node sleep. One that has got a job meanwhile sleeps when its jobs have ended."""

    node: str


@dataclass(frozen=True, slots=True)
class WakeNode:
    """Boot a node that sleeps."""

    node: str


NodeChange = PutToSleep | WakeNode


@dataclass(frozen=True, slots=True)
class NodeRefusal:
    """A change of a node that the cluster refused, in its own words."""

    change: NodeChange
    why: str


class PowerControl(Protocol):
    """A cluster's nodes; every method raises ServiceUnavailableError when it does not answer in time."""

    def read(self) -> PowerReading:
        """Return all nodes as they are now."""

    def apply(self, changes: Sequence[NodeChange]) -> list[NodeRefusal]:
        """Ask for the changes in their order; return those that were refused."""


def some_nodes(names: Sequence[str], *, most: int = 5) -> str:
    """Return nodes for people: `node n3`, or `12 nodes (n1, n2, n3, n4, n5 ...)`."""
    if len(names) == 1:
        return f"node {names[0]}"
    return f"{len(names)} nodes ({', '.join(names[:most])}{' ...' if len(names) > most else ''})"
