"""How long work says how far it has come, and how people see it.

Work calls a `Progress`; `reporting(stream)` shows it on a terminal as one line that is written over, and
elsewhere (a log file, a pipe) as a whole line now and then.
"""

import shutil
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

# (done, total or None when unknown, what is being done)
Progress = Callable[[int, int | None, str], None]
Clock = Callable[[], float]

FIRST_LINE_AFTER_S = 5.0
LONGEST_SILENCE_S = 60.0  # lines come less often as the work goes on, but never less often than this
REDRAW_EVERY_S = 0.1
WORTH_A_LINE_S = 1.0  # work that took less leaves no line when it is done
RATE_OVER_S = 15.0
ENOUGH_FOR_ETA = 5  # items done before an estimate means anything
PIECES_KNOWN = 64
ENOUGH_FOR_RATE = 1_000  # items without a unit whose rate is worth a word


class Work(str):
    """What is being done, with the unit in which it is counted: `Work("fifo (1 of 3)", "jobs")`; "s" is time
    that passes, which has no rate.
    """

    __slots__ = ("unit",)
    unit: str

    def __new__(cls, what: str, unit: str = "") -> "Work":
        """Make the text, and remember the unit ("bytes" are shown in MB)."""
        made = super().__new__(cls, what)
        made.unit = unit
        return made


def silent(done: int, total: int | None, what: str) -> None:
    """Report nothing."""


class Pace:
    """How fast one piece of work goes: over the last seconds, and on the whole."""

    def __init__(self, now_s: float, done: int) -> None:
        self.began_s = now_s
        self.finished = False
        self._first = done
        self._seen: deque[tuple[float, int]] = deque([(now_s, done)])

    def note(self, now_s: float, done: int) -> None:
        """Take note of how far the work has come."""
        steps = self._seen
        if now_s - steps[-1][0] >= RATE_OVER_S / 50:
            steps.append((now_s, done))
        while len(steps) > 2 and now_s - steps[1][0] >= RATE_OVER_S:
            steps.popleft()

    def rate(self, now_s: float, done: int, *, overall: bool = False) -> float:
        """Return items a second, lately or on the whole; 0 while nothing can be said."""
        since_s, had = (self.began_s, self._first) if overall else self._seen[0]
        return (done - had) / (now_s - since_s) if now_s > since_s else 0.0


class _Shown:
    """Knows the pace of each piece of work, several of which may go on at once, and puts it into words."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._paces: dict[str, Pace] = {}

    def note(self, done: int, what: str) -> Pace:
        now_s = self.clock()
        pace = self._paces.get(what)
        if pace is None:
            if len(self._paces) >= PIECES_KNOWN:
                del self._paces[next(iter(self._paces))]
            pace = self._paces[what] = Pace(now_s, done)
        else:
            pace.note(now_s, done)
        return pace

    def text(self, pace: Pace, done: int, total: int | None, what: str, *, final: bool = False) -> str:
        """`fifo (1 of 3): 6,420 of 10,650 jobs (60 %), 21,300 jobs/s, ETA 0:03`."""
        unit = getattr(what, "unit", "")
        now_s = self.clock()
        rate = pace.rate(now_s, done, overall=final)
        divisor = 1
        if unit == "bytes":
            unit, divisor = "MB", 1_000_000
        if total is None and not done:
            return str(what)  # nothing is counted
        line = f"{what}: {_count(done, divisor)}"
        if total is not None and not final:
            line += f" of {_count(total, divisor)}"
        line += f" {unit}" if unit else ""
        if total and not final:
            line += f" ({100 * done // total} %)"
        if rate > 0 and unit != "s" and (unit or done >= ENOUGH_FOR_RATE):
            line += f", {_rate(rate / divisor)}{' ' + unit if unit else ''}/s"
        if final:
            return f"{line}, {clock_time(now_s - pace.began_s)}"
        if total is not None and done >= ENOUGH_FOR_ETA and rate > 0 and done < total:
            line += f", ETA {clock_time((total - done) / rate)}"
        return line

    def ends(self, pace: Pace, done: int, total: int | None) -> bool:
        """Whether the work is over with this, for the first time, and was worth a line."""
        if total is None or done < total or pace.finished:
            return False
        pace.finished = True
        return self.clock() - pace.began_s >= WORTH_A_LINE_S


def _count(number: int, divisor: int) -> str:
    return f"{number // divisor:,}"


def _rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"


def clock_time(seconds: float) -> str:
    """Return a duration as `0:03`, `12:40` or `3:07:00`."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute}:{second:02d}"


def lines(
    write: Callable[[str], object],
    *,
    first_after_s: float = FIRST_LINE_AFTER_S,
    clock: Clock = time.monotonic,
) -> Progress:
    """Return a `Progress` that hands whole lines to `write`, for instance a logger's `info`.

    The first comes after some seconds, the next ones at growing intervals, and one when work that took a
    while is done: a log of hours stays readable.
    """
    shown = _Shown(clock)
    last_s = clock()
    every_s = first_after_s

    def report(done: int, total: int | None, what: str) -> None:
        nonlocal last_s, every_s
        pace = shown.note(done, what)
        now_s = clock()
        if shown.ends(pace, done, total):
            write(shown.text(pace, done, total, what, final=True))
            last_s = now_s
        elif now_s - last_s >= every_s:
            write(shown.text(pace, done, total, what))
            last_s = now_s
            every_s = min(LONGEST_SILENCE_S, every_s * 1.5)

    return report


class _TerminalLine:
    """One line of a terminal, written over; what is done stays as a line above it."""

    def __init__(self, stream: TextIO, clock: Clock) -> None:
        self._stream = stream
        self._shown = _Shown(clock)
        self._drawn_s = -1.0
        self._dirty = False

    def __call__(self, done: int, total: int | None, what: str) -> None:
        shown = self._shown
        pace = shown.note(done, what)
        if shown.ends(pace, done, total):
            self.clear()
            self._stream.write(shown.text(pace, done, total, what, final=True) + "\n")
            self._stream.flush()
        elif not pace.finished and (now_s := shown.clock()) - self._drawn_s >= REDRAW_EVERY_S:
            self._drawn_s = now_s
            width = shutil.get_terminal_size().columns
            self._stream.write("\r\x1b[2K" + shown.text(pace, done, total, what)[: width - 1])
            self._stream.flush()
            self._dirty = True

    def clear(self) -> None:
        if self._dirty:
            self._stream.write("\r\x1b[2K")
            self._stream.flush()
            self._dirty = False


@contextmanager
def reporting(stream: TextIO, *, clock: Clock = time.monotonic) -> Iterator[Progress]:
    """Yield a `Progress` for a stream: one line on a terminal, lines now and then elsewhere."""
    if not stream.isatty():

        def write(line: str) -> None:
            stream.write(line + "\n")
            stream.flush()

        yield lines(write, clock=clock)
        return
    line = _TerminalLine(stream, clock)
    try:
        yield line
    finally:
        line.clear()
