"""What a killed process leaves behind is swept at the next start; what a living one works on is not.

A file or folder that is being worked on is locked (flock), and the kernel lets go of the lock when the
process ends, however it ends and in whichever container. What is not locked, and was not touched for some
seconds (it is made before it is locked), was left behind.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

SETTLED_S = 10.0
_SCRATCH_PREFIX = "lucid-scratch-"


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
