"""The seam between measuring and the GPU: what a device must be able to say."""

from dataclasses import dataclass
from typing import Protocol

from profiler_jobs.workloads import JobType


@dataclass(frozen=True)
class SoloMeasurement:
    """One configuration alone: speed in samples per second, utilisation in percent, peak memory in MiB."""

    speed: float
    gpu_util_pct: float
    gpu_mem_util_pct: float
    gpu_mem_mib: float


@dataclass(frozen=True)
class PairMeasurement:
    """Two configurations on one GPU: normalised speeds, joint utilisation in percent, peak memory in MiB."""

    speed_1: float
    speed_2: float
    gpu_util_pct: float
    gpu_mem_util_pct: float
    gpu_mem_mib: float


@dataclass(frozen=True)
class OutOfMemory:
    """The workload does not fit the device's memory: a finding, not an error."""

    needed_mib: float
    capacity_mib: float


class ProfilingDevice(Protocol):
    """A GPU, real or simulated, that runs configurations of the zoo."""

    @property
    def name(self) -> str:
        """Return the device's name as it appears in the profile tables."""

    @property
    def simulated(self) -> bool:
        """Return whether the numbers come from a model instead of hardware."""

    def measure_solo(self, job_type: JobType) -> SoloMeasurement | OutOfMemory:
        """Run one configuration alone."""

    def measure_pair(self, first: JobType, second: JobType) -> PairMeasurement | OutOfMemory:
        """Run two configurations on the same GPU at the same time."""
