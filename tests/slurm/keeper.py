"""Holds the daemons of a private Slurm, so that nothing of it outlives the process that asked for it.

Runs as a process of its own (`python keeper.py`, standard library only) and obeys JSON lines on its standard
input: `{"start": name, "argv": [...], "env": {...}, "log": path}`, `{"stop": name, "signal": number}`, `{}`.
Each is answered by one JSON line: which daemons are alive. At the end of its input, however the other
side came to its end, or on SIGTERM, it ends every daemon and all that they started.

Slurm's step daemons leave their parent on purpose. The keeper adopts orphans (PR_SET_CHILD_SUBREAPER), so
every process of the cluster stays its descendant.
"""

import contextlib
import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

GRACE_S = 8.0
_PR_SET_CHILD_SUBREAPER = 36
# Daemons get these at their defaults again: slurmctld reads its configuration anew on SIGHUP.
_IGNORED = (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE)


class Keeper:
    """The daemons by name, in the order of their start."""

    def __init__(self) -> None:
        self._pids: dict[str, int] = {}
        self._ended: set[int] = set()

    def obey(self, request: dict[str, Any]) -> dict[str, Any]:
        if "start" in request:
            self._start(request["start"], request["argv"], request["env"], request["log"])
        elif "stop" in request:
            self._stop(request["stop"], request["signal"])
        return {name: self._alive(name) for name in self._pids}

    def end_all(self) -> None:
        """The last started first, politely; then whatever is left of the cluster, jobs included."""
        try:
            for name in reversed(self._pids):
                self._stop(name, signal.SIGTERM)
        finally:
            deadline = time.monotonic() + GRACE_S
            while time.monotonic() < deadline and (left := list(_descendants(os.getpid()))):
                for pid in left:
                    _send(pid, signal.SIGKILL)
                time.sleep(0.02)
                self.reap()

    def reap(self, *_: object) -> None:
        while True:
            try:
                pid, _status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._ended.add(pid)

    def _start(self, name: str, argv: list[str], env: dict[str, str], log: str) -> None:
        appending = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        files = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, log, appending, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ]
        # Orphans that ended before had numbers that a new daemon may get.
        self._ended &= set(self._pids.values())
        self._pids[name] = os.posix_spawnp(
            argv[0], argv, env, file_actions=files, setsid=True, setsigdef=_IGNORED
        )

    def _stop(self, name: str, number: int) -> None:
        pid = self._pids[name]
        deadline = time.monotonic() + GRACE_S
        while self._alive(name):
            _send(pid, number if time.monotonic() < deadline else signal.SIGKILL)
            # A daemon that is busy starting may miss the first signal.
            for _ in range(100):
                if not self._alive(name):
                    break
                time.sleep(0.01)

    def _alive(self, name: str) -> bool:
        self.reap()
        return self._pids[name] not in self._ended


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _descendants(root: int) -> Iterator[int]:
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            # The second field is the name in parentheses and may hold anything.
            parent = int(stat.rpartition(")")[2].split()[1])
            parents.setdefault(parent, []).append(int(entry.name))
    waiting = list(parents.get(root, ()))
    while waiting:
        pid = waiting.pop()
        waiting += parents.get(pid, ())
        yield pid


def main() -> None:
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    keeper = Keeper()

    def end(*_: object) -> None:
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, end)
    for ignored in _IGNORED:
        signal.signal(ignored, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, keeper.reap)
    try:
        for line in sys.stdin:
            print(json.dumps(keeper.obey(json.loads(line))), flush=True)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        keeper.end_all()


if __name__ == "__main__":
    main()
