"""A device that runs each configuration in a process of its own: a real GPU, or the host's processor.

A run starts one worker a configuration, side by side; each builds its workload and warms up alone. Then come
the windows. A window opens when all of its workers have completed a step since they were resumed and
`settle_s` more have passed; it is [begin, begin + seconds) on the monotonic clock that all processes share;
and none is paused before all of them have completed a step after its end, so that every step that counts ran
under the window's conditions. How completion times become speeds is said in `windows.py`.

A partner costs a worker the device only, as it would on a node whose scheduler gives every job its own cores.
Where cores are given (`host_cores.py`) each is bound to one, and says how quick that was in each window. Else
each gets half of the host's cores as its number of threads, alone or not.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from statistics import median
from typing import Self

from foundation.errors import BadInputError, ServiceUnavailableError
from foundation.usable_cores import usable_cores
from profiler_jobs.devices.device import (
    DeviceDescription,
    DeviceKind,
    DeviceWindow,
    NextWindows,
    OutOfMemory,
    RunFailure,
    RunOutcome,
    Telemetry,
    TelemetrySource,
    WatchesProcesses,
    WindowRecord,
)
from profiler_jobs.devices.host_cores import HostCores, bind_process
from profiler_jobs.method import WARMUP_STEPS_MIN
from profiler_jobs.workers.crew import Crew, Worker, WorkerFailedError
from profiler_jobs.workers.fork_server import ForkServer
from profiler_jobs.workers.host_speed import mean_probe_s
from profiler_jobs.workers.windows import Span, overlap
from profiler_jobs.workloads import JobType

CATALOGUE = "profiler_jobs.zoo.catalogue"
PRELOAD: tuple[str, ...] = ("numpy", "torch", "profiler_jobs.workloads")
# Only saves time, where it is installed: most of what PyTorch's optimizers import at their first use.
PRELOAD_IF_INSTALLED: tuple[str, ...] = ("sympy",)
SEED = 0
_RELEASE_LIMIT_S = 15.0  # for the driver to let go of processes that have ended
_RELEASE_POLL_S = 0.1
_OVERHEAD_GUESS_S = 20.0
_OVERHEADS_KEPT = 5
_UNSEEN = Telemetry(float("nan"), float("nan"), float("nan"), 0)


class _ForkRefusedError(Exception):
    """CUDA cannot be used in a fork of the fork server."""


class ProcessDevice:
    """A `ProfilingDevice` over real processes on the device that `telemetry` watches.

    `catalogue` is the module whose `load_build(job_type)` finds a workload. A worker that says nothing for
    `silence_limit_s` while it should is given up. `cores` are those that workers are bound to, if any.
    `close()` ends the process that workers are forked from; so does the end of this process, whatever ends
    it.
    """

    def __init__(
        self,
        telemetry: TelemetrySource,
        *,
        catalogue: str = CATALOGUE,
        silence_limit_s: float = 180.0,
        settle_s: float = 0.5,
        cores: HostCores | None = None,
    ) -> None:
        self._telemetry = telemetry
        self._catalogue = catalogue
        self._silence_limit_s = silence_limit_s
        self._settle_s = settle_s
        self._description = telemetry.describe()
        self._cores = cores
        self._server: ForkServer | None = None
        self._preload = PRELOAD + tuple(name for name in PRELOAD_IF_INSTALLED if find_spec(name))
        self._overheads_s: list[float] = []

    @property
    def description(self) -> DeviceDescription:
        """Return which device this is; after a run, as it was while the workers held it."""
        return self._description

    def run_overhead_s(self) -> float:
        """Return the median of what the last runs took besides windows and warm-up; before, a guess."""
        return median(self._overheads_s[-_OVERHEADS_KEPT:]) if self._overheads_s else _OVERHEAD_GUESS_S

    def run(
        self,
        job_types: Sequence[JobType],
        windows: Sequence[DeviceWindow],
        *,
        warmup_s: float,
        then: NextWindows | None = None,
    ) -> RunOutcome:
        """Run the configurations; see the seam and this module's first lines.

        Raises ServiceUnavailableError when no worker can be started at all, BadInputError for windows that
        name no configuration of the run.
        """
        _check(job_types, windows)
        began_s = time.monotonic()
        try:
            outcome = self._attempt(job_types, windows, warmup_s, then)
        except _ForkRefusedError:
            # What PyTorch imports has used CUDA, as has happened: from now on, workers import it themselves.
            self._preload = ()
            outcome = self._attempt(job_types, windows, warmup_s, then)
        if isinstance(outcome, tuple) and then is None:  # plans ask what a run of one task takes
            planned_s = len(job_types) * warmup_s + sum(window.seconds for window in windows)
            self._overheads_s.append(max(0.0, time.monotonic() - began_s - planned_s))
        return outcome

    def close(self) -> None:
        """End the process that workers are forked from, and with it any worker that is left."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _attempt(
        self,
        job_types: Sequence[JobType],
        windows: Sequence[DeviceWindow],
        warmup_s: float,
        then: NextWindows | None,
    ) -> RunOutcome:
        outcome: RunOutcome
        try:
            self._telemetry.start()
            strangers = set(self._telemetry.process_ids())
            with self._start_crew(job_types) as crew:
                if isinstance(self._telemetry, WatchesProcesses):
                    self._telemetry.watch(crew.process_ids)
                try:
                    outcome = self._drive(crew, windows, warmup_s, then)
                except WorkerFailedError as failure:
                    if failure.no_cuda and self._preload:
                        raise _ForkRefusedError from failure
                    outcome = self._outcome(failure)
                except ServiceUnavailableError as failure:  # the device, or what watches it, fell off
                    outcome = RunFailure(str(failure))
            return self._left_behind(crew, strangers) or outcome
        except BaseException:
            self.close()
            raise
        finally:
            self._telemetry.stop()

    def _start_crew(self, job_types: Sequence[JobType]) -> Crew:
        if self._server is not None and not self._server.alive:
            self.close()
        if self._server is None:
            threads = 1 if self._cores is not None else max(1, usable_cores() // 2)
            self._server = ForkServer(worker_environment(self._description, threads), self._preload)
        on_gpu = self._description.kind is DeviceKind.GPU
        task = {
            "catalogue": self._catalogue,
            "device": "cuda:0" if on_gpu else "cpu",
            "uuid": self._description.uuid,
            "seed": SEED,
            "probe": self._cores is not None,
        }
        tasks = [(job_type.name, {**task, "job_type": job_type.name}) for job_type in job_types]
        return Crew(self._server, tasks, self._silence_limit_s)

    def _drive(
        self, crew: Crew, windows: Sequence[DeviceWindow], warmup_s: float, then: NextWindows | None
    ) -> tuple[WindowRecord, ...]:
        crew.wait_until_built()
        for worker in crew.workers:
            crew.train([worker], steps=WARMUP_STEPS_MIN, until_s=time.monotonic() + warmup_s)
            crew.pause([worker])
        self._description = self._telemetry.describe()
        records = self._run_windows(crew, windows)
        while then is not None and (further := then(records)):
            _check_windows(further, len(crew.workers))
            records += self._run_windows(crew, further)
        return records

    def _run_windows(self, crew: Crew, windows: Sequence[DeviceWindow]) -> tuple[WindowRecord, ...]:
        readings = [self._run_window(crew, window) for window in windows]
        pids = crew.process_ids
        # Only now, because a driver may be seconds late with a window's last samples.
        return tuple(
            replace(
                record,
                telemetry=self._telemetry.window(*span, [pids[index] for index in record.window.active]),
            )
            for record, span in readings
        )

    def _run_window(self, crew: Crew, window: DeviceWindow) -> tuple[WindowRecord, Span]:
        active = [crew.workers[index] for index in window.active]
        self._bind(active)
        settle_s = min(self._settle_s, window.seconds / 2)
        crew.train(active, steps=1, until_s=0.0)
        begin_s = time.monotonic() + settle_s
        started = datetime.now(UTC) + timedelta(seconds=settle_s)
        end_s = begin_s + window.seconds
        crew.train(active, steps=0, until_s=end_s)
        stretches = crew.pause(active)
        speeds: list[float | None] = [None] * len(crew.workers)
        steps = [0] * len(crew.workers)
        probes_s: list[float | None] = [None] * len(crew.workers)
        for index, worker, stretch in zip(window.active, active, stretches, strict=True):
            speeds[index] = stretch.rate(begin_s, end_s) * worker.examples_per_step
            steps[index] = stretch.whole_steps(begin_s, end_s)
            probes_s[index] = mean_probe_s(stretch.probes, begin_s, end_s)
        share = overlap(stretches, begin_s, end_s)
        record = WindowRecord(
            window,
            started,
            window.seconds,
            tuple(speeds),
            tuple(steps),
            share,
            _UNSEEN,
            tuple(probes_s) if self._cores is not None else (),
        )
        return record, (begin_s, end_s)

    def _bind(self, workers: Sequence[Worker]) -> None:
        if self._cores is not None:
            for worker, core in zip(workers, self._cores.choose(len(workers)), strict=True):
                bind_process(worker.process.pid, (core,))

    def _outcome(self, failure: WorkerFailedError) -> OutOfMemory | RunFailure:
        if failure.out_of_memory:
            return OutOfMemory(None, self._description.memory_mib, str(failure))
        return RunFailure(str(failure), failure.last_words)

    def _left_behind(self, crew: Crew, strangers: set[int]) -> RunFailure | None:
        """Wait until the device is as free as before; name the processes that still hold it otherwise."""
        if crew.unkillable:
            self.close()
            return RunFailure(f"Processes {_listed(crew.unkillable)} of the run cannot be ended.")
        deadline_s = time.monotonic() + _RELEASE_LIMIT_S
        while left := sorted(set(self._telemetry.process_ids()) - strangers):
            if time.monotonic() > deadline_s:
                return RunFailure(f"Processes {_listed(left)} hold the device after the run.")
            time.sleep(_RELEASE_POLL_S)
        return None


def worker_environment(device: DeviceDescription, threads: int) -> dict[str, str]:
    """Return the environment that shows workers this device only, and gives each so many threads.

    Raises BadInputError for a GPU without a UUID.
    """
    environment = {
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "OPENBLAS_NUM_THREADS": "1",  # NumPy's own: the fork server stays single-threaded
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "",
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # asking whether there is a GPU must not initialise CUDA
        "PYTHONFAULTHANDLER": "1",
    }
    if device.kind is DeviceKind.GPU:
        if device.uuid is None:
            raise BadInputError(f"{device.name} has no UUID.", remedy="Update the NVIDIA driver.")
        environment["CUDA_VISIBLE_DEVICES"] = device.uuid
    return environment


def _check(job_types: Sequence[JobType], windows: Sequence[DeviceWindow]) -> None:
    if not job_types:
        raise BadInputError("A run has no configuration.", remedy="Give one, or two to share the device.")
    _check_windows(windows, len(job_types))


def _check_windows(windows: Sequence[DeviceWindow], configurations: int) -> None:
    for window in windows:
        positions = set(window.active)
        if (
            len(positions) not in (1, 2)
            or len(positions) != len(window.active)
            or not positions <= set(range(configurations))
        ):
            raise BadInputError(
                f"A window trains configurations {window.active}, of {configurations}.",
                remedy="Name one or two that train, each once, by its position in the run.",
            )
        if window.seconds <= 0.0:
            raise BadInputError(f"A window lasts {window.seconds} s.", remedy="Give it a positive length.")


def _listed(process_ids: Sequence[int]) -> str:
    return ", ".join(map(str, process_ids))
