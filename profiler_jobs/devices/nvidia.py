"""NVIDIA GPUs: what the driver says about one while workers run on it.

Utilisation comes from the driver's own ring of samples, which holds every period once, and not from asking
for the latest value: a poll sees some periods twice and others never. Where a driver keeps no ring, or its
ring runs dry, the latest values are polled instead, and `utilisation_source` says so. Energy is the
driver's counter, not power, which is a mean over the last second on Ampere and later. Memory is what the
processes on the device hold together, where the driver says that of each; elsewhere, in containers above all,
what is in use on the device, without what the driver keeps for itself. Both include each process's CUDA
context, as a job's memory on a cluster does.

MIG, clocks and compute mode are read and never changed.
"""

import logging
import threading
import time
from collections.abc import Collection, Sequence

from foundation.errors import BadInputError, LucidError, ServiceUnavailableError
from profiler_jobs.devices.device import DeviceDescription, DeviceKind, SharingMode, Telemetry
from profiler_jobs.devices.nvidia_library import (
    EXCLUSIVE_PROCESS,
    PROHIBITED,
    NvidiaCard,
    all_cards,
    find_card,
    library,
    load_library,
    release_library,
)
from profiler_jobs.devices.nvidia_polls import RING, Poll, telemetry_of
from profiler_jobs.devices.nvidia_processes import (
    foreign_processes,
    is_mps_server,
    local_name,
    mps_clients,
    mps_pipes,
    uses_mps,
)
from profiler_jobs.devices.nvidia_samples import Sample, SampleSeries, read_clocks

POLL_EVERY_S = 0.2  # as Lucid did (Section 3.2); memory and clocks have no ring of their own
KEEP_S = 7_400.0  # twice the longest window, and what led up to it
_POLLS_PER_LOOK = 5
# A ring that is this late with the end of a window has run dry: the GPU is idle since.
_DRY_AFTER_S = 1.25
_RING_TRIES = 3
_RELEASE_S = 5.0  # for the driver to let go of processes that have just ended
_AROUND_S = 10.0  # the usual period is taken from samples this long around a window
# How long a window's end is waited for: a sample's period is up to 1 s, and a driver may be late with it.
SETTLE_S = 2.0
_LOG = logging.getLogger(__name__)


def open_nvidia(index_or_uuid: int | str) -> "NvidiaTelemetry":
    """Return the telemetry of one GPU, fit to be measured on: by position (nvidia-smi's) or UUID.

    Raises ServiceUnavailableError, in one line that says what to do, where there is no GPU, MIG is on, other
    processes compute on it, it takes none or it reports no utilisation; NotFoundError for an unknown one.
    """
    telemetry = NvidiaTelemetry(index_or_uuid)
    try:
        telemetry.check_usable()
    except LucidError:
        telemetry.stop()
        raise
    return telemetry


