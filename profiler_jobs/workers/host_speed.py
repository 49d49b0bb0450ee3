"""How fast the host's processor is at the moment: the time of a loop that is always the same.

On a virtual machine a core is now and then half as fast as a moment ago, as where another tenant uses its
other hardware thread, and no counter tells. A training that waits for its host is slower by about as much, so
the worker times this loop between steps, on the core and in the window that its speed is measured on.
"""

import time
from collections.abc import Sequence
from statistics import harmonic_mean

PROBE_EVERY_S = 0.05
_TURNS = 4_000  # 0.1 to 0.3 ms: half a percent of a worker's time
_TURNS_BEFORE = 500  # for the loop to be in the core's caches, whatever ran there before

Probe = tuple[float, float]  # when it ended (monotonic), and how long it took, in seconds


def probe_core() -> Probe:
    """Time the loop once on the core that this thread runs on."""
    _turn(_TURNS_BEFORE)
    began_s = time.monotonic()
    _turn(_TURNS)
    ended_s = time.monotonic()
    return ended_s, ended_s - began_s


def mean_probe_s(probes: Sequence[Probe], begin_s: float, end_s: float) -> float | None:
    """Return what a probe took in [begin_s, end_s), as the core's mean speed has it; None without any.

    Where steps are so long that none was taken within, those around it stand.
    """
    within = [took_s for at_s, took_s in probes if begin_s <= at_s < end_s]
    around = within or [took_s for _, took_s in probes]
    return harmonic_mean(around) if around else None


def _turn(turns: int) -> None:
    total = 0
    for turn in range(turns):
        total += turn
