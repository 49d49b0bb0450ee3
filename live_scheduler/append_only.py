"""Files of lines that are only appended to: what a crash or a full disk cut off swallows nothing else."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol, TypeVar

from foundation.private_files import private_folder


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
