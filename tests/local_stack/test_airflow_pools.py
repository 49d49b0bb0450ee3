"""Setting a pool at Airflow's REST API: created, changed, left alone, and tried again when it is busy."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from foundation.errors import ServiceUnavailableError
from local_stack import airflow_client
from local_stack.airflow_client import AirflowClient

WANTED = {"slots": 2, "description": "GPUs", "include_deferred": False}


class PoolServer(ThreadingHTTPServer):
    """Airflow's pools over HTTP; the next `busy` writes end in a database error."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), PoolHandler)
        self.pools: dict[str, dict[str, Any]] = {}
        self.busy = 0
        self.written: list[str] = []


class PoolHandler(BaseHTTPRequestHandler):
    server: PoolServer

    def answer(self, status: int, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def body(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        return found

    def do_GET(self) -> None:
        pool = self.server.pools.get(self.path.rpartition("/")[2])
        self.answer(200 if pool else 404, pool or {})

    def do_POST(self) -> None:
        self.write(self.body())

    def do_PATCH(self) -> None:
        self.write(self.body())

    def write(self, pool: dict[str, Any]) -> None:
        if self.path == "/auth/token":
            self.answer(201, {"access_token": "t"})
            return
        self.server.written.append(self.command)
        if self.server.busy:
            self.server.busy -= 1
            self.answer(500, {"detail": {"reason": "Database error"}})
            return
        self.server.pools[pool.get("name") or pool["pool"]] = pool
        self.answer(200, pool)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[PoolServer]:
    monkeypatch.setattr(airflow_client, "POOL_PAUSE_S", 0.0)
    with PoolServer() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def airflow(server: PoolServer) -> Iterator[AirflowClient]:
    with AirflowClient(
        f"http://127.0.0.1:{server.server_address[1]}", username="admin", password="x"
    ) as client:
        yield client


def test_a_pool_is_created_changed_and_then_left_alone(airflow: AirflowClient, server: PoolServer) -> None:
    airflow.set_pool("gpu", 1, "GPUs")
    airflow.set_pool("gpu", 2, "GPUs")
    airflow.set_pool("gpu", 2, "GPUs")
    assert server.written == ["POST", "PATCH"]
    assert {name: server.pools["gpu"][name] for name in WANTED} == WANTED


def test_a_busy_database_is_asked_again(airflow: AirflowClient, server: PoolServer) -> None:
    server.busy = 3
    airflow.set_pool("gpu", 2, "GPUs")
    assert server.written == ["POST"] * 4
    assert server.pools["gpu"]["slots"] == 2


def test_a_database_that_stays_busy_is_an_error(airflow: AirflowClient, server: PoolServer) -> None:
    server.busy = 1_000
    with pytest.raises(ServiceUnavailableError, match="Database error"):
        airflow.set_pool("gpu", 2, "GPUs")
