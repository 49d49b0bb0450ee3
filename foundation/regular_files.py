"""Opening what is a file on this machine, and nothing else: a pipe, a socket or a device may never answer.

Needs the standard library alone, so that the light client can use it.
"""

import errno
import os
import stat
from typing import BinaryIO


class NotAFileError(OSError):
    """The path leads to something that is no file: a folder, a pipe, a socket or a device."""

    def __init__(self, path: str | os.PathLike[str], kind: str) -> None:
        super().__init__(errno.EINVAL, f"{kind}, not a file", os.fspath(path))
        self.kind = kind


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a file for reading without waiting. Raises OSError: NotAFileError for what is none."""
    # Without O_NONBLOCK opening a pipe waits for its writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise NotAFileError(path, _kind(mode))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: str | os.PathLike[str], most_bytes: int = -1) -> bytes:
    """Return a file's content, or its first `most_bytes`; raises as `open_regular`."""
    with open_regular(path) as file:
        return file.read(most_bytes)


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a folder"
    if stat.S_ISFIFO(mode):
        return "a pipe"
    return "a socket" if stat.S_ISSOCK(mode) else "a device"
