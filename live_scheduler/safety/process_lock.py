"""One process at a time: a file that its holder keeps locked, and that the kernel frees however it ends."""

import contextlib
import fcntl
import os
import time
from pathlib import Path
from typing import Self

# Whoever only asks (`is_held`) holds a lock for an instant: one that is taken is tried again after so long.
_TRIES, _INSTANT_S = 3, 0.01


class ProcessLock:
    """A lock on a file (flock). The file stays; it names the holder's process id, for people."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle: int | None = None

    def acquire(self) -> bool:
        """Take the lock and say whether it was free (or ours already). Raises OSError without a folder."""
        if self._handle is not None:
            return True
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        for tries_left in reversed(range(_TRIES)):
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if not tries_left:
                    os.close(handle)
                    return False
                time.sleep(_INSTANT_S)
        self._handle = handle
        with contextlib.suppress(OSError):  # on a full disk the lock holds even so
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        return True

    def release(self) -> None:
        """Give the lock up; without it, do nothing."""
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def is_held(path: Path) -> bool:
    """Return whether any process holds the lock; a file that is not there is held by nobody."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        # Shared, so that two who only ask do not see each other.
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def holder(path: Path) -> int | None:
    """Return the process id of who holds the lock, None when nobody does or it could not be written."""
    if not is_held(path):
        return None
    with contextlib.suppress(OSError, ValueError):
        return int(path.read_text())
    return None
