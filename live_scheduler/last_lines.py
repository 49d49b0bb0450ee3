"""Records of which the last line of each key counts: appended to, small again when most of it is past.

A line that was cut off is left out. One process writes at a time, any may read; what another has written
meanwhile is read before anything is added.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, TypeVar

from foundation.replaced_files import replace_file
from live_scheduler.append_only import append_lines

Value = TypeVar("Value")


class LastLines(Generic[Value]):
    """A file of JSON lines as a mapping; None in the place of a value crosses its key off."""

    def __init__(
        self,
        path: Path,
        to_fields: Callable[[str, Value | None], Mapping[str, object]],
        from_fields: Callable[[Mapping[str, Any]], tuple[str, Value | None]],
        *,
        most_stale: int,
    ) -> None:
        """Read what is there (nothing without the file). Raises OSError.

        `from_fields` undoes `to_fields`, and raises ValueError, KeyError or TypeError for what is no line.
        The file is written anew once it has `most_stale` lines more than keys.
        """
        self.path = path
        self._to_fields, self._from_fields = to_fields, from_fields
        self._most_stale = most_stale
        self._values: dict[str, Value] = {}
        self._lines = self._size = 0
        self.reload()

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def get(self, key: str) -> Value | None:
        """Return what stands under a key."""
        return self._values.get(key)

    def reload(self) -> None:
        """Read the file anew if another process wrote it. Raises OSError when it cannot be read."""
        try:
            if self.path.stat().st_size == self._size:
                return
            content = self.path.read_bytes()
        except FileNotFoundError:
            content = b""
        self._values, self._lines, self._size = {}, 0, len(content)
        for line in content.decode(errors="replace").splitlines():
            self._lines += 1
            with suppress(ValueError, KeyError, TypeError):
                self._take(*self._from_fields(json.loads(line)))

    def note(self, values: Mapping[str, Value | None]) -> None:
        """Write down what is not so yet. Raises OSError: what could not be written is as before."""
        self.reload()
        fresh = {key: value for key, value in values.items() if self._values.get(key) != value}
        if not fresh:
            return
        lines = [json.dumps(self._to_fields(key, value)) for key, value in fresh.items()]
        self._size = append_lines(self.path, lines, for_good=False)
        self._lines += len(lines)
        for key, value in fresh.items():
            self._take(key, value)
        if self._lines > len(self._values) + self._most_stale:
            kept = (json.dumps(self._to_fields(*each)) + "\n" for each in self._values.items())
            replace_file(self.path, kept)
            self._lines, self._size = len(self._values), self.path.stat().st_size

    def _take(self, key: str, value: Value | None) -> None:
        if value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = value
