"""The adapters by name: Slurm's, and those that parts offer (`foundation.parts`).

The name is what the setting `adapter` says, and that of the table with the adapter's own settings; at its
place stands a subclass of `AdapterKind`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from foundation.errors import BadInputError, UnknownNameError
from foundation.parts import at_place, lacking, offered
from live_scheduler.adapter import ClusterAdapter, Profiling, Restorer, Stage
from live_scheduler.capability import PROFILING_PARTITION, LiveCapability, capabilities
from live_scheduler.live_settings import LiveSettings, checked_values

BUILT_IN = {"slurm": "live_scheduler.slurm.opening:Slurm"}

RestorableCluster = tuple[ClusterAdapter, Restorer | None]


@dataclass(frozen=True)
class OpenedCluster:
    """What the daemon works with: an adapter, and what it adds to each pass.

    `profiling` says which jobs may run on the profiling partition first (None: any that may be requeued).
    """

    adapter: ClusterAdapter
    stages: Sequence[Stage] = ()
    profiling: Profiling | None = None


class AdapterKind(ABC):
    """How clusters of one kind are opened.

    `Settings` is the frozen dataclass of its own settings (None: it has none). `moves_jobs`: it can move jobs
    to a profiling partition, and let them share GPUs. `offers`: by the names of parts, places of functions
    of LiveSettings and the state folder that return what does here what they need (`LiveCapability.needs`).
    """

    Settings: ClassVar[type | None] = None
    moves_jobs: ClassVar[bool] = False
    offers: ClassVar[Mapping[str, str]] = {}

    @abstractmethod
    def open(self, settings: LiveSettings, folder: Path) -> OpenedCluster:
        """Return the cluster that the settings or this process's environment name; it is not asked yet.

        `folder` holds what is remembered of it. Raises NotFoundError and BadInputError for how it is reached,
        OSError for the folder.
        """

    def open_to_restore(self, settings: LiveSettings, folder: Path) -> RestorableCluster:
        """Return the cluster for giving everything back, and what returns moved jobs; raises as `open`."""
        return self.open(settings, folder).adapter, None

    def open_for(self, part: LiveCapability, settings: LiveSettings, folder: Path) -> Any:
        """Return what does here what a part needs; raises BadInputError where nothing does, OSError."""
        return at_place(self._place_for(part, settings))(settings, folder)

    def _place_for(self, part: LiveCapability, settings: LiveSettings) -> str:
        place = self.offers.get(part.name) or part.adapters.get(settings.adapter)
        if place is None:
            raise BadInputError(
                f"The adapter {settings.adapter!r} cannot {part.needs}.",
                remedy=f"Leave [{part.name}] out.",
            )
        return place

    def own_settings(self, settings: LiveSettings) -> Any:
        """Return its own settings, a `Settings`; raises BadInputError, UnknownNameError."""
        if self.Settings is None:
            return None
        return self.Settings(**checked_values(self.Settings, settings.adapter_settings))

    def check(self, settings: LiveSettings) -> None:
        """Refuse settings that it cannot follow; raises BadInputError, UnknownNameError."""
        if self.Settings is None and settings.adapter_settings:
            raise BadInputError(f"The adapter {settings.adapter!r} has no settings of its own.")
        self.own_settings(settings)
        if not self.moves_jobs and (settings.profiling_partition or settings.shared_partitions):
            raise BadInputError(
                f"The adapter {settings.adapter!r} neither moves jobs nor lets them share GPUs.",
                remedy="Leave profiling_partition and shared_partitions out.",
            )
        if settings.profiling_partition:
            profiling_part()
        parts = capabilities() if settings.tables else {}
        for name in settings.tables:
            if parts[name].needs:
                self._place_for(parts[name], settings)


def profiling_part() -> LiveCapability:
    """Return the part that does what the setting `profiling_partition` asks; NotFoundError without it."""
    part = capabilities().get(PROFILING_PARTITION)
    if part is None:
        raise lacking()[f"setting {PROFILING_PARTITION}"]
    return part


def _places() -> dict[str, str]:
    return {**offered("adapters"), **BUILT_IN}


def adapter_names() -> list[str]:
    """Return the names of the adapters that are installed."""
    return sorted(_places())


def adapter_kind(name: str) -> AdapterKind:
    """Return an adapter's kind; raises UnknownNameError with the alternatives, BadInputError for no kind.

    Raises NotFoundError for one of a part that is not installed.
    """
    place = BUILT_IN.get(name) or _places().get(name)
    if place is None:
        raise lacking().get(f"adapter {name}") or UnknownNameError("adapter", name, adapter_names())
    kind = at_place(place)
    if not (isinstance(kind, type) and issubclass(kind, AdapterKind)):
        raise BadInputError(
            f"The adapter {name!r} is {kind!r}.",
            remedy=f"{place} must be a subclass of live_scheduler.adapters.AdapterKind.",
        )
    return kind()
