"""What a series of samples says about a window: order, duplicates, whose clock, means, counters, reasons.

Nothing here talks to a driver. NVIDIA's driver keeps the last samples of a GPU's utilisation in a ring (72 to
about 120 of them, one every 1/6 to 1 s by product), stamped in microseconds of a processor's clock. Which
clock is not documented: drivers have been seen to use the wall clock and the time since boot.
"""

import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

# utilization.gpu is a mean over 1/6 to 1 s, by product; a longer gap between two samples is a hole.
LONGEST_PERIOD_S = 1.5
_SHORTEST_PERIOD_S = 1 / 6
# A stamp may lie a little ahead of the clock that it was compared with, never much.
AHEAD_S = 0.5
_STALE_S = 600.0
# A clock that moved this much against the monotonic one between two readings was set, not slewed.
_STEP_S = 0.25
_REACH_MIN = 0.8
_CLOCK_ROUNDS = 5
_TIGHT_S = 0.0005

# The driver's bits of what holds clocks back (nvmlClocksEventReason...), named as nvidia-smi names them. Bit
# 0x1, idle, is left out: nothing is held back then.
REASON_NAMES: Mapping[int, str] = {
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}
_IDLE = 0x001


def reason_names(mask: int) -> tuple[str, ...]:
    """Return the names of the reasons in a bit mask, sorted; a bit without a name is named by its number."""
    bits = (1 << position for position in range(mask.bit_length()) if mask >> position & 1)
    return tuple(sorted(REASON_NAMES.get(bit, f"bit_{bit:#x}") for bit in bits if bit != _IDLE))


def new_samples(fetched: Iterable[tuple[int, float]], after_us: int) -> list[tuple[int, float]]:
    """Return what is new in a fetched buffer of (stamp in microseconds, percent), strictly rising by stamp.

    A ring comes in any order, its unused entries are stamped 0, and a driver without a value writes one
    beyond 100 %; of two entries with one stamp the first counts.
    """
    fresh: dict[int, float] = {}
    for stamp_us, value in fetched:
        if stamp_us > max(after_us, 0) and 0 <= value <= 100:
            fresh.setdefault(stamp_us, value)
    return sorted(fresh.items())


def read_clocks() -> tuple[float, Mapping[str, float]]:
    """Return the monotonic time, and what clocks a driver may stamp samples with say then, all in seconds.

    A process that is held up between two readings would take their distance for another, so the tightest of a
    few rounds counts.
    """
    rounds = []
    for _ in range(_CLOCK_ROUNDS):
        begin_s, wall_s = time.monotonic(), time.time()
        boot_s, end_s = time.clock_gettime(time.CLOCK_BOOTTIME), time.monotonic()
        rounds.append((end_s - begin_s, (begin_s + end_s) / 2, wall_s, boot_s))
        if end_s - begin_s < _TIGHT_S:
            break
    _, now_s, wall_s, boot_s = min(rounds)
    return now_s, {"wall": wall_s, "boot": boot_s, "monotonic": now_s}


class StampClock:
    """Places stamps of an unnamed clock on the monotonic one.

    Told at each fetch what every candidate clock says, it finds the one that the stamps are of, and follows
    its offset, so that slewing by a time server does no harm. Where no candidate fits (a virtual machine that
    sees other clocks than the driver), the freshest sample is taken to have been stamped when it arrived: too
    late by the driver's own delay, at most.
    """

    def __init__(self) -> None:
        self.name: str | None = None
        self._offset_s = 0.0
        self._arrival_offset_s: float | None = None

    def observe(self, newest_us: int | None, now_s: float, clocks: Mapping[str, float]) -> bool:
        """Take note of a fetch and its newest stamp; return whether the clock was set since the last one.

        `now_s` is the monotonic time of the fetch, `clocks` the candidates' times in seconds, then.
        """
        if self.name is not None:
            before_s, self._offset_s = self._offset_s, now_s - clocks[self.name]
            return abs(self._offset_s - before_s) > _STEP_S
        if newest_us is None:
            return False
        newest_s = newest_us / 1e6
        if self._arrival_offset_s is None or now_s - newest_s < self._arrival_offset_s:
            self._arrival_offset_s = now_s - newest_s
        behind = {name: time_s - newest_s for name, time_s in clocks.items()}
        fitting = {name: gap for name, gap in behind.items() if -AHEAD_S <= gap <= _STALE_S}
        if fitting:
            self.name = min(fitting, key=lambda name: (abs(fitting[name]), name))
            self._offset_s = now_s - clocks[self.name]
        return False

    def monotonic_s(self, stamp_us: int) -> float:
        """Return the stamp on the monotonic clock, in seconds."""
        offset_s = self._offset_s if self.name is not None else self._arrival_offset_s or 0.0
        return stamp_us / 1e6 + offset_s


@dataclass(frozen=True, slots=True)
class Sample:
    """A mean in percent over the period that ended at `time_s` (monotonic)."""

    time_s: float
    value: float


