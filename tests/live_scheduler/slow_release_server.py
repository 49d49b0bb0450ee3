"""A registry that answers at once which release there is, and sends its files as slowly as it is told."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from lucid_models.releases.approval import ReleaseIdentity, VerdictTags

_PIECES = 5


@contextmanager
def slow_release_server(
    identity: ReleaseIdentity,
    tags: VerdictTags,
    files: dict[str, bytes],
    pause: Callable[[str], object] = lambda file: time.sleep(0.06),
) -> Iterator[str]:
    """The address of a server that calls `pause` with a file's name before each of its five pieces."""
    version = {
        "version": str(identity.version),
        "tags": [
            {"key": "manifest_sha256", "value": identity.manifest_sha256},
            {"key": "verdict", "value": tags.word},
            {"key": "verdict_sha256", "value": tags.sha256},
            {"key": "verdict_run_id", "value": "0" * 32},
        ],
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = urlsplit(self.path)
            if asked.path.endswith("/alias"):
                self._head(body := json.dumps({"model_version": version}).encode())
                self.wfile.write(body)
                return
            name = parse_qs(asked.query)["path"][0]
            self._head(body := files[name])
            piece = len(body) // _PIECES + 1
            for begin in range(0, len(body), piece):
                pause(name)
                self.wfile.write(body[begin : begin + piece])

        def _head(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
