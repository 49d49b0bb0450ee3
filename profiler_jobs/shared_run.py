"""Many configurations on the device at once: each alone and pairs of them, in one run that starts each once.

A pair in a run of its own costs two starts and three windows a repeat. Here all stay loaded, paused with
their memory in place, and the pairs follow one another as a trail, in which a window alone serves the pair
before it and the pair after it:

    A   A + B   B   B + C   C   C + A   A   ...

So most pairs cost two windows a repeat, and each lies between the windows alone of both: a host whose speed
changes within a minute, as virtual machines do, changes both. The rows are those of runs of their own.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from foundation.progress import Progress, Work, silent
from profiler_jobs.campaign import outcome_rows
from profiler_jobs.devices.device import (
    DeviceWindow,
    OutOfMemory,
    ProfilingDevice,
    RunFailure,
    WindowRecord,
)
from profiler_jobs.measurement_table import as_measurement_frame, origin_columns
from profiler_jobs.method import Method
from profiler_jobs.profile_table import ProfileSet
from profiler_jobs.summary import summarise
from profiler_jobs.tasks import MeasurementTask
from profiler_jobs.workloads import JobType, all_job_types

Rows = list[dict[str, Any]]
Active = tuple[int, ...]  # positions of the configurations that train in a window
# From the solo profiles of the configurations to the pairs to measure, the most telling first.
PairsByProfiles = Callable[[ProfileSet], Sequence[MeasurementTask]]
# What share of the device's memory a group may fill by what is believed of each configuration.
FILL_MAX = 0.9


@dataclass(frozen=True)
class SharedRun:
    """What became of a run: the rows of each of its tasks, or why there are none."""

    rows: tuple[Rows, ...] = ()
    failure: str | None = None


def measure_together(
    device: ProfilingDevice,
    job_types: Sequence[JobType],
    method: Method,
    choose: PairsByProfiles,
    left_s: Callable[[], float],
    keep: Callable[[Sequence[Rows]], None] = lambda _: None,
    progress: Progress = silent,
) -> SharedRun:
    """Measure the configurations alone, then as many of the chosen pairs as end within `left_s()` from then.

    No pair may be one of equals. `keep` is given the rows of all tasks so far after each repeat, from the
    second on (of a method with one, after that); a repeat that would not end in time is not begun.
    """
    group = _Group(device, job_types, method)
    trail_of_pairs: list[DeviceWindow] = []
    done = 0

    def then(records: tuple[WindowRecord, ...]) -> Sequence[DeviceWindow]:
        nonlocal done
        if not _told_apart(records):
            return ()
        done += 1
        progress(done, method.repeats + 1, group.work)
        took_s = (records[-1].started - records[0].started).total_seconds()
        a_window_s = took_s / (len(records) - 1) if took_s else method.window_s
        if done == 1:
            ranked = choose(group.first_profiles(records))
            trail_of_pairs.extend(group.choose_pairs(ranked, left_s() / a_window_s))
            return trail_of_pairs
        if done > min(2, method.repeats):
            keep(group.rows(records))
            if left_s() < len(trail_of_pairs) * a_window_s:
                return ()
        return trail_of_pairs if done <= method.repeats else ()

    progress(0, method.repeats + 1, group.work)
    outcome = device.run(job_types, group.alone, warmup_s=method.warmup_s, then=then)
    if isinstance(outcome, OutOfMemory):
        return SharedRun(failure=f"out of memory: {outcome.detail}")
    if isinstance(outcome, RunFailure):
        return SharedRun(failure=outcome.reason)
    if not _told_apart(outcome):
        return SharedRun(failure="the device does not report what memory each process holds")
    return SharedRun(tuple(group.rows(outcome)))


class _Group:
    """The configurations of a run by their positions, the pairs of them that are chosen, and their rows."""

    def __init__(self, device: ProfilingDevice, job_types: Sequence[JobType], method: Method) -> None:
        self.alone = tuple(DeviceWindow((index,), method.window_s) for index in range(len(job_types)))
        self.work = Work(f"measuring {len(job_types)} at once", "rounds")
        self._device = device
        self._solos = [MeasurementTask((job_type,)) for job_type in job_types]
        self._pairs: list[MeasurementTask] = []
        self._position = {job_type.name: index for index, job_type in enumerate(job_types)}
        self._method = method
        self._began = datetime.now(UTC)

    def first_profiles(self, records: Sequence[WindowRecord]) -> ProfileSet:
        """Return what one window of each shows: of how speeds vary, nothing; that is judged in the end."""
        once = origin_columns(self._device.description, replace(self._method, repeats=1))
        seen = [{**row, **once} for rows in self.rows(records) for row in rows]
        return summarise(as_measurement_frame(seen))

    def choose_pairs(self, ranked: Sequence[MeasurementTask], windows: float) -> list[DeviceWindow]:
        """Take the first pairs whose trail goes into so many windows, as often as the method says; return it.

        Where not even one does, those that can be gone through twice: a single repeat proves nothing.
        """
        usual = self._method.repeats
        fitting = self._fitting(ranked, windows / usual) or self._fitting(ranked, windows / min(2, usual))
        self._pairs = list(ranked[:fitting])
        return [DeviceWindow(active, self._method.window_s) for active in self._trail(self._pairs)]

    def _fitting(self, ranked: Sequence[MeasurementTask], windows: float) -> int:
        fitting, too_many = 0, len(ranked) + 1
        while too_many - fitting > 1:
            middle = (fitting + too_many) // 2
            if len(self._trail(ranked[:middle])) <= windows:
                fitting = middle
            else:
                too_many = middle
        return fitting

    def rows(self, records: Sequence[WindowRecord]) -> list[Rows]:
        """Return the rows of every task, as runs of their own would give them."""
        at: dict[Active, list[int]] = {}
        for index, record in enumerate(records):
            at.setdefault(record.window.active, []).append(index)
        return [self._rows_of(task, records, at) for task in (*self._solos, *self._pairs)]

    def _trail(self, pairs: Sequence[MeasurementTask]) -> list[Active]:
        return trail([self._places(task) for task in pairs], len(self._solos))

    def _places(self, task: MeasurementTask) -> Active:
        return tuple(self._position[job_type.name] for job_type in task.job_types)

    def _rows_of(
        self, task: MeasurementTask, records: Sequence[WindowRecord], at: Mapping[Active, Sequence[int]]
    ) -> Rows:
        own = self._places(task)
        seen = tuple(_seen_by(record, own) for record in _windows_of(own, records, at[own]))
        repeats = len(seen) // (3 if task.is_pair else 1)
        origin = origin_columns(self._device.description, self._method)
        return outcome_rows(task, seen, origin, self._method, self._began, repeats)


def trail(pairs: Sequence[Active], configurations: int) -> list[Active]:
    """Return the windows of one repeat: each pair between the windows alone of both of its configurations.

    The next pair is the first that goes on with a configuration that was just alone, else the first that is
    left, which begins with a window of its own. What is in no pair is alone in the end.
    """
    left, windows = list(pairs), list[Active]()
    while left:
        at = windows[-1][0] if windows else -1
        pair = next((pair for pair in left if at in pair), left[0])
        left.remove(pair)
        first, second = pair
        if at not in pair:
            # Begin with the one that fewer pairs go on with.
            if sum(first in other for other in left) > sum(second in other for other in left):
                first, second = second, first
            windows.append((first,))
        windows += [pair, (second if windows[-1] == (first,) else first,)]
    return windows + [(index,) for index in range(configurations) if (index,) not in windows]


def groups(
    job_types: Sequence[JobType], memory_mib: Mapping[str, float], *, most: int, device_mib: float
) -> list[tuple[JobType, ...]]:
    """Deal the configurations, large and small to each, into as few groups as `most` and the memory allow.

    `memory_mib` is what was measured; of the others the zoo's own figure is believed, in the proportion that
    it has to what was measured.
    """
    needed_mib = _expected_memory_mib(job_types, memory_mib)
    order = sorted(job_types, key=lambda job_type: -needed_mib[job_type.name])
    for count in range(math.ceil(len(order) / most), len(order)):
        dealt: list[list[JobType]] = [[] for _ in range(count)]
        for at in range(0, len(order), count):  # there and back again, so that none gets the larger ones
            for group, job_type in zip(dealt, order[at : at + count], strict=False):
                group.append(job_type)
            dealt.reverse()
        held_mib = [sum(needed_mib[each.name] for each in group) for group in dealt]
        if max(map(len, dealt)) <= most and max(held_mib) <= FILL_MAX * device_mib:
            return [tuple(sorted(group, key=job_types.index)) for group in dealt]
    return [(job_type,) for job_type in order]


def _expected_memory_mib(job_types: Sequence[JobType], memory_mib: Mapping[str, float]) -> dict[str, float]:
    zoo_mib = {job_type.name: job_type.gpu_mem_mib for job_type in all_job_types()}
    known_mib = sum(memory_mib.values())
    proportion = known_mib / sum(zoo_mib[name] for name in memory_mib) if known_mib else 1.0
    return {each.name: memory_mib.get(each.name, proportion * each.gpu_mem_mib) for each in job_types}


def _windows_of(own: Active, records: Sequence[WindowRecord], at: Sequence[int]) -> list[WindowRecord]:
    """Return a task's windows, which stand at `at`: all of one alone, or a pair's between its neighbours."""
    if len(own) == 1:
        return [records[index] for index in at]
    windows = []
    for index in at:
        before, after = records[index - 1], records[index + 1]
        first, second = (before, after) if before.window.active == own[:1] else (after, before)
        windows += [first, records[index], second]
    return windows


def _seen_by(record: WindowRecord, own: Active) -> WindowRecord:
    """Return the record as a run of these configurations alone would have it."""
    active = tuple(own.index(index) for index in record.window.active)
    return replace(
        record,
        window=replace(record.window, active=active),
        speeds=tuple(record.speeds[index] for index in own),
        steps=tuple(record.steps[index] for index in own),
        host_probes_s=tuple(record.host_probes_s[index] for index in own if record.host_probes_s),
    )


def _told_apart(records: Sequence[WindowRecord]) -> bool:
    return all(record.telemetry.memory_by_process for record in records)
