"""The host's processor as a device: what the run's processes take of it, from /proc.

It makes the harness provable with real, colocated processes where there is no GPU. It profiles no GPU, and
its rows say so (`DeviceKind.CPU`).

    utilisation    processor time of the run's processes over the time of the cores they may use, in percent
    memory         their resident set sizes, added up; pages that two of them share count for each
    memory utilisation, power, clocks    not known: NaN, None
"""

import os
import platform
import threading
import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from foundation.usable_cores import usable_cores
from profiler_jobs.devices.device import DeviceDescription, DeviceKind, SharingMode, Telemetry

SAMPLE_EVERY_S = 0.1
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_MIB = os.sysconf("SC_PAGE_SIZE") / 2**20
_STOP_LIMIT_S = 5.0


@dataclass(frozen=True)
class _Sample:
    time_s: float
    cpu_s: float  # of all watched processes since they started
    resident_mib: dict[int, float]  # by process


class HostCpu:
    """A `TelemetrySource` that watches processes on the processor."""

    def __init__(self) -> None:
        self._cores = usable_cores()
        self._process_ids: tuple[int, ...] = ()
        self._samples: list[_Sample] = []
        self._sampling = threading.Lock()
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    def describe(self) -> DeviceDescription:
        """Return the processor, the cores that this process may use, and the host's memory."""
        memory_mib = os.sysconf("SC_PHYS_PAGES") * _PAGE_MIB
        name = f"{_processor_name()}, {self._cores} cores"
        return DeviceDescription(
            name, DeviceKind.CPU, memory_mib, SharingMode.PROCESSOR, driver=f"Linux {platform.release()}"
        )

    def watch(self, process_ids: Sequence[int]) -> None:
        """Take these for the run's processes; forget what was seen of others."""
        with self._sampling:
            self._process_ids = tuple(process_ids)
            self._samples = []

    def start(self) -> None:
        """Begin to sample."""
        self._ending.clear()
        self._thread = threading.Thread(target=self._sample_on, name="host-cpu-samples", daemon=True)
        self._thread.start()

    def window(self, begin_s: float, end_s: float, active: Sequence[int] = ()) -> Telemetry:
        """Return what was seen in [begin_s, end_s); memory of the active processes (none given: of all)."""
        self._sample()  # one at least lies behind the window's end
        samples = list(self._samples)
        times_s = [sample.time_s for sample in samples]
        inside = samples[bisect_left(times_s, begin_s) : bisect_left(times_s, end_s)]
        took_s = _cpu_at(samples, times_s, end_s) - _cpu_at(samples, times_s, begin_s)
        return Telemetry(
            gpu_util_pct=100.0 * took_s / ((end_s - begin_s) * self._cores),
            gpu_mem_util_pct=float("nan"),
            gpu_mem_mib=max(
                (
                    sum(sample.resident_mib[pid] for pid in active or sample.resident_mib)
                    for sample in inside or samples[-1:]
                ),
                default=0.0,
            ),
            samples=len(inside),
            memory_by_process=bool(active),
        )

    def stop(self) -> None:
        """Stop sampling; forget the processes."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join(_STOP_LIMIT_S)
            self._thread = None
        self.watch(())

    def process_ids(self) -> tuple[int, ...]:
        """Return which of the watched processes still exist."""
        return tuple(pid for pid in self._process_ids if Path(f"/proc/{pid}").exists())

    def _sample_on(self) -> None:
        while not self._ending.wait(SAMPLE_EVERY_S):
            self._sample()

    def _sample(self) -> None:
        with self._sampling:
            try:
                used = {pid: _used(pid) for pid in self._process_ids}
            except (FileNotFoundError, ProcessLookupError):
                return  # one has ended: its processor time is no longer known
            if used:
                cpu_s = sum(each for each, _ in used.values())
                resident_mib = {pid: each for pid, (_, each) in used.items()}
                self._samples.append(_Sample(time.monotonic(), cpu_s, resident_mib))


def _used(pid: int) -> tuple[float, float]:
    """Return a process's processor time in seconds and its resident memory in MiB (proc(5), `stat`)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user_ticks, system_ticks, resident_pages = int(fields[11]), int(fields[12]), int(fields[21])
    return (user_ticks + system_ticks) / _TICKS_PER_S, resident_pages * _PAGE_MIB


def _cpu_at(samples: Sequence[_Sample], times_s: Sequence[float], time_s: float) -> float:
    """Return the processor time at a moment, between the samples around it."""
    if not samples:
        return 0.0
    later = bisect_left(times_s, time_s)
    if later == 0 or later == len(samples):
        return samples[min(later, len(samples) - 1)].cpu_s
    before, after = samples[later - 1], samples[later]
    share = (time_s - before.time_s) / (after.time_s - before.time_s)
    return before.cpu_s + share * (after.cpu_s - before.cpu_s)


def _processor_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() == "model name" and value.strip():
            return value.strip()
    return platform.machine()
