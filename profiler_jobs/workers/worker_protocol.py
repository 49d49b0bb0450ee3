"""How the coordinator, the fork server and the workers talk: JSON objects, one a line, over socket pairs.

The coordinator tells a worker what to `do`; a worker says what it `said`:

    train {steps, until_s}   train from now on (or go on), and say `reached` once `steps` steps of this
                             stretch are complete and one was at or after `until_s` (monotonic clock)
    pause                    finish the step, wait until the device is idle, say `paused`
    stop                     end; so does the other side's closing

    built {examples_per_step}            after the start
    alive                                about every second, between steps
    reached {}
    paused {begin_s, completions_s, probes}    all steps since training began, and how quick the core was
    failed {out_of_memory, no_cuda, error, stage, held_mib}     the last message
"""

import json
import select
import socket
from typing import Any

from foundation.errors import LucidError

Message = dict[str, Any]

LONGEST_MESSAGE_BYTES = 256 * 2**20
_CHUNK_BYTES = 2**16


class ChannelClosedError(LucidError):
    """The other side ended."""


class Channel:
    """One end of a connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._read: list[bytes] = []
        self._read_bytes = 0
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)

    def send(self, message: Message) -> None:
        """Send a message. Raises ChannelClosedError."""
        try:
            self.connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError as error:
            raise ChannelClosedError(f"The other side ended: {error}.") from error

    def receive(self, timeout_s: float) -> Message | None:
        """Return the next message; None when none is complete after one wait of `timeout_s`.

        Raises ChannelClosedError when the other side has ended and nothing is left.
        """
        message = self._next()
        if message is not None or not self._poll.poll(max(0.0, timeout_s) * 1e3):
            return message
        try:
            chunk = self.connection.recv(_CHUNK_BYTES)
        except OSError as error:
            raise ChannelClosedError(f"The other side ended: {error}.") from error
        if not chunk:
            raise ChannelClosedError("The other side ended.")
        self._read.append(chunk)
        self._read_bytes += len(chunk)
        if self._read_bytes > LONGEST_MESSAGE_BYTES:
            raise ChannelClosedError(f"A message exceeds {LONGEST_MESSAGE_BYTES:,} bytes.")
        return self._next() if b"\n" in chunk else None

    def close(self) -> None:
        """Close this end."""
        self.connection.close()

    def _next(self) -> Message | None:
        if not self._read or (len(self._read) > 1 and b"\n" not in self._read[-1]):
            return None
        line, newline, rest = b"".join(self._read).partition(b"\n")
        if not newline:
            return None
        self._read = [rest] if rest else []
        self._read_bytes = len(rest)
        message = json.loads(line)
        if not isinstance(message, dict):
            raise ChannelClosedError(f"The other side sent no object: {line[:80]!r}.")
        return message
