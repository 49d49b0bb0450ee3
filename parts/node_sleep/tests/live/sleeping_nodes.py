"""Nodes in memory that sleep and boot as Slurm's do: a word that comes too early is dropped silently."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from foundation.errors import ServiceUnavailableError
from live_scheduler.cluster_state import PoweredNode, PowerState
from parts.node_sleep.live.node_power import NodeChange, NodeRefusal, PowerReading, PutToSleep


def node(
    name: str, power: PowerState = PowerState.AWAKE, *partitions: str, busy: bool = False
) -> PoweredNode:
    """A node with four GPUs that may sleep if it is awake and idle."""
    idle = power is PowerState.AWAKE and not busy
    counts = power not in (PowerState.AWAY, PowerState.BOOT_FAILED)
    return PoweredNode(name, power, partitions or ("vc1",), 4, counts=counts, busy=busy, may_sleep=idle)


@dataclass
class MemoryNodes:
    """Boots and falling asleep take `takes` steps; `broken` nodes never boot. `asked`: all that was asked."""

    nodes: dict[str, PoweredNode]
    takes: int = 1
    broken: frozenset[str] = frozenset()
    away: bool = False
    refuses: str = ""
    problem: str = ""
    asked: list[NodeChange] = field(default_factory=list)
    _left: dict[str, int] = field(default_factory=dict)

    @classmethod
    def awake(cls, count: int, *, partition: str = "vc1") -> "MemoryNodes":
        return cls({name: node(name, PowerState.AWAKE, partition) for name in _names(count)})

    def read(self) -> PowerReading:
        if self.away:
            raise ServiceUnavailableError("The nodes are away.")
        return PowerReading(tuple(self.nodes.values()), self.problem)

    def apply(self, changes: Sequence[NodeChange]) -> list[NodeRefusal]:
        self.asked += changes
        if self.refuses:
            return [NodeRefusal(change, self.refuses) for change in changes]
        for change in changes:
            power = self.nodes[change.node].power
            if isinstance(change, PutToSleep) and power is PowerState.AWAKE:
                self._become(change.node, PowerState.FALLING_ASLEEP)
            elif isinstance(change, PutToSleep) or power in (PowerState.ASLEEP, PowerState.BOOT_FAILED):
                self._become(change.node, PowerState.BOOTING)
        return []

    def step(self) -> None:
        """Let time pass: who falls asleep sleeps at last, who boots is awake or has failed."""
        for name, steps in list(self._left.items()):
            self._left[name] = steps - 1
            if steps > 1:
                continue
            del self._left[name]
            falls = self.nodes[name].power is PowerState.FALLING_ASLEEP
            booted = PowerState.BOOT_FAILED if name in self.broken else PowerState.AWAKE
            self._become(name, PowerState.ASLEEP if falls else booted)

    def give_jobs(self, names: set[str]) -> None:
        """Let exactly these nodes have jobs; those that sleep boot for them, as Slurm does it."""
        for name, each in self.nodes.items():
            busy = name in names and each.counts and each.power is not PowerState.FALLING_ASLEEP
            idle = each.power is PowerState.AWAKE and not busy
            self.nodes[name] = replace(each, busy=busy, may_sleep=idle)
            if busy and each.power is PowerState.ASLEEP:
                self._become(name, PowerState.BOOTING)

    def those(self, power: PowerState) -> set[str]:
        return {name for name, each in self.nodes.items() if each.power is power}

    def _become(self, name: str, power: PowerState) -> None:
        busy = self.nodes[name].busy and power is not PowerState.BOOT_FAILED
        self.nodes[name] = node(name, power, *self.nodes[name].partitions, busy=busy)
        if power in (PowerState.FALLING_ASLEEP, PowerState.BOOTING):
            self._left[name] = self.takes


def _names(count: int) -> list[str]:
    return [f"n{number}" for number in range(1, count + 1)]
