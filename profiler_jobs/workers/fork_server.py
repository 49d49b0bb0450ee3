"""A process that has imported PyTorch once and forks a worker when asked: a start without the wait.

The server never touches the device, so its children may (CUDA cannot be used in the fork of a process that
has initialised it; the worker checks that). It runs no parallel region and holds one thread, so forking is
safe.

Nothing outlives the coordinator. The server ends, and kills its workers' process groups, when its connection
closes or its parent changes, whatever killed the parent; the kernel kills a worker when the server dies.
"""

import ctypes
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from foundation.errors import ServiceUnavailableError
from profiler_jobs.workers.worker import run_worker
from profiler_jobs.workers.worker_protocol import Channel, ChannelClosedError, Message

_PR_SET_PDEATHSIG = 1
_POLL_S = 0.5  # how soon the server notices that its parent was replaced
_REAP_S = 0.05  # how soon it notices that a worker ended
_CLOSE_LIMIT_S = 5.0
_TAIL_BYTES = 4_096


class StartedWorker:
    """A worker as the coordinator sees it: its process id, its connection and what it wrote to stderr."""

    def __init__(self, pid: int, channel: Channel, stderr: IO[bytes]) -> None:
        self.pid = pid
        self.channel = channel
        self._stderr = stderr

    def last_words(self) -> str:
        """Return the end of what it wrote to stdout and stderr."""
        return _tail(self._stderr)

    def close(self) -> None:
        """Close the connection; the worker ends by itself when it notices."""
        self.channel.close()
        self._stderr.close()


class ForkServer:
    """The coordinator's side. Starting it takes as long as the imports; every worker after that is a fork.

    `environment` is added to the coordinator's own. Raises ServiceUnavailableError when the imports fail or
    take longer than `start_limit_s`.
    """

    def __init__(
        self, environment: Mapping[str, str], preload: Sequence[str], *, start_limit_s: float = 300.0
    ) -> None:
        own, theirs = socket.socketpair()
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the server)
        root = str(Path(__file__).parents[2])
        paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__, str(theirs.fileno()), json.dumps(list(preload))],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), **environment},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self._stderr,
                stderr=self._stderr,
                start_new_session=True,
            )
        self._channel = Channel(own)
        self._statuses: dict[int, int] = {}
        self._end = weakref.finalize(self, _end, self._process, own, self._stderr)
        try:
            self._expect("ready", start_limit_s)
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """Return the server's process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Return whether the server can still be asked."""
        return self._process.poll() is None

    def start_worker(self, task: Message, *, limit_s: float = 30.0) -> StartedWorker:
        """Fork a worker that runs `task`. Raises ServiceUnavailableError when the server does not answer."""
        own, theirs = socket.socketpair()
        stderr = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the worker)
        try:
            with theirs:
                request = json.dumps({"start": task}).encode() + b"\n"
                socket.send_fds(self._channel.connection, [request], [theirs.fileno(), stderr.fileno()])
            pid = self._expect("started", limit_s)
        except BaseException as error:
            own.close()
            stderr.close()
            if isinstance(error, OSError):
                raise ServiceUnavailableError(f"The fork server ended: {error}.") from error
            raise
        return StartedWorker(pid, Channel(own), stderr)

    def kill(self, pid: int) -> None:
        """Kill a worker and all that it started, unless it has ended."""
        if pid not in self._statuses:
            try:
                self._channel.send({"kill": pid})
            except ChannelClosedError:
                return  # a server that ends takes its workers along

    def exit_status(self, pid: int, limit_s: float) -> int | None:
        """Return a worker's exit status (negative: the signal that killed it), None if it runs on.

        A worker of a server that has ended is reported as killed.
        """
        deadline_s = time.monotonic() + limit_s
        while pid not in self._statuses:
            try:
                if not self._take_note(deadline_s - time.monotonic()) and time.monotonic() >= deadline_s:
                    return None
            except ChannelClosedError:
                return -signal.SIGKILL
        return self._statuses[pid]

    def close(self) -> None:
        """End the server and whatever it started."""
        self._end()

    def _take_note(self, timeout_s: float) -> Message | None:
        message = self._channel.receive(timeout_s)
        if message is not None and "exited" in message:
            self._statuses[message["exited"]] = message["status"]
        return message

    def _expect(self, key: str, limit_s: float) -> int:
        deadline_s = time.monotonic() + limit_s
        while True:
            left_s = deadline_s - time.monotonic()
            try:
                message = self._take_note(left_s)
            except ChannelClosedError as error:
                raise ServiceUnavailableError(
                    f"The process that starts workers ended: {_tail(self._stderr) or error}",
                ) from error
            if message is not None and key in message:
                return int(message[key])
            if left_s <= 0:
                raise ServiceUnavailableError(
                    f"The process that starts workers did not answer within {limit_s:.0f} s.",
                    remedy="See whether `import torch` works and how long it takes.",
                )


def _end(process: subprocess.Popen[bytes], connection: socket.socket, stderr: IO[bytes]) -> None:
    connection.close()
    try:
        process.wait(_CLOSE_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    stderr.close()


def _tail(file: IO[bytes]) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _TAIL_BYTES))
    return file.read().decode(errors="replace").strip()


def serve(connection: socket.socket, preload: Sequence[str]) -> None:
    """Import the modules, then fork a worker for every request until the connection closes."""
    parent = os.getppid()
    libc = ctypes.CDLL(None, use_errno=True)
    for name in preload:
        importlib.import_module(name)
    gc.freeze()  # what is imported stays: no worker's collection looks at it, or copies its pages
    workers: set[int] = set()
    try:
        connection.sendall(b'{"ready": 1}\n')
        while os.getppid() == parent:
            ready, _, _ = select.select([connection], [], [], _REAP_S if workers else _POLL_S)
            if ready and not _answer(connection, workers, libc):
                return
            for pid in list(workers):
                if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                    _kill_group(pid)  # what it started, while its id still names the group
                    _, status = os.waitpid(pid, 0)
                    workers.discard(pid)
                    code = os.waitstatus_to_exitcode(status)
                    connection.sendall(json.dumps({"exited": pid, "status": code}).encode() + b"\n")
    except (BrokenPipeError, ConnectionResetError):
        return
    finally:
        for pid in workers:
            _kill_group(pid)


def _answer(connection: socket.socket, workers: set[int], libc: Any) -> bool:
    """Do what the next request says; False when there will be none. Requests are short and come whole."""
    data, descriptors, _, _ = socket.recv_fds(connection, 2**16, 2)
    if not data:
        return False
    for line in data.splitlines():
        request = json.loads(line)
        if "kill" in request:
            if request["kill"] in workers:
                _kill_group(request["kill"])
            continue
        channel_fd, stderr_fd = descriptors
        server = os.getpid()
        pid = os.fork()
        if pid == 0:
            connection.close()
            _become_worker(request["start"], channel_fd, stderr_fd, server, libc)
        os.close(channel_fd)
        os.close(stderr_fd)
        workers.add(pid)
        connection.sendall(json.dumps({"started": pid}).encode() + b"\n")
    return True


def _become_worker(task: Message, channel_fd: int, stderr_fd: int, server: int, libc: Any) -> None:
    status = 1
    try:
        os.setsid()
        libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
        if os.getppid() == server:  # else it died before the kernel was told
            os.dup2(stderr_fd, 1)
            os.dup2(stderr_fd, 2)
            status = run_worker(Channel(socket.socket(fileno=channel_fd)), task)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)  # the server's own clean-up is not the worker's


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:  # it has not become a group's leader yet
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), json.loads(sys.argv[2]))
