"""The seam between measuring and hardware: a device runs configurations in windows of time and says what it
saw.

A *run* loads configurations once, warms them up, and then goes through windows; in each window
some of them train while the others are paused with their memory in place. So one run of a pair holds the solo
speeds of both, measured beside the colocated ones on the same device at the same clocks, and none of them
pays for a start again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol, runtime_checkable

from profiler_jobs.workloads import JobType


class DeviceKind(StrEnum):
    """What stands behind the numbers. Only rows of a GPU may enter a release of a real cluster."""

    GPU = "gpu"
    SIMULATED = "simulated"
    CPU = "cpu"  # the training steps of the zoo on the host's processor: proves the harness, profiles no GPU


class SharingMode(StrEnum):
    """How processes share the device."""

    TIME_SLICING = "time-slicing"
    MPS = "mps"
    SIMULATED = "simulated"
    PROCESSOR = "processor"  # the operating system's scheduler, on a CPU


@dataclass(frozen=True)
class DeviceDescription:
    """Which device it is and how it is set up; what a device does not say is None.

    `memory_mib` is its whole memory. `mig` tells whether MIG is on (never changed by us).
    """

    name: str
    kind: DeviceKind
    memory_mib: float
    sharing_mode: SharingMode
    uuid: str | None = None
    driver: str | None = None
    mig: bool | None = None


@dataclass(frozen=True)
class DeviceWindow:
    """A stretch of a run: which of its configurations train (by position), and for how many seconds."""

    active: tuple[int, ...]
    seconds: float


@dataclass(frozen=True)
class Telemetry:
    """What the device reported over one window; utilisations are means in percent, memory the maximum in MiB.

    Memory is that of the configurations that trained where the device tells what each process holds
    (`memory_by_process`), else that of the whole run.
    `energy_j` is what the window took in all; clocks are means in MHz; `throttle_reasons` are the driver's
    names of what held the clocks back at any time, sorted; `samples` counts the utilisation samples behind
    the mean, and `utilisation_source` says where they are from. What a device does not report is None.
    """

    gpu_util_pct: float
    gpu_mem_util_pct: float
    gpu_mem_mib: float
    samples: int
    power_w: float | None = None
    energy_j: float | None = None
    sm_clock_mhz: float | None = None
    mem_clock_mhz: float | None = None
    throttle_reasons: tuple[str, ...] = ()
    utilisation_source: str | None = None
    memory_by_process: bool = False


@dataclass(frozen=True)
class WindowRecord:
    """What happened in one window.

    `speeds` has one entry a configuration of the run: examples a second, None where it was paused. `overlap`
    is the share of the window in which all active ones trained, in [0, 1]. `steps` counts each one's whole
    training steps within the window. `host_probes_s` is what the same short loop took each on the core that
    it was bound to; None where it was paused, empty where none was bound.
    """

    window: DeviceWindow
    started: datetime  # UTC
    seconds: float
    speeds: tuple[float | None, ...]
    steps: tuple[int, ...]
    overlap: float
    telemetry: Telemetry
    host_probes_s: tuple[float | None, ...] = ()


@dataclass(frozen=True)
class OutOfMemory:
    """The configurations do not fit the device's memory together: a finding, not an error.

    `needed_mib` is what they would have needed where that is known, else None.
    """

    needed_mib: float | None
    capacity_mib: float
    detail: str = ""


@dataclass(frozen=True)
class RunFailure:
    """The run broke off for another reason: a crash, a device that fell off, a worker that stood still.

    `last_words` is the end of what the worker in question wrote to its stdout and stderr.
    """

    reason: str
    last_words: str = ""


RunOutcome = tuple[WindowRecord, ...] | OutOfMemory | RunFailure
# From what all windows of a run showed so far to the windows that follow in it; none: the run ends.
NextWindows = Callable[[tuple[WindowRecord, ...]], Sequence[DeviceWindow]]


class ProfilingDevice(Protocol):
    """A GPU, real or simulated, that runs configurations of the zoo."""

    @property
    def description(self) -> DeviceDescription:
        """Return which device this is."""

    def run(
        self,
        job_types: Sequence[JobType],
        windows: Sequence[DeviceWindow],
        *,
        warmup_s: float,
        then: NextWindows | None = None,
    ) -> RunOutcome:
        """Load the configurations, warm each up (10 steps at least, and `warmup_s`), run the windows.

        `then` chooses further windows by what all before them showed, until it chooses none, while all
        stay loaded. A window trains one or two.
        Leaves no process on the device, whatever the outcome.
        """

    def run_overhead_s(self) -> float:
        """Return about how long a run takes besides its windows and warm-up, for a plan's expected time."""


class TelemetrySource(Protocol):
    """Samples one device in the background while workers run on it."""

    def describe(self) -> DeviceDescription:
        """Return which device this is and how it is shared now."""

    def start(self) -> None:
        """Begin to sample."""

    def window(self, begin_s: float, end_s: float, active: Sequence[int] = ()) -> Telemetry:
        """Return what was seen in [begin_s, end_s), on `time.monotonic()`'s clock.

        `active` are the processes that trained.
        """

    def stop(self) -> None:
        """Stop sampling and release the device."""

    def process_ids(self) -> tuple[int, ...]:
        """Return the processes that hold the device at present."""


@runtime_checkable
class WatchesProcesses(Protocol):
    """A telemetry source that has to know which processes make up a run."""

    def watch(self, process_ids: Sequence[int]) -> None:
        """Take these for the run's processes, from now on."""
