"""Records of which the last line of each key counts: appended to, small again when most of it is past.

A line that was cut off is left out. One process writes at a time, any may read; what another has written
meanwhile is read before anything is added.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from foundation.replaced_files import replace_file
from live_scheduler.append_only import append_lines

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
