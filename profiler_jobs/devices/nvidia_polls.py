"""What polls of a driver say about a window, together with the samples of its ring."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from foundation.errors import ServiceUnavailableError
from profiler_jobs.devices.device import Telemetry
from profiler_jobs.devices.nvidia_samples import (
    Sample,
    WindowMean,
    counter_increase,
    reason_names,
    window_mean,
)

RING, POLLS = "the driver's samples", "polls of the latest value"
_COVERAGE_MIN = 0.5
# A polled value is a mean over up to 1 s of before the poll, so a window's first second says nothing of it.
_POLL_LOOKS_BACK_S = 1.0


@dataclass(frozen=True)
class Poll:
    """What the driver said at one moment (monotonic time); None: it does not say."""

    time_s: float
    gpu_util_pct: float | None
    gpu_mem_util_pct: float | None
    used_mib: float | None
    processes_mib: float | None
    energy_j: float | None
    power_w: float | None
    sm_clock_mhz: float | None
    mem_clock_mhz: float | None
    throttle_mask: int | None
    held_mib: Mapping[int, float] = field(default_factory=dict)  # by process, of those that are reported


def polls_within(polls: Sequence[Poll], begin_s: float, end_s: float) -> list[Poll]:
    """Return the polls in [begin_s, end_s), or the one nearest to it where none fell in."""
    inside = [poll for poll in polls if begin_s <= poll.time_s < end_s]
    middle_s = (begin_s + end_s) / 2
    return inside or sorted(polls, key=lambda poll: abs(poll.time_s - middle_s))[:1]


def memory_in_use_mib(polls: Sequence[Poll]) -> float | None:
    """Return the most memory in use at any of the polls; None: the driver never said.

    What the processes hold counts where the driver said it at every poll and it is not more than all that is
    in use (a driver that answers in another version's layout), else all that is in use.
    """
    used = [poll.used_mib for poll in polls if poll.used_mib is not None]
    held = [poll.processes_mib for poll in polls if poll.processes_mib]
    if held and len(held) == len(polls) and (not used or max(held) <= max(used) + 1.0):
        return max(held)
    return max(used, default=None)


def memory_of(polls: Sequence[Poll], active: Sequence[int]) -> float | None:
    """Return the most that these processes held together; None where a poll lacked one of them."""
    if not polls or not active or any(set(active) - set(poll.held_mib) for poll in polls):
        return None
    return max(sum(poll.held_mib[pid] for pid in active) for poll in polls)


def throttle_reasons(polls: Sequence[Poll]) -> tuple[str, ...]:
    """Return what held the clocks back at any of the polls, by name, sorted."""
    together = 0
    for poll in polls:
        together |= poll.throttle_mask or 0
    return reason_names(together)


def utilisation(
    ring: Sequence[Sample], polled: Sequence[tuple[float, float | None]], begin_s: float, end_s: float
) -> tuple[WindowMean | None, str]:
    """Return a window's mean and where it is from: the ring, else polls, else what little the ring has."""
    mean = window_mean(ring, begin_s, end_s)
    if mean is not None and mean.coverage >= _COVERAGE_MIN and mean.value > 0:
        return mean, RING
    settled_s = begin_s + min(_POLL_LOOKS_BACK_S, (end_s - begin_s) / 2)
    polls = [Sample(time_s, value) for time_s, value in polled if value is not None and time_s < end_s]
    latest = window_mean(polls, settled_s, end_s) or window_mean(polls, begin_s, end_s)
    # A ring of zeros counts, unless the latest values were others: then the driver only pretends to have one.
    if latest is None or (mean is not None and mean.coverage >= _COVERAGE_MIN and latest.value == 0):
        return mean, RING
    return latest, POLLS


def telemetry_of(
    polls: Sequence[Poll],
    gpu_ring: Sequence[Sample],
    memory_ring: Sequence[Sample],
    begin_s: float,
    end_s: float,
    active: Sequence[int] = (),
) -> tuple[Telemetry, str]:
    """Return what was seen in [begin_s, end_s), and where GPU utilisation is from.

    `polls` and the rings' samples may reach beyond the window; memory is that of the `active` processes where
    the driver reports it of each. Raises ServiceUnavailableError when they tell
    no utilisation or no memory.
    """
    gpu, source = utilisation(gpu_ring, [(each.time_s, each.gpu_util_pct) for each in polls], begin_s, end_s)
    memory, _ = utilisation(
        memory_ring, [(each.time_s, each.gpu_mem_util_pct) for each in polls], begin_s, end_s
    )
    inside = polls_within(polls, begin_s, end_s)
    in_use_mib = memory_in_use_mib(inside)
    if gpu is None or memory is None or in_use_mib is None:
        lacking = "memory in use" if gpu is not None and memory is not None else "utilisation"
        raise ServiceUnavailableError(
            f"The driver reported no {lacking} of the GPU for {end_s - begin_s:.1f} s.",
            remedy="Measure in longer windows.",
        )
    own_mib = memory_of(inside, active)
    if own_mib is not None and own_mib > in_use_mib + 1.0:
        own_mib = None  # reported in another version's layout
    counter = [(each.time_s, each.energy_j) for each in polls if each.energy_j is not None]
    energy_j = counter_increase(counter, begin_s, end_s)
    polled_w = _mean([each.power_w for each in inside])
    telemetry = Telemetry(
        gpu_util_pct=gpu.value,
        gpu_mem_util_pct=memory.value,
        gpu_mem_mib=in_use_mib if own_mib is None else own_mib,
        samples=gpu.samples,
        power_w=polled_w if energy_j is None else energy_j / (end_s - begin_s),
        energy_j=energy_j,
        sm_clock_mhz=_mean([each.sm_clock_mhz for each in inside]),
        mem_clock_mhz=_mean([each.mem_clock_mhz for each in inside]),
        throttle_reasons=throttle_reasons(inside),
        utilisation_source=source,
        memory_by_process=own_mib is not None,
    )
    return telemetry, source


def _mean(values: Sequence[float | None]) -> float | None:
    measured = [value for value in values if value is not None]
    return fmean(measured) if measured else None
