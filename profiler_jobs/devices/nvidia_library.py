"""NVIDIA's management library: opened, asked, and one clear line where it is not there.

The only module that imports `pynvml`. What a driver, a product, a container or a permission withholds is
None; only a GPU that is gone is an error. Where a call has an older name, that is tried too.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from foundation.errors import NotFoundError, ServiceUnavailableError

_MIB = 1024.0 * 1024.0
PROHIBITED, EXCLUSIVE_PROCESS = 2, 3  # NVML_COMPUTEMODE_...
_USE_SIMULATED = "Use --device simulated."
# After one of these nothing more comes from the GPU until someone repairs it.
_LOST = ("NVML_ERROR_GPU_IS_LOST", "NVML_ERROR_RESET_REQUIRED", "NVML_ERROR_DRIVER_NOT_LOADED")
_GROWING_LIST_TRIES = 3
# By NVML_VALUE_TYPE_...; older packages lack the names of the last ones.
_VALUE_FIELDS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class GpuProcess:
    """A process with a compute context on a GPU; its memory is None where the driver does not say."""

    process_id: int
    memory_mib: float | None


@dataclass(frozen=True)
class GpuMemory:
    """Memory of a GPU in MiB: all of it, and what is in use without what the driver keeps for itself."""

    total_mib: float
    used_mib: float
    reserved_mib: float


def load_library() -> Any:
    """Return `pynvml`, initialised; every call must be followed by one of `release_library`.

    Raises ServiceUnavailableError, in one line, without package, library, driver or permission.
    """
    try:
        import pynvml
    except ImportError as error:
        raise ServiceUnavailableError(
            "No NVIDIA GPU: the Python package nvidia-ml-py is not installed.", remedy=_USE_SIMULATED
        ) from error
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise ServiceUnavailableError(f"No NVIDIA GPU: {_why(error)}.", remedy=_USE_SIMULATED) from error
    except AttributeError as error:
        # A library of that name that is none: pynvml does not guard against that.
        raise ServiceUnavailableError(
            f"No NVIDIA GPU: libnvidia-ml.so.1 is not NVIDIA's library ({error}).", remedy=_USE_SIMULATED
        ) from error
    return pynvml


def release_library() -> None:
    """Undo one `load_library`."""
    import pynvml

    try:
        pynvml.nvmlShutdown()
    except pynvml.NVMLError:
        return  # shut down already, or the driver is gone: nothing is held


@contextmanager
def library() -> Iterator[Any]:
    """Yield `pynvml`, initialised, and release it."""
    nvml = load_library()
    try:
        yield nvml
    finally:
        release_library()


def _why(error: Any) -> str:
    """Return what the library's error means for the use of a GPU."""
    import pynvml

    meanings = {
        pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "the driver's library libnvidia-ml.so.1 is not on this machine",
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "its driver is not loaded",
        pynvml.NVML_ERROR_NO_PERMISSION: "the driver's devices /dev/nvidia* may not be read",
        pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "library and driver are of different versions (reboot?)",
    }
    return meanings.get(error.value, str(error))


