"""httpx's transport with the deadline of what is under way on every wait of its sockets.

A module of its own, since httpx takes most of the time that a client of releases takes to be imported.
"""

from collections.abc import Iterable
from typing import Any

import httpcore
import httpx

from foundation.deadlines import time_left

_KEEP_ALIVE_S = 5.0
_MAX_WRITE = 64 * 1024


class DeadlineTransport(httpx.HTTPTransport):
    """httpx's transport over sockets that keep the deadline; HTTP/1.1, without proxies."""

    def __init__(self, verify: Any) -> None:
        context = httpx.create_ssl_context(verify=verify)  # SSL_CERT_FILE may name a site's own authority
        super().__init__(verify=context, trust_env=False)
        self._pool = httpcore.ConnectionPool(
            ssl_context=context, keepalive_expiry=_KEEP_ALIVE_S, network_backend=_DeadlineBackend()
        )


class _DeadlineBackend(httpcore.NetworkBackend):
    def __init__(self) -> None:
        self._inner = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        left_s = time_left(timeout, httpcore.ConnectTimeout)
        return _DeadlineStream(self._inner.connect_tcp(host, port, left_s, local_address, socket_options))


class _DeadlineStream(httpcore.NetworkStream):
    def __init__(self, inner: httpcore.NetworkStream) -> None:
        self._inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, time_left(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for begin in range(0, len(buffer), _MAX_WRITE):
            left_s = time_left(timeout, httpcore.WriteTimeout)
            self._inner.write(buffer[begin : begin + _MAX_WRITE], left_s)

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        left_s = time_left(timeout, httpcore.ConnectTimeout)
        return _DeadlineStream(self._inner.start_tls(ssl_context, server_hostname, left_s))

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)
