"""How many nodes were busy, bin by bin of ten minutes, over restarts: STATE/busy_nodes.jsonl.

    {"start_s": 1795382400, "busy": 12}
    {"start_s": 1795383000, "busy": 12, "held": true}

A bin holds the highest number that was seen in it. One without any reading is held: it has the value of the
one before, and says so. Only finished bins are written; a line that was cut off is left out.
"""

import json
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from foundation.replaced_files import replace_file
from live_scheduler.append_only import append_lines
from simulator.node_sleep.control import BIN_S

BUSY_NODES_FILE = "busy_nodes.jsonl"
# Five weeks: what a forecast by hour and weekday looks back on.
MOST_BINS = 5 * 7 * 86_400 // BIN_S


class BusyBins:
    """The bins of one state folder."""

    def __init__(self, folder: Path) -> None:
        """Read the bins that are there. Raises OSError for a file that cannot be read."""
        self.path = folder / BUSY_NODES_FILE
        self._start_s: list[int] = []
        self._busy: list[float] = []
        self._lines = 0
        self.newest_is_held = True
        self._now: tuple[int, float] | None = None  # the bin that has not ended: its start, the most seen
        self._read()

    @property
    def newest_start_s(self) -> int | None:
        """When the newest finished bin began (s since 1970); None: there is none."""
        return self._start_s[-1] if self._start_s else None

    def values(self) -> NDArray[np.float64]:
        """Return the finished bins, oldest first: shape (bins,), in nodes."""
        return np.array(self._busy, dtype=np.float64)

    def note(self, at_s: float, busy: int) -> None:
        """Take in how many nodes were busy at `at_s`; bins that ended by then are written down.

        A clock that goes back changes nothing that is finished. Raises OSError.
        """
        start_s = int(at_s // BIN_S) * BIN_S
        if self._now is not None and start_s <= self._now[0]:
            self._now = (self._now[0], max(self._now[1], float(busy)))
            return
        finished = [] if self._now is None else [(*self._now, False)]
        last_s, value = (self.newest_start_s, self._busy[-1]) if self._busy else (None, 0.0)
        if finished:
            last_s, value, _ = finished[0]
        if last_s is not None and last_s >= start_s:
            return
        first_s = start_s if last_s is None else max(last_s + BIN_S, start_s - MOST_BINS * BIN_S)
        finished += [(gap_s, value, True) for gap_s in range(first_s, start_s, BIN_S)]
        self._write(finished)
        self._now = (start_s, float(busy))

    def _write(self, bins: list[tuple[int, float, bool]]) -> None:
        if not bins:
            return
        append_lines(self.path, [_line(*each) for each in bins], for_good=False)
        for each in bins:
            self._take(*each)
        self._lines += len(bins)
        if self._lines > 2 * MOST_BINS:
            kept = zip(self._start_s, self._busy, strict=True)
            # Which of them were held is told of the newest only.
            replace_file(self.path, (_line(*each, False) + "\n" for each in kept))
            self._lines = len(self._busy)

    def _take(self, start_s: int, busy: float, held: bool) -> None:
        newest_s = self.newest_start_s
        if newest_s is not None and start_s <= newest_s:
            return
        if newest_s is not None and start_s > newest_s + BIN_S:
            missing = min((start_s - newest_s) // BIN_S - 1, MOST_BINS)
            self._start_s += [start_s - BIN_S * (missing - at) for at in range(missing)]
            self._busy += [self._busy[-1]] * missing
        self._start_s.append(start_s)
        self._busy.append(busy)
        self.newest_is_held = held
        del self._start_s[:-MOST_BINS], self._busy[:-MOST_BINS]

    def _read(self) -> None:
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return
        for line in content.decode(errors="replace").splitlines():
            self._lines += 1
            with suppress(ValueError, KeyError, TypeError):
                fields = json.loads(line)
                start_s, busy = int(fields["start_s"]), float(fields["busy"])
                if start_s % BIN_S == 0 and 0.0 <= busy < 1e9:
                    self._take(start_s, busy, bool(fields.get("held")))


def _line(start_s: int, busy: float, held: bool) -> str:
    return json.dumps({"start_s": start_s, "busy": busy, **({"held": True} if held else {})})
