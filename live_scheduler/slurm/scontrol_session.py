"""One scontrol that gets its commands line by line, and what it says of each line.

scontrol reads commands from its standard input and complains on standard error, without naming the line. So
every line is followed by a word that is no command: "invalid keyword: WORD" says that the line before is
done, and what was said until then belongs to it. Nothing said means done. (Standard output is of no use for
that: it holds the prompts, and comes when its buffer is full.)

A line is cut at white space, quotes only keep it together and are not taken away, and the line editor that
reads it heeds control characters: `fits_a_line` says which values can be sent so.
"""

import contextlib
import os
import re
import secrets
import select
import subprocess
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from foundation.errors import BadInputError, ServiceUnavailableError
from live_scheduler.slurm.commands import no_answer, not_yet, plain_environment
from live_scheduler.write_lease import LeaseLostError, present_lease

# Lines on their way at once.
_WINDOW = 32
_LONGEST_LINE = 4_000
# So many jobs that cannot be changed now are waited for (2 s each) before the session is given up.
_MOST_NOT_YET = 2
GIVEN_UP = "Slurm could not change other jobs: this one was not reached."
_COMPLAINT = "invalid keyword: "
# White space as C's isspace() has it, and what a line editor takes for a key.
_UNFIT = re.compile(r"[\x00-\x20\x7f-\x9f]")


def fits_a_line(value: str) -> bool:
    """Return whether scontrol takes a value from its standard input as it is."""
    return len(value) < _LONGEST_LINE and not _UNFIT.search(value)


class ScontrolSession:
    """A running scontrol; `limit_s` is for all of its commands. Use it as a context manager.

    It runs under the present lease (`write_lease.py`), and gets no command once that is lost.
    """

    def __init__(self, limit_s: float) -> None:
        """Start it. Raises BadInputError when there is no scontrol, LeaseLostError."""
        self._deadline = time.monotonic() + limit_s
        self._limit_s = limit_s
        self._nonce = secrets.token_hex(8)
        self._count = 0
        self._not_yet = 0
        self._heard = bytearray()
        self._lease = present_lease()
        command = ["scontrol"] if self._lease is None else self._lease.command(["scontrol"])
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=plain_environment() | {"INPUTRC": os.devnull},
                restore_signals=True,
            )
        except FileNotFoundError as error:
            raise BadInputError(
                "scontrol is not on this machine's PATH.",
                remedy="Install Slurm's client programs (Debian: slurm-client), or add their folder to PATH.",
            ) from error
        stdin, stderr = self._process.stdin, self._process.stderr
        assert stdin is not None  # noqa: S101  (opened as pipes)
        assert stderr is not None  # noqa: S101
        self._in, self._out = stdin.fileno(), stderr.fileno()
        # Neither side may wait for the other to read while the other waits for it.
        os.set_blocking(self._in, False)
        self._unsent = bytearray()
        self._poll = select.poll()
        self._poll.register(self._out, select.POLLIN)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End it; what it has been sent is done or refused by then, or will never be."""
        process = self._process
        for stream in (process.stdin, process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        # At the end of its input it leaves by itself; one that waits for slurmctld does not.
        try:
            process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def tell(self, lines: Sequence[str]) -> list[str]:
        """Tell it lines and return what it said of each, "" for one that it obeyed.

        Where Slurm cannot change several jobs now, it is given up: GIVEN_UP is said of all further lines, and
        they may have been obeyed or not. Raises ServiceUnavailableError when slurmctld does not answer or the
        time is up, LeaseLostError.
        """
        answers: list[str] = []
        for start in range(0, len(lines), _WINDOW):
            window = lines[start : start + _WINDOW]
            if self._lease is not None:
                self._lease.check()
            first = self._count
            self._count += len(window)
            text = "".join(f"{line}\n{self._word(first + at)}\n" for at, line in enumerate(window))
            self._unsent += text.encode()
            self._poll.register(self._in, select.POLLOUT)
            for at in range(len(window)):
                if self._not_yet >= _MOST_NOT_YET:
                    self._process.kill()
                    return answers + [GIVEN_UP] * (len(lines) - len(answers))
                answers.append(self._until(self._word(first + at)))
                self._not_yet += not_yet(answers[-1])
        return answers

    def _word(self, number: int) -> str:
        return f"{self._nonce}-{number}"

    def _until(self, word: str) -> str:
        """Return what is said before the complaint about a word."""
        end = f"{_COMPLAINT}{word}\n".encode()
        searched = 0
        while (at := self._heard.find(end, max(0, searched - len(end)))) < 0:
            searched = len(self._heard)
            self._exchange()
        words = " ".join(self._heard[:at].decode(errors="replace").split())
        del self._heard[: at + len(end)]
        if no_answer(words):
            raise ServiceUnavailableError(f"Slurm did not answer scontrol: {words}.")
        return words

    def _exchange(self) -> None:
        """Send what it takes, hear what it says."""
        left_s = self._deadline - time.monotonic()
        ready = dict(self._poll.poll(left_s * 1000)) if left_s > 0 else {}
        if not ready:
            self._process.kill()
            raise ServiceUnavailableError(f"scontrol was not done within {self._limit_s:g} s.")
        if self._in in ready:
            try:
                del self._unsent[: os.write(self._in, self._unsent)]
            except BlockingIOError:
                pass
            except OSError:  # it reads no more; what it said stays to be heard
                self._unsent.clear()
            if not self._unsent:
                self._poll.unregister(self._in)
        if self._out in ready:
            piece = os.read(self._out, 65_536)
            if not piece:
                raise self._broken()
            self._heard += piece

    def _broken(self) -> ServiceUnavailableError:
        words = " ".join(self._heard.decode(errors="replace").split())
        if self._lease is not None and not self._lease.held:
            return LeaseLostError(f"The lease on the cluster was taken by another process: {words}")
        return ServiceUnavailableError(f"scontrol ended by itself: {words or 'it said nothing'}.")