class NvidiaCard:
    """One GPU of the driver's, asked by name; the library must be loaded while it is used."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml = nvml
        self._handle = handle
        self.name: str = self._ask("nvmlDeviceGetName") or "NVIDIA GPU"
        self.uuid: str = self._ask("nvmlDeviceGetUUID") or ""
        self.driver: str | None = _answer(nvml, nvml.nvmlSystemGetDriverVersion)

    def __str__(self) -> str:
        """Return the GPU's name and UUID, for messages."""
        return f"{self.name} ({self.uuid})"

    def _ask(self, call: str, *arguments: Any) -> Any:
        function = getattr(self._nvml, call, None)  # None: an older nvidia-ml-py
        return None if function is None else _answer(self._nvml, function, self._handle, *arguments)

    def utilisation_samples(self, after_us: int, *, memory: bool = False) -> list[tuple[int, float]] | None:
        """Return (stamp in microseconds, percent) of the ring, newer than a stamp; None: there is no ring.

        An idle GPU's ring may run dry: that is an empty list.
        """
        nvml = self._nvml
        kind = nvml.NVML_MEMORY_UTILIZATION_SAMPLES if memory else nvml.NVML_GPU_UTILIZATION_SAMPLES
        try:
            value_kind, samples = nvml.nvmlDeviceGetSamples(self._handle, kind, after_us)
        except nvml.NVMLError_NotFound:
            return []
        except nvml.NVMLError as error:
            _raise_if_lost(nvml, error)
            return None
        return [(int(sample.timeStamp), _number(value_kind, sample.sampleValue)) for sample in samples]

    def utilisation(self) -> tuple[float, float] | None:
        """Return the driver's latest means: (a kernel ran, memory was read or written), in percent."""
        rates = self._ask("nvmlDeviceGetUtilizationRates")
        if rates is None or rates.gpu > 100 or rates.memory > 100:
            return None
        return float(rates.gpu), float(rates.memory)

    def memory(self) -> GpuMemory | None:
        """Return the memory's size and use; an old driver counts what it keeps for itself as used."""
        answer = self._ask("nvmlDeviceGetMemoryInfo", self._nvml.nvmlMemory_v2)
        answer = answer or self._ask("nvmlDeviceGetMemoryInfo")
        if answer is None:
            return None
        reserved = getattr(answer, "reserved", 0)
        return GpuMemory(answer.total / _MIB, answer.used / _MIB, reserved / _MIB)

    def energy_j(self) -> float | None:
        """Return the energy taken since the driver was loaded (Volta and later)."""
        millijoules = self._ask("nvmlDeviceGetTotalEnergyConsumption")
        return None if millijoules is None else millijoules / 1_000

    def power_w(self) -> float | None:
        """Return the power drawn: the mean of the last second on Ampere and later."""
        milliwatts = self._ask("nvmlDeviceGetPowerUsage")
        return None if milliwatts is None else milliwatts / 1_000

    def clocks_mhz(self) -> tuple[float | None, float | None]:
        """Return the clocks of the multiprocessors and of the memory."""
        sm = self._ask("nvmlDeviceGetClockInfo", self._nvml.NVML_CLOCK_SM)
        memory = self._ask("nvmlDeviceGetClockInfo", self._nvml.NVML_CLOCK_MEM)
        return (None if sm is None else float(sm)), (None if memory is None else float(memory))

    def throttle_mask(self) -> int | None:
        """Return the bits of what holds the clocks back; drivers before 535 know the older name."""
        mask = self._ask("nvmlDeviceGetCurrentClocksEventReasons")
        mask = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons") if mask is None else mask
        return None if mask is None else int(mask)

    def mig(self) -> bool | None:
        """Return whether MIG is on; None: the product has none."""
        modes = self._ask("nvmlDeviceGetMigMode")
        return None if modes is None else bool(modes[0])

    def compute_mode(self) -> int | None:
        """Return the driver's compute mode (`PROHIBITED`, `EXCLUSIVE_PROCESS`, ...)."""
        mode = self._ask("nvmlDeviceGetComputeMode")
        return None if mode is None else int(mode)

    def processes(self) -> tuple[GpuProcess, ...] | None:
        """Return the processes with a compute context, clients of MPS too, by id; None: it does not say."""
        listed = self._list("nvmlDeviceGetComputeRunningProcesses")
        clients = self._list("nvmlDeviceGetMPSComputeRunningProcesses")
        if listed is None and clients is None:
            return None
        memory_mib_of: dict[int, float | None] = {}
        for process in (*(listed or ()), *(clients or ())):
            reported_mib = [
                mib for mib in (memory_mib_of.get(process.process_id), process.memory_mib) if mib is not None
            ]
            memory_mib_of[process.process_id] = max(reported_mib, default=None)
        return tuple(
            GpuProcess(process_id, memory_mib_of[process_id]) for process_id in sorted(memory_mib_of)
        )

    def mps_process_ids(self) -> tuple[int, ...] | None:
        """Return the processes that the driver lists as MPS's; None: this driver has no such list."""
        clients = self._list("nvmlDeviceGetMPSComputeRunningProcesses")
        return None if clients is None else tuple(sorted({client.process_id for client in clients}))

    def _list(self, call: str) -> list[GpuProcess] | None:
        nvml = self._nvml
        versions = (getattr(nvml, call + version, None) for version in ("_v3", "_v2"))
        for function in (each for each in versions if each is not None):
            for _ in range(_GROWING_LIST_TRIES):
                try:
                    processes = function(self._handle)
                except nvml.NVMLError_InsufficientSize:
                    continue  # processes came while it was asked
                except nvml.NVMLError as error:
                    _raise_if_lost(nvml, error)
                    break
                return [
                    GpuProcess(
                        int(each.pid), None if each.usedGpuMemory is None else each.usedGpuMemory / _MIB
                    )
                    for each in processes
                ]
        return None

    def process_name(self, process_id: int) -> str | None:
        """Return the driver's name of a process; None where it is of another namespace or user."""
        return _answer(self._nvml, self._nvml.nvmlSystemGetProcessName, process_id)


