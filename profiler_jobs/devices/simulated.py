"""A simulated GPU: seeded, deterministic, and open about its interference model.

Alone, a configuration behaves as its training-step model says (`cluster_logs.synthetic.workload_zoo`), with a
small measuring error. Together, two jobs i and j contend for the GPU:

    device time of i grows by (COMPUTE_CONTENTION + MEMORY_CONTENTION x m_i x m_j) x b_j
    host time of i grows by   HOST_CONTENTION x b_j

where `b_j` is the share of time in which the partner has kernels on the GPU and `m` is the share of kernel
time that moves memory; the host part grows because launches wait for the partner's kernels. A job that
waits for its own host (low GPU utilisation) hides most of the stretched device time, which is why the sum of
utilisations predicts interference (Lucid, Figure 2a). `b` is solved for as a fixed point. The GPU is busy for
the union of two independent busy shares. Memory adds up, and a pair that exceeds the card is out of memory.
The constants make pairs whose utilisations sum to 100 % run at about 0.93 of solo speed and two saturating
jobs at about 0.6, as Lucid reports for an RTX 3090 (Section 2.3, Figures 2a and 3a).

Not modelled: PCIe, CPU contention, clocks, multi-GPU jobs, speed-ups above 1 from caching or clock changes.
"""

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from profiler_jobs.devices.device import (
    DeviceDescription,
    DeviceKind,
    DeviceWindow,
    NextWindows,
    OutOfMemory,
    RunOutcome,
    SharingMode,
    Telemetry,
    WindowRecord,
)
from profiler_jobs.workloads import JobType, step_time_ms

COMPUTE_CONTENTION = 0.50
MEMORY_CONTENTION = 0.30
HOST_CONTENTION = 0.07
# Spread (standard deviation of the logarithm) between repeated measurements of one speed, of one utilisation.
_SPEED_SPREAD = 0.012
_UTILISATION_SPREAD = 0.015
_FIXED_POINT_ROUNDS = 50
_SAMPLES_PER_S = 6.0
# Simulated runs happen on a clock of their own, so that the same seed gives the same table on any day.
_CLOCK_START = datetime(2000, 1, 1, tzinfo=UTC)
_RUN_OVERHEAD_S = 12.0


class SimulatedGpu:
    """A card of the RTX 3090's class (24 GiB) that exists only as a model.

    The error of a measurement depends on the seed, on what is measured and on the window within its run,
    never on the order of measuring. Runs take no time, unless `seconds_per_run` asks each to last so long.
    """

    def __init__(
        self,
        seed: int,
        *,
        name: str = "simulated-24gib",
        capacity_mib: float = 24_576.0,
        seconds_per_run: float = 0.0,
    ) -> None:
        self._seed = seed
        self._capacity_mib = capacity_mib
        self._seconds_per_run = seconds_per_run
        self._description = DeviceDescription(
            name, DeviceKind.SIMULATED, capacity_mib, SharingMode.SIMULATED, driver=f"simulation, seed {seed}"
        )

    @property
    def description(self) -> DeviceDescription:
        """Return the card's description."""
        return self._description

    def run_overhead_s(self) -> float:
        """Return what starting and stopping would take on a card of this class."""
        return _RUN_OVERHEAD_S

    def run(
        self,
        job_types: Sequence[JobType],
        windows: Sequence[DeviceWindow],
        *,
        warmup_s: float,
        then: NextWindows | None = None,
    ) -> RunOutcome:
        """Return what the model says of every window, with a measuring error."""
        if self._seconds_per_run:
            time.sleep(self._seconds_per_run)
        needed_mib = sum(job_type.gpu_mem_mib for job_type in job_types)
        if needed_mib > self._capacity_mib:
            return OutOfMemory(needed_mib, self._capacity_mib)
        began = _CLOCK_START + timedelta(seconds=_RUN_OVERHEAD_S + warmup_s * len(job_types))
        records = self._records(job_types, windows, began, 0)
        while then is not None and (further := then(records)):
            began += timedelta(seconds=sum(window.seconds for window in windows))
            windows = further
            records += self._records(job_types, windows, began, len(records))
        return records

    def _records(
        self, job_types: Sequence[JobType], windows: Sequence[DeviceWindow], began: datetime, before: int
    ) -> tuple[WindowRecord, ...]:
        errors = self._errors(job_types, len(windows), before)
        behaviours = {
            active: _behaviour(job_types, active) for active in {window.active for window in windows}
        }
        records: list[WindowRecord] = []
        for window, error in zip(windows, errors, strict=True):
            records.append(_record(job_types, window, behaviours[window.active], error, began))
            began += timedelta(seconds=window.seconds)
        return tuple(records)

    def _errors(self, job_types: Sequence[JobType], windows: int, before: int) -> NDArray[np.float64]:
        """Factors on each one's speed (two at least) and, last, on utilisations, a row a window.

        `before`: how many windows the run has had.
        """
        named = "|".join((str(self._seed), self._description.name, *(each.name for each in job_types)))
        named += f"|{before}" if before else ""
        digest = hashlib.sha256(named.encode()).digest()
        drawn = np.random.default_rng(int.from_bytes(digest[:8], "big")).standard_normal(
            (windows, max(2, len(job_types)) + 1)
        )
        drawn[:, :-1] *= _SPEED_SPREAD
        drawn[:, -1] *= _UTILISATION_SPREAD
        return np.exp(drawn)


