"""The seam between the control of sleeping nodes and a cluster: what is read of nodes, and what is asked."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

from live_scheduler.cluster_state import PoweredNode, PowerState


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
