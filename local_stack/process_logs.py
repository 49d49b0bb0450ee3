"""Rotates the logs of processes that keep them open: NAME.log is copied to NAME.log.1, then emptied.

As logrotate's `copytruncate`: the process writes on into the same file, which it opened to append, so nothing
has to be told or started again.
"""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from foundation.private_files import PRIVATE_UMASK

_LOOKS = 10


def rotate_logs(folder: Path, most_bytes: int, older_files: int) -> list[Path]:
    """Rotate each `*.log` of a folder that is larger than `most_bytes`; return those that were.

    `older_files` copies stay, `.1` the newest. A full disk keeps nothing: what cannot be copied is let go of,
    because a log that grows on would take the databases' last bytes.
    """
    rotated = []
    for log in sorted(folder.glob("*.log")):
        with contextlib.suppress(FileNotFoundError):
            if log.stat().st_size > most_bytes:
                _rotate(log, older_files)
                rotated.append(log)
    return rotated


def older_logs(log: Path) -> Iterator[tuple[int, Path]]:
    """Number and path of the older copies of a log."""
    for path in log.parent.glob(f"{log.name}.*"):
        number = path.suffix.removeprefix(".")
        if number.isdecimal():
            yield int(number), path


def _rotate(log: Path, older_files: int) -> None:
    for number, path in sorted(older_logs(log), reverse=True):
        if number >= max(older_files, 1):
            path.unlink(missing_ok=True)
        else:
            path.replace(log.with_name(f"{log.name}.{number + 1}"))
    newest = log.with_name(f"{log.name}.1")
    with log.open("r+b") as source:
        if older_files:
            try:
                _copy(source.fileno(), newest)
            except OSError:
                newest.unlink(missing_ok=True)
        # What is written between the last look and this call is lost: some microseconds.
        source.truncate(0)


def _copy(source: int, target: Path) -> None:
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o666 & ~PRIVATE_UMASK)
    with os.fdopen(handle, "wb") as stream, os.fdopen(os.dup(source), "rb") as reader:
        for _ in range(_LOOKS):  # it may be written on meanwhile, without an end
            shutil.copyfileobj(reader, stream)
            if reader.tell() == os.fstat(source).st_size:
                break
