"""Connections that ask nothing: each has seconds to bring a request's head, and few of them are kept.

A connection waits from its opening, and again after each answer, until a whole request head has come. Where
too many wait, the one that has waited longest is closed: a flood of connections closes its own, and a caller
that asks at once is always served. Nothing here depends on the token, which comes later.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_WITHIN_S = 5.0
MOST_WAITING = 64


def guarded_protocol(
    *, head_within_s: float = HEAD_WITHIN_S, most_waiting: int = MOST_WAITING
) -> type[H11Protocol]:
    """Return uvicorn's protocol with these limits, which all connections of one server share.

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
