"""Which device a name stands for."""

from importlib.util import find_spec

from foundation.errors import BadInputError, ServiceUnavailableError
from profiler_jobs.devices.device import DeviceKind, ProfilingDevice
from profiler_jobs.devices.host_cores import cores_of_gpu
from profiler_jobs.devices.host_cpu import HostCpu
from profiler_jobs.devices.nvidia import open_nvidia
from profiler_jobs.devices.processes import ProcessDevice
from profiler_jobs.devices.simulated import SimulatedGpu

SIMULATED, CPU = "simulated", "cpu"
_FORMS = "simulated, simulated:SEED, cpu, a GPU's number as nvidia-smi counts them, or its UUID"


def open_device(name: str) -> ProfilingDevice:
    """Return the device called `simulated`, `simulated:SEED`, `cpu`, or a GPU by its number or UUID.

    Raises BadInputError for another name, ServiceUnavailableError without PyTorch, a driver or a fit GPU, and
    NotFoundError for a GPU that is not there.
    """
    kind = kind_of_device(name)
    if kind == DeviceKind.SIMULATED:
        seed = name.partition(":")[2]
        if seed and not seed.isdecimal():
            raise BadInputError(f"{seed!r} is no seed.", remedy="Give a whole number, as in simulated:7.")
        return SimulatedGpu(int(seed or 0))
    if find_spec("torch") is None:
        raise ServiceUnavailableError(
            "Training the workloads needs PyTorch, which is not installed.",
            remedy="Install a build for this machine's GPU, or choose the device `simulated`.",
        )
    if kind == DeviceKind.CPU:
        return ProcessDevice(HostCpu())
    telemetry = open_nvidia(int(name) if name.isdecimal() else name)
    return ProcessDevice(telemetry, cores=cores_of_gpu(*telemetry.position))


def kind_of_device(name: str) -> DeviceKind:
    """Return what stands behind a device's name. Raises BadInputError where nothing does, `auto` too."""
    if name == CPU:
        return DeviceKind.CPU
    if name.partition(":")[0] == SIMULATED:
        return DeviceKind.SIMULATED
    if name.isdecimal() or name.startswith(("GPU-", "MIG-")):
        return DeviceKind.GPU
    raise BadInputError(f"There is no device {name!r}.", remedy=f"Give {_FORMS}.")
