"""What an operator sets of sleeping nodes: the table `[node_sleep]` of the live settings."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from foundation.errors import BadInputError
from live_scheduler.live_settings import Mode
from parts.node_sleep.replay.settings import SleepSettings


@dataclass(frozen=True)
class NodeSleepSettings:
    """The table `[node_sleep]`; without it all nodes stay as they are.

    - `mode`: how much is done: observe (log what would be), advise (say it in answers and metrics) or
      control. It does not depend on the mode of the queue.
    - `control`: settings of the control (a table), in the place of those that the release pins.
    - `partitions`: the partitions with nodes that may sleep; empty: all.
    - `keep_awake`: nodes that never sleep (names as Slurm lists them), besides those that Slurm is told to
      keep awake (SuspendExcNodes, SuspendExcParts).
    - `awake_in`: by partition, how many of its nodes stay awake at least (a table).
    - `nodes_per_minute`: no more nodes are put to sleep or woken in a minute.
    - `rest_after_failure_s`: a node that did not boot, or whose change was refused, is left alone for so
      long.
    """

    mode: Mode = Mode.OBSERVE
    control: Mapping[str, Any] = field(default_factory=dict)
    partitions: tuple[str, ...] = ()
    keep_awake: tuple[str, ...] = ()
    awake_in: Mapping[str, Any] = field(default_factory=dict)
    nodes_per_minute: int = 60
    rest_after_failure_s: float = 3_600.0

    def __post_init__(self) -> None:
        """Refuse values that no cluster can be run with."""
        self.control_settings()
        if "boot_s" in self.control:
            raise BadInputError(
                "boot_s is a setting of replays.",
                remedy="Leave it out: a live cluster's nodes boot as they do.",
            )
        if self.nodes_per_minute < 1:
            raise BadInputError(f"nodes_per_minute is {self.nodes_per_minute!r}.", remedy="Give 1 or more.")
        if not 0 <= self.rest_after_failure_s < float("inf"):
            raise BadInputError(
                f"rest_after_failure_s is {self.rest_after_failure_s!r}.", remedy="Give a number of seconds."
            )
        for partition, nodes in self.awake_in.items():
            if isinstance(nodes, bool) or not isinstance(nodes, int) or nodes < 0:
                raise BadInputError(
                    f"awake_in says {nodes!r} of the partition {partition!r}.",
                    remedy="Give a whole number from 0 on.",
                )

    def control_settings(self, released: Mapping[str, Any] | None = None) -> SleepSettings:
        """Return the control's settings: those of a release, with what is set here in their place."""
        return SleepSettings.from_data({**(released or {}), **self.control})


def check_released(settings: Mapping[str, Any]) -> None:
    """Refuse a control that no live cluster can be driven by, and settings that are none."""
    if SleepSettings.from_data(settings).control == "helios-artifact":
        raise BadInputError("The control 'helios-artifact' reads the future: it replays series only.")
