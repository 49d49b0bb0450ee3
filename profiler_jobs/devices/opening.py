"""Which device a name stands for."""

from importlib.util import find_spec

from cluster_logs.errors import BadInputError, ServiceUnavailableError
from profiler_jobs.devices.device import ProfilingDevice
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
    kind, _, seed = name.partition(":")
    if kind == SIMULATED:
        if seed and not seed.isdecimal():
            raise BadInputError(f"{seed!r} is no seed.", remedy="Give a whole number, as in simulated:7.")
        return SimulatedGpu(int(seed or 0))
    is_number = name.isdecimal()
    if name != CPU and not is_number and not name.startswith(("GPU-", "MIG-")):
        raise BadInputError(f"{name!r} is no device.", remedy=f"Give {_FORMS}.")
    if find_spec("torch") is None:
        raise ServiceUnavailableError(
            "Training the workloads needs PyTorch, which is not installed.",
            remedy="Install a build for this machine's GPU, or choose the device `simulated`.",
        )
    if name == CPU:
        return ProcessDevice(HostCpu())
    return ProcessDevice(open_nvidia(int(name) if is_number else name))
