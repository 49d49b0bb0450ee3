"""What was seen over time, bin by bin and over restarts: a file of JSON lines.

    {"start_s": 1795382400, "busy": 12}
    {"start_s": 1795383000, "busy": 12, "held": true}

A bin holds the highest value that was seen in it. One without any reading is held: it has the value of the
one before, and says so. Only finished bins are written; a line that was cut off is left out.
"""

import json
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from foundation.replaced_files import replace_file
from live_scheduler.append_only import append_lines

# Five weeks: what a forecast by hour and weekday looks back on.
KEPT_S = 5 * 7 * 86_400


class SeenBins:
    """The bins of one file, `bin_s` seconds each; a value lies between 0 and `most`."""

    def __init__(self, path: Path, name: str, *, bin_s: int, most: float = 1e9) -> None:
        """Read the bins that are there; `name` is that of their values. Raises OSError."""
        self.path = path
        self._name, self._bin_s, self._most = name, bin_s, most
        self._most_bins = KEPT_S // bin_s
        self._start_s: list[int] = []
        self._values: list[float] = []
        self._lines = 0
        self.newest_is_held = True
        self._now: tuple[int, float] | None = None  # the bin that has not ended: its start, the most seen
        self._read()

    @property
    def newest_start_s(self) -> int | None:
        """When the newest finished bin began (s since 1970); None: there is none."""
        return self._start_s[-1] if self._start_s else None

    def values(self) -> NDArray[np.float64]:
        """Return the finished bins, oldest first: shape (bins,)."""
        return np.array(self._values, dtype=np.float64)

    def note(self, at_s: float, seen: float) -> None:
        """Take in what was seen at `at_s`; bins that ended by then are written down.

        A clock that goes back changes nothing that is finished. Raises OSError.
        """
        start_s = int(at_s // self._bin_s) * self._bin_s
        if self._now is not None and start_s <= self._now[0]:
            self._now = (self._now[0], max(self._now[1], float(seen)))
            return
        finished = [] if self._now is None else [(*self._now, False)]
        last_s, value = (self.newest_start_s, self._values[-1]) if self._values else (None, 0.0)
        if finished:
            last_s, value, _ = finished[0]
        if last_s is not None and last_s >= start_s:
            return
        longest_ago_s = start_s - self._most_bins * self._bin_s
        first_s = start_s if last_s is None else max(last_s + self._bin_s, longest_ago_s)
        finished += [(gap_s, value, True) for gap_s in range(first_s, start_s, self._bin_s)]
        self._write(finished)
        self._now = (start_s, float(seen))

    def _write(self, bins: list[tuple[int, float, bool]]) -> None:
        if not bins:
            return
        append_lines(self.path, [self._line(*each) for each in bins], for_good=False)
        for each in bins:
            self._take(*each)
        self._lines += len(bins)
        if self._lines > 2 * self._most_bins:
            kept = zip(self._start_s, self._values, strict=True)
            # Which of them were held is told of the newest only.
            replace_file(self.path, (self._line(*each, False) + "\n" for each in kept))
            self._lines = len(self._values)

    def _take(self, start_s: int, value: float, held: bool) -> None:
        newest_s = self.newest_start_s
        if newest_s is not None and start_s <= newest_s:
            return
        if newest_s is not None and start_s > newest_s + self._bin_s:
            missing = min((start_s - newest_s) // self._bin_s - 1, self._most_bins)
            self._start_s += [start_s - self._bin_s * (missing - at) for at in range(missing)]
            self._values += [self._values[-1]] * missing
        self._start_s.append(start_s)
        self._values.append(value)
        self.newest_is_held = held
        del self._start_s[: -self._most_bins], self._values[: -self._most_bins]

    def _read(self) -> None:
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return
        for line in content.decode(errors="replace").splitlines():
            self._lines += 1
            with suppress(ValueError, KeyError, TypeError):
                fields = json.loads(line)
                start_s, value = int(fields["start_s"]), float(fields[self._name])
                if start_s % self._bin_s == 0 and 0.0 <= value <= self._most:
                    self._take(start_s, value, bool(fields.get("held")))

    def _line(self, start_s: int, value: float, held: bool) -> str:
        return json.dumps({"start_s": start_s, self._name: value, **({"held": True} if held else {})})
