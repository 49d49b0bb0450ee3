"""When what was given back is given back for good.

A cluster's own scheduler may write priorities back that it read before they were changed (`WriteBack`). So
everything is looked at again, and given back again, until nothing of ours was there through two of its
cycles: the one that ran at the last change, and a whole one after it.
"""

import time
from collections.abc import Callable

from foundation.human_times import human_duration
from live_scheduler.adapter import WriteBack
from live_scheduler.safety.restoring import Restoration

# Two cycles are enough after the last change; changes that are undone again and again end some time.
_MOST_ROUNDS = 3
_CYCLES = 2
# All jobs are looked at so often meanwhile, and at least so many times between two cycles: what is given back
# then is what the next one reads.
_LOOK_EVERY_S, _LOOKS_BETWEEN_CYCLES = 5.0, 3


class Settling:
    """Counts what goes by since anything of ours was last seen. `clock` is monotonic, in seconds."""

    def __init__(self, *, least_s: float = 0.0, clock: Callable[[], float] = time.monotonic) -> None:
        """`least_s`: so long it takes at least, where nothing is written back either."""
        self._least_s, self._clock = least_s, clock
        self.start_over()

    def start_over(self) -> None:
        """Forget everything: what was given back was taken again."""
        self._since_s: float | None = None
        self._began_s: float | None = None
        self._ended = 0
        self._counted: int | None = None

    def seen(self, done: Restoration, write_back: WriteBack | None) -> bool:
        """Take in a look at all jobs; return whether all is back for good. `write_back` was read after it."""
        now_s = self._clock()
        if not done.complete:
            began_s = self._began_s
            self.start_over()
            if done.undone:
                self._began_s = now_s if began_s is None else began_s
            return False
        # What is not written back needs no second look, but for what is still on its way.
        quiet = done.quiet if write_back is not None else done.complete
        cycles = None if write_back is None else write_back.cycles
        if not quiet or self._since_s is None:
            self._since_s, self._ended, self._counted = now_s, 0, cycles
            if self._began_s is None:
                self._began_s = now_s
            return quiet and write_back is None and self._least_s <= 0
        if cycles is not None and self._counted is not None:
            # A count that starts anew (midnight, `sdiag --reset`) hides some.
            self._ended += max(0, cycles - self._counted)
        self._counted = cycles
        waited_s = now_s - self._since_s
        if write_back is None:
            return waited_s >= self._least_s
        # In a queue to which nothing happens no cycle begins, and where none runs none has old numbers.
        idle = write_back.running is False
        needed_s = _CYCLES * write_back.interval_s if idle else two_cycles_s(write_back)
        return waited_s >= self._least_s and (self._ended >= _CYCLES or waited_s >= needed_s)

    def goes_on_for_ever(self, write_back: WriteBack) -> bool:
        """Return whether what is back is undone for longer than any cycle can explain."""
        began_s = self._clock() if self._began_s is None else self._began_s
        return self._clock() - began_s >= longest_s(write_back)


def next_look_s(write_back: WriteBack | None) -> float:
    """After how long all jobs are to be looked at again."""
    if write_back is None:
        return _LOOK_EVERY_S
    return min(_LOOK_EVERY_S, write_back.interval_s / _LOOKS_BETWEEN_CYCLES)


def two_cycles_s(write_back: WriteBack) -> float:
    """How long two cycles take at most, from the last change on."""
    return _CYCLES * (write_back.interval_s + write_back.longest_s)


def longest_s(write_back: WriteBack) -> float:
    """After so long the watch ends, whatever is written back."""
    return _MOST_ROUNDS * two_cycles_s(write_back)


def watch_words(write_back: WriteBack) -> str:
    """Say what is still to be watched, for how long, and why."""
    limit = human_duration(two_cycles_s(write_back))
    return f"all jobs are looked at until two cycles have ended, for {limit} at most: {write_back.why}"
