"""The lease on writing to a cluster: one process has it, and no program of an earlier holder writes on.

    STATE/writer/TOKEN/scontrol -> /usr/bin/scontrol    the lease TOKEN; to take it is to rename the folder
    STATE/writer.lock                                   locked by each program that writes while it lives

A process that is stopped, or starved of the processor, between its look at a lease and the write that the
look allowed writes late: when another has given everything back already. So a program that writes is started
by its path below TOKEN, and not before it has the lock (flock(1) with --no-fork). One that takes the lease
renames TOKEN, after which no such program starts, and waits for the lock, after which none runs; what does
not end is killed. A process that was stopped meanwhile finds its program gone, and its lease lost.

Renaming works on a full disk. What is written without a program (HTTP) is checked just before (`check`).
"""

import fcntl
import os
import secrets
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from foundation.errors import BadInputError, ServiceUnavailableError
from foundation.private_files import private_folder

WRITER_FOLDER = "writer"
WRITER_LOCK = "writer.lock"

# What a dead daemon has sent its scontrol is done in milliseconds; one that hangs is waited for no longer.
_PATIENCE_S, _KILLED_WITHIN_S = 2.0, 5.0
_ATTEMPTS, _LOOK_EVERY_S = 5, 0.02
_LOST = "The lease on the cluster was taken by another process: nothing more is written."
_PROCESSES = Path("/proc")

_present: ContextVar["WriteLease | None"] = ContextVar("write lease", default=None)


class LeaseLostError(ServiceUnavailableError):
    """Another process has taken the lease: nothing may be written on the strength of what was read before."""


class WriteLease:
    """One process's lease below a state folder; `renew` is called at each `check` that finds it held."""

    def __init__(self, folder: Path, *, renew: Callable[[], None] = lambda: None) -> None:
        """It is not held yet."""
        self.token = ""
        self._folder, self._lock = folder / WRITER_FOLDER, folder / WRITER_LOCK
        self._renew = renew

    @property
    def held(self) -> bool:
        """Whether no other process has taken it since."""
        return bool(self.token) and is_in_force(self._folder.parent, self.token)

    def take(self, *, patience_s: float = _PATIENCE_S) -> None:
        """Take the lease from whichever process has it, and end that one's programs.

        They have `patience_s` to end by themselves. Raises LeaseLostError when others take it at the same
        time, ServiceUnavailableError when a program cannot be ended, OSError for a folder that is not there
        yet and cannot be made.
        """
        private_folder(self._folder, tighten=False)
        for _ in range(_ATTEMPTS):
            token = secrets.token_hex(8)
            self._revoke(token)
            with self._alone(patience_s):
                there = _names(self._folder)
                if not there:
                    (self._folder / token).mkdir(mode=0o700)
                elif token not in there:
                    continue  # another has taken it after us
                self.token = token
                return
        raise LeaseLostError(f"Others take the lease {self._folder} at the same time.")

    def check(self) -> None:
        """Renew the lease before a write; raises LeaseLostError."""
        if not self.held:
            raise LeaseLostError(_LOST)
        self._renew()

    def command(self, argv: Sequence[str]) -> list[str]:
        """Return the command that runs a program as long as the lease is held, and not otherwise.

        Raises BadInputError for a program that is not on PATH, LeaseLostError, ServiceUnavailableError for a
        folder that cannot be written.
        """
        program, flock = (_path_of(name) for name in (argv[0], "flock"))
        link = self._folder / self.token / Path(program).name
        try:
            if not (link.is_symlink() and str(link.readlink()) == program):
                link.unlink(missing_ok=True)
                link.symlink_to(program)
        except OSError as error:
            if not self.held:
                raise LeaseLostError(_LOST) from error
            raise ServiceUnavailableError(f"{self._folder} cannot be written: {error}.") from error
        # Shared: one holder's programs run beside each other, and taking the lease waits for all of them.
        how = ["--shared", "--no-fork", f"--timeout={_KILLED_WITHIN_S:g}"]
        return [flock, *how, str(self._lock), str(link), *argv[1:]]

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Let what writes to the cluster meanwhile do so under this lease (`present_lease`)."""
        before = _present.set(self)
        try:
            yield
        finally:
            _present.reset(before)

    def _revoke(self, token: str) -> None:
        for other in _names(self._folder):
            with suppress(FileNotFoundError):  # another process takes it at the same time
                try:
                    (self._folder / other).rename(self._folder / token)
                except (
                    OSError
                ):  # there were two: none is made beside another, but a person may have copied it
                    shutil.rmtree(self._folder / other)

    @contextmanager
    def _alone(self, patience_s: float) -> Iterator[None]:
        """Wait until no program runs any more that was started under an earlier lease."""
        handle = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            kill_at_s = time.monotonic() + patience_s
            while not _locked(handle):
                now_s = time.monotonic()
                if now_s > kill_at_s + _KILLED_WITHIN_S:
                    raise ServiceUnavailableError(f"A program that writes to the cluster holds {self._lock}.")
                if now_s > kill_at_s:
                    _kill_programs_with(os.fstat(handle))
                time.sleep(_LOOK_EVERY_S)
            yield
        finally:
            os.close(handle)


def present_lease() -> WriteLease | None:
    """Return the lease that writing goes by now; None: what is written needs no lease."""
    return _present.get()


def is_in_force(folder: Path, token: str) -> bool:
    """Return whether the lease of this token is the one in force in a state folder."""
    return (folder / WRITER_FOLDER / token).is_dir()


def _names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def _path_of(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        raise BadInputError(
            f"{program} is not on this machine's PATH.",
            remedy="Install its package (Debian: slurm-client, util-linux), or add its folder to PATH.",
        )
    return str(Path(path).absolute())


def _locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _kill_programs_with(lock: os.stat_result) -> None:
    """Kill the programs that were started with this lock: they have it open, and have inherited it.

    Processes that take a lease have it open too, closed on exec.
    """
    for process in _PROCESSES.glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is another user's
            handle = os.pidfd_open(int(process.name))
            try:
                if any(_is_inherited(process, fd, lock) for fd in _names(process / "fd")):
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
            finally:
                os.close(handle)


def _is_inherited(process: Path, fd: str, lock: os.stat_result) -> bool:
    try:
        opened = (process / "fd" / fd).stat()
        if (opened.st_dev, opened.st_ino) != (lock.st_dev, lock.st_ino):
            return False
        words = (process / "fdinfo" / fd).read_text().split()
    except OSError:
        return False
    return not int(words[words.index("flags:") + 1], 8) & os.O_CLOEXEC
