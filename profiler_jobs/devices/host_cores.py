"""Cores of the host for the workers that train: one for each, of those that are quick at the moment.

Of a worker's threads one runs at a time (backward passes have their own), so on one core none waits for
another to wake up, and the speed of that core can be told (`host_speed.py`). How much that was on a virtual
machine with an H100 is in docs/decisions/0088-each-worker-gpu-has-core-reports.md.
"""

import os
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path

from profiler_jobs.workers.host_speed import probe_core

# A core is quick when it runs at this share of the quickest that was seen.
QUICK = 0.9
CORES_MIN = 3  # for two workers, and for the process that watches them
_TOPOLOGY = Path("/sys/devices/system/cpu")
_PROBES = 3  # of which the quickest counts: an interrupt slows one of them


class HostCores:
    """Cores that this process may use, and how quick each was when it was last looked at."""

    def __init__(self, cores: Collection[int], took_s: Callable[[int], float] | None = None) -> None:
        self._took_s = took_s or _time_on
        self._last_s = {core: self._took_s(core) for core in sorted(cores)}
        self._quickest_s = min(self._last_s.values())

    def choose(self, count: int) -> tuple[int, ...]:
        """Return so many cores that are quick now; where there are too few, the quickest."""
        looked_at: dict[int, float] = {}
        quick: list[int] = []
        for core in sorted(self._last_s, key=self._last_s.__getitem__):
            looked_at[core] = self._last_s[core] = self._took_s(core)
            self._quickest_s = min(self._quickest_s, looked_at[core])
            quick = [each for each, took_s in looked_at.items() if self._quickest_s >= QUICK * took_s]
            if len(quick) >= count:
                return tuple(quick[:count])
        return tuple(sorted(looked_at, key=looked_at.__getitem__)[:count])


def cores_of_gpu(position: int, gpus: int) -> HostCores | None:
    """Return the cores for workers on a GPU of so many, each of which has a share of the host's own.

    None where the share is too small, or binding is refused.
    """
    allowed = os.sched_getaffinity(0)
    share = one_thread_a_core(allowed)[position::gpus]
    if len(share) < CORES_MIN:
        return None
    try:
        os.sched_setaffinity(0, allowed)
    except OSError:
        return None
    return HostCores(share)


def one_thread_a_core(processors: Collection[int], topology: Path = _TOPOLOGY) -> list[int]:
    """Return the first of these processors on each core: two workers must not share one as hardware threads.

    `topology`: a folder a processor, as Linux has it; one that is not told of is a core of its own.
    """
    first_of: dict[str, int] = {}
    for processor in sorted(processors):
        siblings = topology / f"cpu{processor}" / "topology" / "thread_siblings_list"
        core = siblings.read_text().strip() if siblings.is_file() else str(processor)
        first_of.setdefault(core, processor)
    return list(first_of.values())


def bind_process(process_id: int, cores: Sequence[int]) -> None:
    """Let all threads of a process run on these cores only; those that it starts later inherit that."""
    try:
        threads = [int(entry.name) for entry in Path(f"/proc/{process_id}/task").iterdir()]
    except FileNotFoundError:
        return  # it ended: the process that waits for it will say so
    for thread in threads:
        with suppress(ProcessLookupError):  # it ended
            os.sched_setaffinity(thread, cores)


def _time_on(core: int) -> float:
    """Return how long the loop takes on a core, in seconds."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, (core,))
    try:
        return min(probe_core()[1] for _ in range(_PROBES))
    finally:
        os.sched_setaffinity(0, allowed)
