"""One process at a time: a file that its holder keeps locked, and that the kernel frees however it ends.

So does a file or folder that is being worked on (`held`). What a killed process leaves behind is not locked,
in whichever container it ran, and is swept at the next start; what a living one works on is not.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol, Self

# Asking (`is_held`) holds a lock for an instant: one that is taken is tried again after so long.
_TRIES, _INSTANT_S = 3, 0.01
# How often a lock that is waited for is tried.
_TRY_EVERY_S = 0.2
# A file is made before it is locked: one that was touched so lately may be about to be locked.
SETTLED_S = 10.0
_SCRATCH_PREFIX = "lucid-scratch-"


class Acquirable(Protocol):
    """Anything that can be taken by one at a time."""

    def acquire(self) -> bool:
        """Take it, if it is free; say whether it is ours."""


class ProcessLock:
    """A lock on a file (flock). The file stays; while the lock is held it names the process and its machine.

    `mode` is the file's: by default its user's alone.
    """

    def __init__(self, path: Path, mode: int = 0o600) -> None:
        self.path = path
        self._mode = mode
        self._handle: int | None = None

    def acquire(self) -> bool:
        """Take the lock and say whether it was free (or ours already). Raises OSError without a folder."""
        if self._handle is not None:
            return True
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        handle = os.open(self.path, flags, self._mode)
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
            os.pwrite(handle, f"{os.getpid()} {os.uname().nodename}\n".encode(), 0)
        return True

    def release(self) -> None:
        """Give the lock up; without it, do nothing."""
        handle, self._handle = self._handle, None
        if handle is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(handle, 0)  # the number of a process that does not hold it says nothing
            os.close(handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def acquire_within(lock: Acquirable, wait_s: float | None, waiting: Callable[[float], object]) -> bool:
    """Take a lock, waiting for it at most `wait_s` seconds (None: as long as it takes); whether it is ours.

    `waiting` is called again and again with the seconds waited so far.
    """
    began_s = time.monotonic()
    while not lock.acquire():
        waited_s = time.monotonic() - began_s
        if wait_s is not None and waited_s >= wait_s:
            return False
        waiting(waited_s)
        time.sleep(_TRY_EVERY_S)
    return True


def is_held(path: Path) -> bool:
    """Return whether any process holds the lock; a file that is not there is not held."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        # Shared, so that two queries do not see each other.
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def holder(path: Path) -> int | None:
    """Return the process id of the lock's holder.

    None: it is free, its holder is of another machine or container (a shared folder), or could not be named.
    """
    process, machine = _named(path)
    return process if machine == os.uname().nodename else None


def held_elsewhere(path: Path) -> str | None:
    """Return the machine or container whose process holds the lock; None: it is free, or held on this one."""
    _, machine = _named(path)
    return machine if machine not in {"", os.uname().nodename} else None


def _named(path: Path) -> tuple[int | None, str]:
    """The process and the machine that a lock's file names, while it is held; (None, "") otherwise."""
    if not is_held(path):
        return None, ""
    with contextlib.suppress(OSError, ValueError):
        process, _, machine = path.read_text("utf-8", "replace").partition(" ")
        return int(process), machine.strip() or os.uname().nodename  # 0.1.0 wrote the number alone
    return None, ""


# What killed processes leave behind ------------------------------------------------------------------------


@contextlib.contextmanager
def held(path: Path) -> Iterator[None]:
    """Mark a file or folder as being worked on, while the block runs; where locks are not to be had, not."""
    handle = None
    try:
        with contextlib.suppress(OSError):
            handle = _open(path)
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        yield
    finally:
        if handle is not None:
            os.close(handle)


def sweep(paths: Iterable[Path], *, settled_s: float = SETTLED_S) -> list[Path]:
    """Delete those of our own files and folders that no process holds; return them."""
    return [path for path in paths if _left_behind(path, settled_s) and _delete(path)]


@contextlib.contextmanager
def scratch_folder(purpose: str) -> Iterator[Path]:
    """A private folder among the system's temporary ones, gone afterwards; first sweeps those left behind."""
    sweep(Path(tempfile.gettempdir()).glob(f"{_SCRATCH_PREFIX}*"))
    with tempfile.TemporaryDirectory(prefix=f"{_SCRATCH_PREFIX}{purpose}-") as name, held(Path(name)):
        yield Path(name)


def _left_behind(path: Path, settled_s: float) -> bool:
    try:
        status = path.lstat()
        if status.st_uid != os.geteuid() or time.time() - status.st_mtime < settled_s or path.is_symlink():
            return False
        handle = _open(path)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def _open(path: Path) -> int:
    kind = os.O_RDONLY | os.O_DIRECTORY if path.is_dir() else os.O_RDWR  # NFS locks what may be written alone
    return os.open(path, kind | os.O_NOFOLLOW | os.O_CLOEXEC)


def _delete(path: Path) -> bool:
    with contextlib.suppress(OSError):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()
    return not path.exists()