class NvidiaTelemetry:
    """Samples one GPU in a thread of its own (`TelemetrySource`).

    The sharing mode is what was seen of the processes since `start`; it stays known after `stop`.
    """

    def __init__(self, index_or_uuid: int | str, *, poll_every_s: float = POLL_EVERY_S) -> None:
        self._wanted = index_or_uuid
        self._poll_every_s = poll_every_s
        self._card: NvidiaCard | None = None
        self._thread: threading.Thread | None = None
        self._ending = threading.Event()
        self._news = threading.Condition()
        self._forget()
        self._description = _describe(self._open(), SharingMode.TIME_SLICING)
        self._seen_mps = self._asked_daemon = False

    def _forget(self) -> None:
        self._polls: list[Poll] = []
        self._series = {"gpu": SampleSeries(), "memory": SampleSeries()}
        self._ring_errors = dict.fromkeys(self._series, 0)
        self._failure: Exception | None = None
        self._source = RING
        self._ours: tuple[int, ...] = ()

    def _open(self) -> NvidiaCard:
        if self._card is None:
            nvml = load_library()
            try:
                self._card = find_card(nvml, self._wanted)
            except LucidError:
                release_library()
                raise
            # The next opening must find the same GPU, whatever its position is by then.
            self._wanted = self._card.uuid or self._wanted
        return self._card

    @property
    def uuid(self) -> str:
        """Return the GPU's UUID, which CUDA_VISIBLE_DEVICES takes."""
        return self._description.uuid or ""

    @property
    def position(self) -> tuple[int, int]:
        """Return this GPU's position among those of the machine, hidden ones too, and how many these are."""
        with library() as nvml:
            uuids = [card.uuid for card in all_cards(nvml)]
        return (uuids.index(self.uuid), len(uuids)) if self.uuid in uuids else (0, 1)

    @property
    def utilisation_source(self) -> str:
        """Return where the last window's utilisation came from: the driver's samples, or polls."""
        return self._source

    def describe(self) -> DeviceDescription:
        """Return which GPU this is, and how it is shared now or was at the last run."""
        if self._thread is not None:
            self._look_for_mps(ask_daemon=True)
        mode = SharingMode.MPS if self._seen_mps else SharingMode.TIME_SLICING
        self._description = _describe(self._open(), mode)
        return self._description

    def check_usable(self, ours: Collection[int] = ()) -> None:
        """Raise ServiceUnavailableError unless the GPU can be measured on; `ours` may hold it already."""
        card = self._open()
        if card.mig():
            raise ServiceUnavailableError(
                f"{card} has MIG on, and the driver reports no utilisation under MIG.",
                remedy="Choose a GPU with MIG off, or have its administrator turn it off (we never do).",
            )
        if card.compute_mode() == PROHIBITED:
            raise ServiceUnavailableError(
                f"{card} is in compute mode PROHIBITED and takes no processes.",
                remedy="Ask its administrator for nvidia-smi -c DEFAULT, or choose another GPU.",
            )
        self.refuse_others(ours)
        if card.utilisation() is None and card.utilisation_samples(0) is None:
            raise ServiceUnavailableError(
                f"The driver reports no utilisation of {card}, neither samples nor the latest value.",
                remedy="Measure outside a virtual GPU or sandbox that withholds it.",
            )

    def check_pairs(self) -> None:
        """Raise ServiceUnavailableError where two processes cannot hold the GPU at one time."""
        card = self._open()
        if card.compute_mode() == EXCLUSIVE_PROCESS and mps_pipes() is None:
            raise ServiceUnavailableError(
                f"{card} is in compute mode EXCLUSIVE_PROCESS: one process at a time, so no pairs.",
                remedy="Start MPS (nvidia-cuda-mps-control -d), or have its administrator set DEFAULT.",
            )

    def refuse_others(self, ours: Collection[int] = ()) -> None:
        """Raise ServiceUnavailableError, naming them, when processes other than `ours` compute on the GPU."""
        card = self._open()
        others = foreign_processes(self.process_ids(), ours)
        if others:
            named = ", ".join(
                f"{each} ({_name(card, each) or 'name not visible from here'})" for each in others
            )
            raise ServiceUnavailableError(
                f"{card} is in use by {'processes' if len(others) > 1 else 'process'} {named}.",
                remedy="End what computes there, or choose another GPU: a measurement needs it alone.",
            )

    def watch(self, process_ids: Sequence[int]) -> None:
        """Take these for the run's processes; `window` refuses a GPU that others have come to.

        Raises ServiceUnavailableError where the GPU does not take as many.
        """
        if len(process_ids) > 1:
            self.check_pairs()
        self._ours = tuple(process_ids)

    def process_ids(self) -> tuple[int, ...]:
        """Return the processes that hold the GPU for computing, but for MPS's server, which stays by itself.

        Empty, too, where the driver does not say (some containers); ids there may be those outside.
        """
        card = self._open()
        held = card.processes() or ()
        return tuple(each.process_id for each in held if not is_mps_server(_name(card, each.process_id)))

    def start(self) -> None:
        """Begin to sample; what an earlier run saw is forgotten.

        Raises ServiceUnavailableError when the GPU is gone, or others compute on it by now.
        """
        if self._thread is not None:
            return
        deadline_s = time.monotonic() + _RELEASE_S
        while self.process_ids() and time.monotonic() < deadline_s:
            time.sleep(self._poll_every_s)
        self.refuse_others()
        self._forget()
        self._seen_mps = self._asked_daemon = False
        self._ending.clear()
        self.poll()
        self._thread = threading.Thread(target=self._keep_polling, name="nvidia-telemetry", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop sampling and release the GPU; twice does no harm."""
        if self._thread is not None:
            self._ending.set()
            self._thread.join()
            self._thread = None
        if self._card is not None:
            self._card = None
            release_library()

    def _keep_polling(self) -> None:
        while not self._ending.wait(self._poll_every_s):
            try:
                self.poll()
            except (
                Exception
            ) as error:  # whatever it is, `window` must raise it: nothing else sees this thread end
                with self._news:
                    self._failure = error
                    self._news.notify_all()
                return

    def poll(self) -> None:
        """Ask the driver once for everything. Raises ServiceUnavailableError when the GPU is gone."""
        card = self._open()
        asked_s = time.monotonic()
        energy_j, answered_s = card.energy_j(), time.monotonic()
        rates, memory, processes = card.utilisation(), card.memory(), card.processes()
        sm_mhz, mem_mhz = card.clocks_mhz()
        poll = Poll(
            # The counter is what a moment matters most for: its reading dates the poll.
            time_s=(asked_s + answered_s) / 2,
            gpu_util_pct=rates[0] if rates else None,
            gpu_mem_util_pct=rates[1] if rates else None,
            used_mib=memory.used_mib if memory else None,
            processes_mib=_sum_known([each.memory_mib for each in processes or ()]),
            energy_j=energy_j,
            power_w=None if energy_j is not None else card.power_w(),
            sm_clock_mhz=sm_mhz,
            mem_clock_mhz=mem_mhz,
            throttle_mask=card.throttle_mask(),
            held_mib={
                each.process_id: each.memory_mib for each in processes or () if each.memory_mib is not None
            },
        )
        fetched = {
            name: card.utilisation_samples(series.after_us, memory=name == "memory")
            for name, series in self._series.items()
            if self._has_ring(name)
        }
        if len(self._polls) % _POLLS_PER_LOOK == 0:
            self._look_for_mps(ask_daemon=False)
        now_s, clocks = read_clocks()
        with self._news:
            self._polls.append(poll)
            for name, samples in fetched.items():
                self._ring_errors[name] = self._ring_errors[name] + 1 if samples is None else 0
                self._series[name].add(samples or (), now_s, clocks)
            if self._polls[0].time_s < poll.time_s - KEEP_S:
                del self._polls[0]
                for series in self._series.values():
                    series.forget_before(poll.time_s - KEEP_S)
            self._news.notify_all()

    def samples(self, *, memory: bool = False) -> tuple[Sample, ...]:
        """Return the driver's samples seen since `start`, in order of time."""
        with self._news:
            return tuple(self._series["memory" if memory else "gpu"].samples)

    def sample_clock(self, *, memory: bool = False) -> str:
        """Return the clock that stamps the samples: wall, boot, monotonic, or arrival where none fits."""
        return self._series["memory" if memory else "gpu"].clock

    def window(self, begin_s: float, end_s: float, active: Sequence[int] = ()) -> Telemetry:
        """Return what was seen in [begin_s, end_s), monotonic; waits a little for its last samples.

        Memory is that of the `active` processes, where the driver reports what each holds.
        Raises ServiceUnavailableError when the GPU is gone, others compute on it, or nothing was seen.
        """
        if end_s <= begin_s:
            raise BadInputError(
                f"The window ends at {end_s}, not after its begin at {begin_s}.", remedy="Give a later end."
            )
        if self._thread is not None:
            self._look_for_mps(ask_daemon=True)
        if self._ours:
            self.refuse_others(self._ours)
        middle_s, reach_s = (begin_s + end_s) / 2, (end_s - begin_s) / 2 + _AROUND_S
        with self._news:
            self._news.wait_for(lambda: self._failure is not None or self._has_seen(end_s), timeout=SETTLE_S)
            if self._failure is not None:
                raise ServiceUnavailableError(str(self._failure)) from self._failure
            polls = [poll for poll in self._polls if abs(poll.time_s - middle_s) <= reach_s]
            rings = {
                name: [each for each in series.samples if abs(each.time_s - middle_s) <= reach_s]
                for name, series in self._series.items()
            }
        telemetry, source = telemetry_of(polls, rings["gpu"], rings["memory"], begin_s, end_s, active)
        if source != self._source:
            _LOG.warning("Utilisation of %s is from %s now.", self._description.name, source)
            self._source = source
        if self._ours and telemetry.gpu_util_pct == 0:
            _LOG.warning("%s reports 0 %% while workers train: withheld here?", self._description.name)
        return telemetry

    def _has_seen(self, end_s: float) -> bool:
        if self._thread is None:
            return True  # nothing more will come
        if not self._polls or self._polls[-1].time_s < end_s:
            return False
        if self._polls[-1].time_s >= end_s + _DRY_AFTER_S:
            return True
        rings = [series.samples for name, series in self._series.items() if self._has_ring(name)]
        return all(samples and samples[-1].time_s >= end_s for samples in rings)

    def _has_ring(self, name: str) -> bool:
        return self._ring_errors[name] < _RING_TRIES

    def _look_for_mps(self, *, ask_daemon: bool) -> None:
        """Note MPS once it is seen. Its daemon is asked, once a run, where the driver lists no clients."""
        if self._seen_mps:
            return
        card = self._open()
        names = {each.process_id: _name(card, each.process_id) for each in card.processes() or ()}
        listed = card.mps_process_ids()
        self._seen_mps = uses_mps(listed, names)
        if ask_daemon and not self._asked_daemon and not self._seen_mps and (listed is None or not names):
            self._asked_daemon = True
            self._seen_mps = bool(mps_clients())


def _describe(card: NvidiaCard, sharing_mode: SharingMode) -> DeviceDescription:
    memory = card.memory()
    if memory is None:
        raise ServiceUnavailableError(
            f"The driver does not report the memory of {card}.", remedy="Choose a GPU with memory of its own."
        )
    return DeviceDescription(
        name=card.name,
        kind=DeviceKind.GPU,
        memory_mib=memory.total_mib,
        sharing_mode=sharing_mode,
        uuid=card.uuid or None,
        driver=card.driver,
        mig=card.mig(),
    )


def _name(card: NvidiaCard, process_id: int) -> str | None:
    return local_name(process_id) or card.process_name(process_id)


def _sum_known(values: Sequence[float | None]) -> float | None:
    sizes = [value for value in values if value is not None]
    return sum(sizes) if sizes and len(sizes) == len(values) else None
