"""Nodes of a cluster as its power saving has them: awake, asleep, or between."""

from dataclasses import dataclass
from enum import StrEnum


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
