"""A network between a client and a server that can be cut in two ways, and heals."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

_PIECE = 65_536


@dataclass
class Network:
    """Passes on what comes to `port`; `mode` is open, refused (none listens) or silent (packets vanish)."""

    port: int
    target: int
    mode: str = "open"
    passes_bytes: int | None = None  # after so many the network is silent
    open_pairs: list[socket.socket] = field(default_factory=list)

    @property
    def uri(self) -> str:
        """Where the client finds the server."""
        return f"http://127.0.0.1:{self.port}"

    def cut(self, mode: str) -> None:
        """Cut it, and reset what is open unless packets merely vanish."""
        self.mode = mode
        if mode == "refused":
            for each in self.open_pairs:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def heal(self) -> None:
        """Pass on whatever comes from now on; connections from before are dead."""
        self.cut("refused")
        self.open_pairs.clear()
        self.mode, self.passes_bytes = "open", None

    def serve(self, client: socket.socket) -> None:
        """Take care of one connection."""
        if self.mode == "refused":
            client.close()
            return
        with suppress(OSError):
            server = socket.create_connection(("127.0.0.1", self.target))
            self.open_pairs += [client, server]
            back = threading.Thread(target=self._pass_on, args=(server, client), daemon=True)
            back.start()
            self._pass_on(client, server)

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while piece := source.recv(_PIECE):
                if self.passes_bytes is not None:
                    self.passes_bytes -= len(piece)
                    if self.passes_bytes < 0:
                        self.mode = "silent"
                if self.mode == "open":
                    sink.sendall(piece)
            if self.mode == "open":
                sink.shutdown(socket.SHUT_WR)


@contextmanager
def network(target: int) -> Iterator[Network]:
    """A network before a port of this machine."""
    listening = socket.create_server(("127.0.0.1", 0))
    made = Network(listening.getsockname()[1], target)

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                threading.Thread(target=made.serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield made
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        made.cut("refused")
