"""Sleeping nodes in the live scheduler: the table `[node_sleep]`, the look at each pass, the way back."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from foundation.human_times import moment_here
from live_scheduler.capability import LiveCapability, WayBack, some_nodes
from live_scheduler.live_settings import LiveSettings
from parts.node_sleep.live.node_power import PowerControl
from parts.node_sleep.live.settings import NodeSleepSettings
from parts.node_sleep.live.waking import NodesBack, TouchedNodes, wake_touched

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from live_scheduler.safety.control_lease import ControlLease
    from parts.node_sleep.live.sleep_status import SleepingNodes
    from parts.node_sleep.live.sleeper import NodeSleeper


class _Waking(WayBack):
    """Nodes that were put to sleep are woken; they boot for minutes."""

    quick = False
    Record = TouchedNodes

    def nothing(self) -> NodesBack:
        """Return what is said where no node was put to sleep."""
        return NodesBack()

    def look(
        self, control: PowerControl, record: TouchedNodes, go_on: Callable[[], bool] = lambda: True
    ) -> NodesBack:
        """Wake what sleeps."""
        return wake_touched(control, record, go_on=go_on)


class NodeSleepLive(LiveCapability):
    """Which idle nodes sleep (Helios, Cluster Energy Saving)."""

    name = "node_sleep"
    title = "sleeping nodes"
    Settings = NodeSleepSettings
    needs = "put nodes to sleep"
    adapters: ClassVar[Mapping[str, str]] = {"slurm": "parts.node_sleep.live.slurm_power:open_power"}
    way_back = _Waking()

    def stage(
        self, control: PowerControl, settings: LiveSettings, folder: Path, lease: "ControlLease"
    ) -> "NodeSleeper":
        """Return what puts nodes to sleep and wakes them."""
        from parts.node_sleep.live.sleeper import NodeSleeper

        return NodeSleeper(control, settings.tables[self.name], folder, lease)

    def status_type(self) -> "type[SleepingNodes]":
        """Return the kind of its status."""
        from parts.node_sleep.live.sleep_status import SleepingNodes

        return SleepingNodes

    def in_words(self, status: "SleepingNodes") -> str:
        """Return how many sleep, and what was last changed, as one line."""
        would = "" if status.mode == "control" else "would have "
        changes = (
            f"{would}put to sleep {some_nodes(status.to_sleep)}" if status.to_sleep else "",
            f"{would}woken {some_nodes(status.to_wake)}" if status.to_wake else "",
        )
        decided = moment_here(status.decided_s)
        parts = [
            f"{status.asleep:,} of {status.nodes:,} asleep, {status.booting:,} booting, {status.busy:,} busy",
            f"jobs lack {status.short:,}" if status.short else "",
            f"did not boot: {some_nodes(status.failed)}" if status.failed else "",
            f"{decided}: {' and '.join(filter(None, changes))}" if status.decided_s else "",
            *(f"{node} refused: {why}" for node, why in list(status.refused.items())[:3]),
            status.problem or "",
        ]
        return f"{status.mode}, {status.control}: {'; '.join(filter(None, parts))}"

    def metrics(self, status: "SleepingNodes") -> "Iterator[Metric]":
        """Yield nodes by power, what jobs lack, and what was changed."""
        from parts.node_sleep.live.sleep_status import sleep_metrics

        return sleep_metrics(status)


LIVE = NodeSleepLive()
