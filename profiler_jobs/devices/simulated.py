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

import numpy as np

from cluster_logs.progress import Progress, silent
from profiler_jobs.campaign import measure_profiles
from profiler_jobs.devices.device import OutOfMemory, PairMeasurement, SoloMeasurement
from profiler_jobs.profile_table import ProfileSet
from profiler_jobs.workloads import JobType, step_time_ms

COMPUTE_CONTENTION = 0.50
MEMORY_CONTENTION = 0.30
HOST_CONTENTION = 0.07
# Spread (standard deviation of the logarithm) between repeated measurements of one speed, of one utilisation.
_SPEED_SPREAD = 0.012
_UTILISATION_SPREAD = 0.015
_FIXED_POINT_ROUNDS = 50


class SimulatedGpu:
    """A card of the RTX 3090's class (24 GiB) that exists only as a model.

    The error of a measurement depends on the seed and on what is measured, never on the order of measuring.
    """

    def __init__(self, seed: int, *, name: str = "simulated-24gib", capacity_mib: float = 24_576.0) -> None:
        self._seed = seed
        self._name = name
        self._capacity_mib = capacity_mib

    @property
    def name(self) -> str:
        """Return the device's name."""
        return self._name

    @property
    def simulated(self) -> bool:
        """Return True: nothing here was measured on hardware."""
        return True

    def measure_solo(self, job_type: JobType) -> SoloMeasurement | OutOfMemory:
        """Return the step model's figures with a measuring error."""
        if job_type.gpu_mem_mib > self._capacity_mib:
            return OutOfMemory(job_type.gpu_mem_mib, self._capacity_mib)
        speed_error, util_error = self._errors(job_type.name)
        return SoloMeasurement(
            speed=job_type.speed * speed_error,
            gpu_util_pct=min(100.0, job_type.gpu_util_pct * util_error),
            gpu_mem_util_pct=min(100.0, job_type.gpu_mem_util_pct * util_error),
            gpu_mem_mib=job_type.gpu_mem_mib,
        )

    def measure_pair(self, first: JobType, second: JobType) -> PairMeasurement | OutOfMemory:
        """Return normalised speeds and joint use under contention, with a measuring error."""
        needed_mib = first.gpu_mem_mib + second.gpu_mem_mib
        if needed_mib > self._capacity_mib:
            return OutOfMemory(needed_mib, self._capacity_mib)
        speed_1, speed_2, busy_1, busy_2 = contend(first, second)
        error_1, util_error = self._errors(first.name, second.name, "first")
        error_2, _ = self._errors(first.name, second.name, "second")
        busy = 1.0 - (1.0 - busy_1) * (1.0 - busy_2)
        traffic = first.gpu_mem_util_pct * speed_1 + second.gpu_mem_util_pct * speed_2
        return PairMeasurement(
            speed_1=speed_1 * error_1,
            speed_2=speed_2 * error_2,
            gpu_util_pct=min(100.0, 100.0 * busy * util_error),
            gpu_mem_util_pct=min(100.0, traffic * util_error),
            gpu_mem_mib=needed_mib,
        )

    def _errors(self, *what: str) -> tuple[float, float]:
        digest = hashlib.sha256("|".join((str(self._seed), self._name, *what)).encode()).digest()
        speed, utilisation = np.random.default_rng(int.from_bytes(digest[:8], "big")).standard_normal(2)
        return float(np.exp(_SPEED_SPREAD * speed)), float(np.exp(_UTILISATION_SPREAD * utilisation))


def contend(first: JobType, second: JobType) -> tuple[float, float, float, float]:
    """Return both normalised speeds and both busy shares of the GPU, in [0, 1], without measuring error."""
    busy = [first.gpu_util_pct / 100.0, second.gpu_util_pct / 100.0]
    speeds = [1.0, 1.0]
    for _ in range(_FIXED_POINT_ROUNDS):
        stretched = []
        for own, job, partner in ((0, first, second), (1, second, first)):
            memory = MEMORY_CONTENTION * job.memory_traffic * partner.memory_traffic
            stretch = 1.0 + (COMPUTE_CONTENTION + memory) * busy[1 - own]
            launch_wait = 1.0 + HOST_CONTENTION * busy[1 - own]
            step_ms = step_time_ms(job.host_ms * launch_wait, job.device_ms * stretch)
            speeds[own] = job.step_ms / step_ms
            stretched.append(min(1.0, job.device_ms * stretch / step_ms))
        busy = stretched
    return speeds[0], speeds[1], busy[0], busy[1]


def measure_simulated_profiles(seed: int, progress: Progress = silent) -> ProfileSet:
    """Measure the whole zoo on the simulated GPU: 66 solo rows, and all pairs that fit."""
    return measure_profiles(SimulatedGpu(seed), progress=progress)