@dataclass(frozen=True)
class _Behaviour:
    """What the active configurations do, without error: speeds in examples/s, busy and traffic in [0, 1]."""

    speeds: dict[int, float]
    busy: float
    traffic: float


def _behaviour(job_types: Sequence[JobType], active: tuple[int, ...]) -> _Behaviour:
    jobs = [job_types[index] for index in active]
    relative, busy = [1.0], jobs[0].gpu_util_pct / 100.0
    if len(jobs) == 2:
        speed_1, speed_2, busy_1, busy_2 = contend(*jobs)
        relative, busy = [speed_1, speed_2], 1.0 - (1.0 - busy_1) * (1.0 - busy_2)
    return _Behaviour(
        {index: job.speed * slowed for index, job, slowed in zip(active, jobs, relative, strict=True)},
        busy,
        sum(job.gpu_mem_util_pct / 100.0 * slowed for job, slowed in zip(jobs, relative, strict=True)),
    )


def _record(
    job_types: Sequence[JobType],
    window: DeviceWindow,
    behaviour: _Behaviour,
    error: NDArray[np.float64],
    began: datetime,
) -> WindowRecord:
    speeds: list[float | None] = [None] * len(job_types)
    steps = [0] * len(job_types)
    for index, speed in behaviour.speeds.items():
        measured = speed * float(error[index])
        speeds[index], steps[index] = measured, int(measured * window.seconds / job_types[index].batch_size)
    telemetry = Telemetry(
        gpu_util_pct=min(100.0, 100.0 * behaviour.busy * float(error[-1])),
        gpu_mem_util_pct=min(100.0, 100.0 * behaviour.traffic * float(error[-1])),
        gpu_mem_mib=sum(job_types[index].gpu_mem_mib for index in window.active),
        samples=int(window.seconds * _SAMPLES_PER_S),
        memory_by_process=True,
    )
    return WindowRecord(window, began, window.seconds, tuple(speeds), tuple(steps), 1.0, telemetry)


def contend(first: JobType, second: JobType) -> tuple[float, float, float, float]:
    """Return both normalised speeds and both busy shares of the GPU, in [0, 1], without measuring error."""
    busy = [first.gpu_util_pct / 100.0, second.gpu_util_pct / 100.0]
    contention = COMPUTE_CONTENTION + MEMORY_CONTENTION * first.memory_traffic * second.memory_traffic
    costs = [(job.host_ms, job.device_ms, job.step_ms) for job in (first, second)]
    speeds = [1.0, 1.0]
    for _ in range(_FIXED_POINT_ROUNDS):
        stretched = []
        for own, (host_ms, device_ms, alone_ms) in enumerate(costs):
            device_ms *= 1.0 + contention * busy[1 - own]
            step_ms = step_time_ms(host_ms * (1.0 + HOST_CONTENTION * busy[1 - own]), device_ms)
            speeds[own] = alone_ms / step_ms
            stretched.append(min(1.0, device_ms / step_ms))
        busy = stretched
    return speeds[0], speeds[1], busy[0], busy[1]
