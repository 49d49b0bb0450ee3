"""The profiling stage in the live scheduler: what the setting `profiling_partition` asks for."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from live_scheduler.capability import PROFILING_PARTITION, LiveCapability

if TYPE_CHECKING:
    from live_scheduler.live_settings import LiveSettings
    from parts.live_profiling.profiling_stage import ProfilingStage


class ProfilingLive(LiveCapability):
    """Moves new small jobs to the profiling partition, and home again."""

    name = PROFILING_PARTITION
    needs = "move jobs to a profiling partition"
    adapters: ClassVar[Mapping[str, str]] = {"slurm": "parts.live_profiling.live:open_stage"}


def open_stage(settings: "LiveSettings", folder: Path) -> "ProfilingStage":
    """Return the stage of a Slurm cluster; raises OSError for the folder."""
    from parts.live_profiling.profiling_stage import Intents, ProfilingStage

    return ProfilingStage(settings, Intents(folder))


LIVE = ProfilingLive()
