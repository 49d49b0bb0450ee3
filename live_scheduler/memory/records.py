"""What the live scheduler keeps in its state folder: files of JSON lines, which are only appended to.

A line is on the disk before the cluster is asked for what it says. One that a crash or a full disk cut off is
left out when the file is read, and swallows no other. One process writes at a time, any may read, also on a
full disk and in a folder that cannot be written.

- `append_rotated`, `read_rotated`: a log; once it is large it becomes the older file.
- `LastLines`: a record by keys, of which the last line of each key counts. What another process has written
  is read before anything is added; the file is written anew when most of it is past.
- `SeenBins`: what was seen over time, bin by bin and over restarts.

Why these are no database: docs/decisions/0121-live-state-stays-in-files.md.
"""

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from foundation.private_files import private_folder
from foundation.replaced_files import replace_file

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Five weeks: what a forecast by hour and weekday looks back on.
KEPT_S = 5 * 7 * 86_400


class TimedLine(Protocol):
    """What a line of a log says, and when (Unix seconds)."""

    @property
    def at_s(self) -> float:
        """When it was written."""


Line = TypeVar("Line", bound=TimedLine)


def append_lines(path: Path, lines: Iterable[str], *, for_good: bool = True) -> int:
    """Append lines (without their ends) in one piece, readable by the owner only; return the file's size.

    `for_good`: they are on the disk when this returns. Raises OSError; a part may have been written then,
    which the next call keeps apart from its own lines.
    """
    text = "".join(f"{line}\n" for line in lines)
    private_folder(path.parent, tighten=False)
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(handle).st_size
        if text and size and os.pread(handle, 1, size - 1) != b"\n":
            text = "\n" + text
        unwritten = text.encode()
        while unwritten:
            unwritten = unwritten[os.write(handle, unwritten) :]
        if for_good:
            os.fsync(handle)
        return os.fstat(handle).st_size
    finally:
        os.close(handle)


def older_file(path: Path) -> Path:
    """Return the name of the file that a log was before it had grown large."""
    return path.with_name(f"{path.stem}.1{path.suffix}")


def append_rotated(path: Path, lines: Iterable[str], most_bytes: int, *, for_good: bool = True) -> bool:
    """Append lines to a log; one that has grown large becomes the older file. Return whether it did.

    Raises OSError as `append_lines`.
    """
    if append_lines(path, lines, for_good=for_good) <= most_bytes:
        return False
    path.replace(older_file(path))
    return True


def read_rotated(path: Path, from_text: Callable[[str], Line], since_s: float) -> Iterator[Line]:
    """Iterate over the lines of a log and its older file at or after `since_s` (Unix time), in order.

    Left out is what cannot be read: of which `from_text` raises ValueError, KeyError or TypeError.
    """
    for file in (older_file(path), path):
        with suppress(FileNotFoundError), file.open(encoding="utf-8", errors="replace") as texts:
            for text in texts:
                try:
                    line = from_text(text)
                except (ValueError, KeyError, TypeError):
                    continue
                if line.at_s >= since_s:
                    yield line


Value = TypeVar("Value")


class LastLines(ABC, Generic[Value]):
    """A file of JSON lines in a state folder as a mapping.

    `durable`: what is written is on the disk. The file is written anew once it has `most_stale_lines` more
    than keys.
    """

    file_name: ClassVar[str]
    durable: ClassVar[bool] = False
    most_stale_lines: ClassVar[int] = 20_000

    def __init__(self, folder: Path | None) -> None:
        """Read what is there (nothing without the file; without a folder it lasts as long as this object).

        Raises OSError.
        """
        self.path = None if folder is None else folder / self.file_name
        self._values: dict[str, Value] = {}
        self._lines = self._size = 0
        self.reload()

    @abstractmethod
    def to_fields(self, key: str, value: Value | None) -> Mapping[str, object]:
        """Return a line; without a value one that crosses the key off."""

    @abstractmethod
    def from_fields(self, fields: Mapping[str, Any]) -> tuple[str, Value | None]:
        """Undo `to_fields`; raises ValueError, KeyError, TypeError or AttributeError for what is no line."""

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __contains__(self, key: object) -> bool:
        return key in self._values

    @property
    def values(self) -> Mapping[str, Value]:
        """What stands under each key, in the order in which the keys came."""
        return self._values

    @property
    def folder(self) -> Path | None:
        """The state folder that the file lies in."""
        return None if self.path is None else self.path.parent

    @property
    def is_stale(self) -> bool:
        """Whether so much of the file is past that it is to be written anew."""
        return self._lines > len(self._values) + self.most_stale_lines

    def refresh(self) -> None:
        """Read the file anew if another process wrote it. Raises OSError when it cannot be read."""
        if self.path is None:
            return
        try:
            size = self.path.stat().st_size
        except FileNotFoundError:
            size = 0
        if size != self._size:
            self.reload()

    def reload(self) -> None:
        """Read the file anew. Raises OSError when it is there and cannot be read."""
        if self.path is None:
            return
        self._values, self._lines, self._size = {}, 0, 0
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return
        self._size = len(content)
        for line in content.decode(errors="replace").splitlines():
            self._lines += 1
            with suppress(ValueError, KeyError, TypeError, AttributeError):
                self._take(*self.from_fields(json.loads(line)))

    def write(self, values: Mapping[str, Value | None]) -> None:
        """Write down what is not so yet. Raises OSError: what could not be written is as before."""
        self.refresh()
        fresh = {key: value for key, value in values.items() if self._values.get(key) != value}
        if not fresh:
            return
        if self.path is not None:
            lines = [self._line(*each) for each in fresh.items()]
            self._size = append_lines(self.path, lines, for_good=self.durable)
            self._lines += len(lines)
        for key, value in fresh.items():
            self._take(key, value)
        if self.is_stale:
            with suppress(OSError):  # it is long, and otherwise as good
                self._rewrite()

    def cross_off(self, keys: Iterable[str]) -> None:
        """Write down that nothing is to be remembered of these keys any more. Raises OSError."""
        self.write(dict.fromkeys(keys))

    def keep(self, keys: Collection[str]) -> None:
        """Leave all others out. Raises OSError for a file that is to be written anew and cannot be."""
        self._values = {key: value for key, value in self._values.items() if key in keys}
        if self.is_stale:
            self._rewrite()

    def _rewrite(self) -> None:
        if self.path is None:
            return
        lines = (self._line(*each) + "\n" for each in self._values.items())
        replace_file(self.path, lines, durable=self.durable)
        self._lines, self._size = len(self._values), self.path.stat().st_size

    def _line(self, key: str, value: Value | None) -> str:
        return json.dumps(self.to_fields(key, value), allow_nan=False)

    def _take(self, key: str, value: Value | None) -> None:
        if value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = value


class SeenBins:
    """The bins of one file, `bin_s` seconds each; a value lies between 0 and `most`.

        {"start_s": 1795382400, "busy": 12}
        {"start_s": 1795383000, "busy": 12, "held": true}

    A bin holds the highest value that was seen in it. One without any reading is held: it has the value of
    the one before, and says so. Only finished bins are written.
    """

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

    def values(self) -> "NDArray[np.float64]":
        """Return the finished bins, oldest first: shape (bins,)."""
        import numpy as np  # the dead man's switch, which reads records, stays small

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
            # Which of them were held is kept of the newest only.
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
