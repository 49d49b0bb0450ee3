"""What is known of sleeping nodes after a look at them, as one value."""

from dataclasses import dataclass

from live_scheduler.mode import Mode
from live_scheduler.node_sleep.node_power import NodeChange, NodeRefusal, PutToSleep, some_nodes


@dataclass(frozen=True)
class NodeSleepView:
    """One look; `at_s` is Unix time.

    `total` nodes are neither down nor drained: `awake`, `booting` or `asleep` (or about to be); `busy` have
    jobs, and jobs are `short` of further ones. `failed` did not boot in time. `wanted` are the last changes
    that were to be made, `wanted_s` when (0: never); those of the mode control were asked for but for
    `refused` and `deferred`. `wake_ups`, `put_to_sleep` and `failed_boots` add up over the daemon's life.
    `control` names the rule in force, and why where it is not the one that was set. `problem` says why
    nothing is changed.
    """

    at_s: float
    mode: Mode
    control: str
    total: int = 0
    awake: int = 0
    booting: int = 0
    asleep: int = 0
    busy: int = 0
    short: int = 0
    failed: tuple[str, ...] = ()
    wanted: tuple[NodeChange, ...] = ()
    wanted_s: float = 0.0
    refused: tuple[NodeRefusal, ...] = ()
    deferred: int = 0
    wake_ups: int = 0
    put_to_sleep: int = 0
    failed_boots: int = 0
    problem: str | None = None

    def describe_wanted(self) -> str:
        """Return the last changes as a sentence for people, "" without any."""
        would = "" if self.mode is Mode.CONTROL else "would "
        to_sleep = [each.node for each in self.wanted if isinstance(each, PutToSleep)]
        to_wake = [each.node for each in self.wanted if not isinstance(each, PutToSleep)]
        parts = [
            f"{would}{verb} {some_nodes(nodes, most=50)}"
            for verb, nodes in (("put to sleep", to_sleep), ("wake", to_wake))
            if nodes
        ]
        return "; ".join(parts)
