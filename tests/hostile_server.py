"""An HTTP server that means ill, over real sockets: each path is one attack, bounded in size."""

import gzip
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

_HEAD = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
_PIECE = b"x" * 65_536
_MOST_PIECES = 4_096  # 256 MiB: a client that reads on does not fill the machine
_LONGEST_S = 60.0


@dataclass
class HostileServer:
    """Answers each request by its `attack`; `requests` are the heads of what was asked, `sent` body bytes."""

    port: int
    attack: str = ""
    body: bytes = b"{}"
    requests: list[str] = field(default_factory=list)
    sent: int = 0
    closing: threading.Event = field(default_factory=threading.Event)

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answer(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.settimeout(_LONGEST_S)
            head = b""
            while b"\r\n\r\n" not in head:
                more = connection.recv(65_536)
                if not more:
                    return
                head += more
            self.requests.append(head.decode("latin-1"))
            attacks: dict[str, Callable[[socket.socket], None]] = {
                "": self._plain,
                "endless body": self._endless,
                "drip body": self._drip_body,
                "drip headers": self._drip_headers,
                "silence": lambda _: self._pause(_LONGEST_S),
                "endless 100": self._continues,
                "gzip": self._gzip,
                "huge length": lambda to: self._send(to, f"{_HEAD}Content-Length: {10**15}\r\n\r\n".encode()),
                "redirect": self._redirect,
            }
            attacks[self.attack](connection)

    def _plain(self, to: socket.socket) -> None:
        head = f"{_HEAD}Content-Length: {len(self.body)}\r\nConnection: close\r\n\r\n"
        self._send(to, head.encode() + self.body)

    def _endless(self, to: socket.socket) -> None:
        self._send(to, f"{_HEAD}Transfer-Encoding: chunked\r\n\r\n".encode())
        for _ in range(_MOST_PIECES):
            self._send(to, f"{len(_PIECE):x}\r\n".encode() + _PIECE + b"\r\n")
            self.sent += len(_PIECE)

    def _drip_body(self, to: socket.socket) -> None:
        self._send(to, f"{_HEAD}Content-Length: 10000\r\n\r\n".encode())
        self._drip(to, b" ")

    def _drip_headers(self, to: socket.socket) -> None:
        self._send(to, b"HTTP/1.1 200 OK\r\nX-Slow: ")
        self._drip(to, b"a")

    def _continues(self, to: socket.socket) -> None:
        self._drip(to, b"HTTP/1.1 100 Continue\r\n\r\n")

    def _gzip(self, to: socket.socket) -> None:
        bomb = gzip.compress(b" " * (64 << 20))
        head = f"{_HEAD}Content-Encoding: gzip\r\nContent-Length: {len(bomb)}\r\n\r\n"
        self._send(to, head.encode() + bomb)

    def _redirect(self, to: socket.socket) -> None:
        where = "http://127.0.0.2:1/elsewhere"
        self._send(to, f"HTTP/1.1 302 Found\r\nLocation: {where}\r\nContent-Length: 0\r\n\r\n".encode())

    def _drip(self, to: socket.socket, piece: bytes) -> None:
        ends = time.monotonic() + _LONGEST_S
        while time.monotonic() < ends and not self.closing.is_set():
            self._send(to, piece)
            self._pause(0.05)

    def _send(self, to: socket.socket, payload: bytes) -> None:
        if self.closing.is_set():
            raise OSError("closing")
        to.sendall(payload)

    def _pause(self, seconds: float) -> None:
        self.closing.wait(seconds)


@contextmanager
def hostile_server() -> Iterator[HostileServer]:
    listening = socket.create_server(("127.0.0.1", 0))
    server = HostileServer(listening.getsockname()[1])

    def serve() -> None:
        while not server.closing.is_set():
            with suppress(OSError):
                connection, _ = listening.accept()
                threading.Thread(target=server.answer, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(timeout=10.0)
