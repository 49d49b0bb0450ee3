"""Serves HTTP from a thread of the daemon, on loopback, and comes back when it fails."""

import asyncio
import logging
import socket
from threading import Event, Thread
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from foundation.errors import BadInputError

_log = logging.getLogger(__name__)
_HOST = "127.0.0.1"
_LONGEST_PAUSE_S = 60.0
HEAD_WITHIN_S = 5.0
MOST_WAITING = 64


class WebServer:
    """Uvicorn in a thread. Whatever happens there, the process goes on: what fails is started anew."""

    def __init__(self, app: ASGIApp, port: int) -> None:
        """Take the port (0: any free one); raises BadInputError when it is taken."""
        self._app = app
        self._socket = loopback_socket(port)
        self.port: int = self._socket.getsockname()[1]
        self.url = f"http://{_HOST}:{self.port}"
        self._stopping = Event()
        self._server: uvicorn.Server | None = None
        self._thread = Thread(target=self._serve, name="lucid-http", daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._socket.listen(128)  # a connection from now on waits for the thread, and is not refused
        self._thread.start()

    def stop(self) -> None:
        """Answer what is under way, and end; returns within seconds."""
        self._stopping.set()
        server = self._server
        if server is not None:
            server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join(timeout=10.0)
        self._socket.close()

    def _serve(self) -> None:
        pause_s = 1.0
        while not self._stopping.is_set():
            config = uvicorn.Config(
                self._app,
                log_config=None,
                access_log=False,
                lifespan="off",
                log_level="error",  # malformed requests do not fill the log
                server_header=False,
                http=guarded_protocol(),
                ws="none",
                timeout_graceful_shutdown=5,
            )
            server = uvicorn.Server(config)
            self._server = server
            if self._stopping.is_set():
                return
            try:
                asyncio.run(server.serve(sockets=[self._socket.dup()]))
                pause_s = 1.0
            except BaseException as error:  # SystemExit too: uvicorn exits when it cannot start
                _log.error("The HTTP service failed (again in %g s): %r", pause_s, error)
            if self._stopping.wait(pause_s):
                return
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def loopback_socket(port: int) -> socket.socket:
    """Return a socket bound to a loopback port (0: any free one); raises BadInputError when it is taken."""
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((_HOST, port))
    except OSError as error:
        bound.close()
        raise BadInputError(
            f"Port {port} of {_HOST} cannot be used: {error.strerror}.",
            remedy="Choose another, or 0 for any free one.",
        ) from None
    return bound


def guarded_protocol(
    *, head_within_s: float = HEAD_WITHIN_S, most_waiting: int = MOST_WAITING
) -> type[H11Protocol]:
    """Return uvicorn's protocol with these limits, which all connections of one server share.

    A connection waits from its opening, and again after each answer, until a whole request head has come.
    Where too many wait, the one that has waited longest is closed: a flood of connections closes its own, and
    a caller that asks at once is always served. Nothing here depends on the token, which comes later.

    It is h11's, which also bounds the size of a head; httptools' does not.
    """
    waiting: dict[H11Protocol, asyncio.TimerHandle] = {}  # the longest first

    class Guarded(H11Protocol):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._wait()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self._asked():
                self._stop_waiting()

        def on_response_complete(self) -> None:
            super().on_response_complete()  # a request that was sent ahead begins here
            if not self._asked():
                self._wait()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            super().connection_lost(exc)

        def _asked(self) -> bool:
            return self.cycle is not None and not self.cycle.response_complete

        def _wait(self) -> None:
            self._stop_waiting()
            if self.transport.is_closing():
                return
            if len(waiting) >= most_waiting:
                next(iter(waiting)).transport.abort()
            waiting[self] = self.loop.call_later(head_within_s, self.transport.abort)

        def _stop_waiting(self) -> None:
            timer = waiting.pop(self, None)
            if timer is not None:
                timer.cancel()

    return Guarded