def all_cards(nvml: Any) -> tuple[NvidiaCard, ...]:
    """Return the GPUs that this process may use, in the driver's order (nvidia-smi's)."""
    cards = []
    for index in range(_answer(nvml, nvml.nvmlDeviceGetCount) or 0):
        handle = _answer(nvml, nvml.nvmlDeviceGetHandleByIndex, index)
        if handle is not None:  # None: a control group of a batch system keeps it for others
            cards.append(NvidiaCard(nvml, handle))
    return tuple(cards)


def visible_cards(nvml: Any, visible: str | None) -> tuple[NvidiaCard, ...]:
    """Return the GPUs in the order of CUDA_VISIBLE_DEVICES, or all of them where it is not set.

    Its entries are positions or (the beginnings of) UUIDs; like CUDA, nothing counts from the first on that
    names no GPU. A MIG instance is no GPU. Positions are nvidia-smi's, as with CUDA_DEVICE_ORDER=PCI_BUS_ID.
    """
    cards = all_cards(nvml)
    if visible is None:
        return cards
    visible_ones: list[NvidiaCard] = []
    for entry in (part.strip() for part in visible.split(",")):
        named = _find(cards, entry)
        if named is None or named in visible_ones:
            break
        visible_ones.append(named)
    return tuple(visible_ones)


def find_card(nvml: Any, index_or_uuid: int | str) -> NvidiaCard:
    """Return one GPU by its position among those that are visible, or by (the beginning of) its UUID.

    Raises ServiceUnavailableError where there is no GPU at all, NotFoundError for one that is not there.
    """
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    cards = visible_cards(nvml, visible)
    wanted = str(index_or_uuid).strip()
    if wanted.startswith("MIG-"):
        raise ServiceUnavailableError(
            f"{wanted} is a MIG instance, and the driver reports no utilisation under MIG.",
            remedy="Choose a whole GPU with MIG off.",
        )
    if not cards:
        hidden = "" if visible is None else f" (CUDA_VISIBLE_DEVICES is {visible!r})"
        raise ServiceUnavailableError(
            f"No NVIDIA GPU: the driver shows this process none{hidden}.", remedy=_USE_SIMULATED
        )
    card = _find(cards, wanted)
    if card is None:
        choices = ", ".join(f"{position}: {each}" for position, each in enumerate(cards))
        raise NotFoundError(f"There is no GPU {wanted!r} here.", remedy=f"Choose one of: {choices}.")
    return card


def _find(cards: Sequence[NvidiaCard], said: str) -> NvidiaCard | None:
    if said.isdecimal():
        return cards[int(said)] if int(said) < len(cards) else None
    named = [card for card in cards if said.startswith("GPU-") and card.uuid.startswith(said)]
    return named[0] if len(named) == 1 else None


def _number(kind: int, value: Any) -> float:
    """Return a sample's value. Percentages are whole numbers: a tiny double is one that is mislabelled."""
    field = _VALUE_FIELDS[kind] if 0 <= kind < len(_VALUE_FIELDS) else "uiVal"
    number = float(getattr(value, field, value.uiVal))
    return float(value.uiVal) if 0 < abs(number) < 1e-6 else number


def _answer(nvml: Any, call: Callable[..., Answer], *arguments: Any) -> Answer | None:
    try:
        return call(*arguments)
    except nvml.NVMLError as error:
        _raise_if_lost(nvml, error)
        return None


def _raise_if_lost(nvml: Any, error: Any) -> None:
    if error.value in {getattr(nvml, name) for name in _LOST}:
        raise ServiceUnavailableError(
            f"The GPU is gone: {error}.", remedy="See the driver's messages (dmesg), then measure again."
        ) from error
