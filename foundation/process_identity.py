"""Words that identify one process, so that another can see later whether it has ended."""

import contextlib
import os
import socket
from pathlib import Path

import psutil

_SAME_START_S = 1.5


def own_process() -> str:
    """Return words that identify this process, also after a restart and from other containers."""
    return "/".join((*_place(), str(os.getpid()), f"{_started_s(os.getpid()) or 0.0:.1f}"))


def is_gone(process: str) -> bool:
    """Whether the process of these words has surely ended; False where that cannot be seen from here."""
    return _lives(process) is False


def is_alive(process: str) -> bool:
    """Whether the process of these words surely runs; False where that cannot be seen from here."""
    return _lives(process) is True


def _lives(process: str) -> bool | None:
    """Whether a process runs; None where that cannot be seen from here."""
    host, _, rest = process.partition("/")
    words, here = rest.split("/"), _place()
    if len(words) != 4 or host != here[0]:
        return None
    boot, numbering, pid, started_s = words
    if boot != here[1]:  # the machine was restarted
        return False
    if numbering != here[2] or not pid.isdigit():
        return None
    try:
        now_s = _started_s(int(pid))
        return now_s is not None and abs(now_s - float(started_s)) <= _SAME_START_S
    except (psutil.Error, ValueError):
        return None


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