class SampleSeries:
    """The samples of one ring over time, on the monotonic clock: strictly rising, none twice."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []
        self.after_us = 0
        self._floor_s = float("-inf")
        self._clock = StampClock()

    @property
    def clock(self) -> str:
        """Return the clock that the stamps are of; `arrival` when none is known."""
        return self._clock.name or "arrival"

    def add(self, fetched: Iterable[tuple[int, float]], now_s: float, clocks: Mapping[str, float]) -> int:
        """Take in what a fetch at `now_s` returned; return how many samples were new."""
        fetched = list(fetched)
        newest_us = max((stamp_us for stamp_us, _ in fetched if stamp_us > 0), default=None)
        if self._clock.observe(newest_us, now_s, clocks):
            # Old stamps and new ones cannot be told apart now: go on with what is stamped after this moment.
            self.after_us, self._floor_s = 0, now_s
            return 0
        added = 0
        for stamp_us, value in new_samples(fetched, self.after_us):
            time_s = self._clock.monotonic_s(stamp_us)
            last_s = self.samples[-1].time_s if self.samples else float("-inf")
            if max(self._floor_s, last_s) < time_s <= now_s + AHEAD_S:
                self.samples.append(Sample(time_s, value))
                self.after_us = stamp_us
                added += 1
        return added

    def forget_before(self, time_s: float) -> None:
        """Drop what lies before a moment."""
        first_kept = next(
            (at for at, sample in enumerate(self.samples) if sample.time_s >= time_s), len(self.samples)
        )
        del self.samples[:first_kept]


@dataclass(frozen=True, slots=True)
class WindowMean:
    """A mean weighted by time: over how many samples, and the share of the window that they cover."""

    value: float
    samples: int
    coverage: float


def window_mean(samples: Sequence[Sample], begin_s: float, end_s: float) -> WindowMean | None:
    """Return the mean over [begin_s, end_s), each sample weighted by its period; None when none covers any.

    A sample's period is the time since its predecessor, or the usual one after a hole. Samples whose period
    lies in the window as a whole count, so that nothing of before the window or after it does; in a window
    shorter than that, those that overlap it count by their overlap.
    """
    spans = sample_spans(samples)
    whole = [(last - first, value) for first, last, value in spans if first >= begin_s and last <= end_s]
    if not whole:
        overlaps = ((min(last, end_s) - max(first, begin_s), value) for first, last, value in spans)
        whole = [(overlap_s, value) for overlap_s, value in overlaps if overlap_s > 0]
    covered_s = sum(weight_s for weight_s, _ in whole)
    if covered_s <= 0:
        return None
    mean = sum(weight_s * value for weight_s, value in whole) / covered_s
    low, high = min(value for _, value in whole), max(value for _, value in whole)
    return WindowMean(min(max(mean, low), high), len(whole), min(covered_s / (end_s - begin_s), 1.0))


def sample_spans(samples: Sequence[Sample]) -> list[tuple[float, float, float]]:
    """Return each sample's period and value: (from, to, percent), periods never overlapping."""
    times = [sample.time_s for sample in samples]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    short = [gap for gap in gaps if gap <= LONGEST_PERIOD_S]
    usual_s = median(short) if short else _SHORTEST_PERIOD_S
    periods = [usual_s, *(gap if gap <= LONGEST_PERIOD_S else usual_s for gap in gaps)] if times else []
    return [
        (sample.time_s - period_s, sample.time_s, sample.value)
        for sample, period_s in zip(samples, periods, strict=True)
    ]


def counter_increase(readings: Sequence[tuple[float, float]], begin_s: float, end_s: float) -> float | None:
    """Return by how much a rising counter rose in [begin_s, end_s), read as (time, value), rising by time.

    Between readings it is taken to rise evenly. Readings that reach over less than 80 % of the window, or a
    counter that fell (the driver was loaded anew), count as unknown: None.
    """
    first = max(bisect_right(readings, begin_s, key=lambda reading: reading[0]) - 1, 0)
    last = bisect_left(readings, end_s, key=lambda reading: reading[0])
    near = readings[first : last + 1]
    if len(near) < 2 or any(after[1] < before[1] for before, after in pairwise(near)):
        return None
    from_s, to_s = max(begin_s, near[0][0]), min(end_s, near[-1][0])
    if to_s <= from_s or to_s - from_s < _REACH_MIN * (end_s - begin_s):
        return None
    rise = _interpolate(near, to_s) - _interpolate(near, from_s)
    return rise * (end_s - begin_s) / (to_s - from_s)


def _interpolate(readings: Sequence[tuple[float, float]], time_s: float) -> float:
    for (before_s, before), (after_s, after) in pairwise(readings):
        if time_s <= after_s:
            return before + (after - before) * (time_s - before_s) / (after_s - before_s)
    return readings[-1][1]
