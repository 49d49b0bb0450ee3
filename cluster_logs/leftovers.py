"""What a killed process leaves behind is swept at the next start; what a living one works on is not.

A file or folder that is being worked on is locked (flock), and the kernel lets go of the lock when the
process ends, however it ends and in whichever container. What is not locked, and was not touched for some
seconds (it is made before it is locked), was left behind.
"""

import contextlib
import fcntl
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import psutil

SETTLED_S = 10.0
_SAME_START_S = 1.5
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


def own_process() -> str:
    """Return words that tell this process from all others, also after a restart and from other containers."""
    return "/".join((*_place(), str(os.getpid()), f"{_started_s(os.getpid()) or 0.0:.1f}"))


def is_gone(process: str) -> bool:
    """Whether the process of these words has surely ended; False where that cannot be seen from here."""
    host, _, rest = process.partition("/")
    words, here = rest.split("/"), _place()
    if len(words) != 4 or host != here[0]:
        return False
    boot, numbering, pid, started_s = words
    if boot != here[1]:  # the machine was restarted
        return True
    if numbering != here[2] or not pid.isdigit():
        return False
    try:
        now_s = _started_s(int(pid))
        return now_s is None or abs(now_s - float(started_s)) > _SAME_START_S
    except (psutil.Error, ValueError):
        return False


def _place() -> tuple[str, str, str]:
    """Host, boot, and the numbering of processes (a container has its own)."""
    return socket.gethostname(), _text("/proc/sys/kernel/random/boot_id"), _link("/proc/self/ns/pid")


def _started_s(pid: int) -> float | None:
    """Seconds from the machine's start to a process'; None when there is no such process."""
    try:
        boot_s = psutil.boot_time()  # read first: psutil adds it to what the kernel says
        return float(psutil.Process(pid).create_time() - boot_s)
    except psutil.NoSuchProcess:
        return None


def _text(path: str) -> str:
    with contextlib.suppress(OSError):
        return Path(path).read_text(encoding="ascii").strip()
    return ""


def _link(path: str) -> str:
    with contextlib.suppress(OSError):
        return str(Path(path).readlink()).replace("/", "")
    return ""


def _left_behind(path: Path, settled_s: float) -> bool:
    try:
        found = path.lstat()
        if found.st_uid != os.geteuid() or time.time() - found.st_mtime < settled_s or path.is_symlink():
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
