"""Writes to an Airflow whose database is locked now and then: pools are set and runs started, each once."""

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
    """Airflow's pools and runs over HTTP; the next `busy` writes end in a database error.

    `done_all_the_same`: what such a write asked for had happened.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), PoolHandler)
        self.pools: dict[str, dict[str, Any]] = {}
        self.runs: dict[str, dict[str, Any]] = {}
        self.busy = 0
        self.done_all_the_same = False
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
        name = self.path.rpartition("/")[2]
        there = (self.server.runs if "/dagRuns/" in self.path else self.server.pools).get(name)
        self.answer(200 if there else 404, there or {})

    def do_POST(self) -> None:
        self.write(self.body())

    def do_PATCH(self) -> None:
        self.write(self.body())

    def write(self, pool: dict[str, Any]) -> None:
        if self.path == "/auth/token":
            self.answer(201, {"access_token": "t"})
            return
        self.server.written.append(self.command)
        is_run = self.path.endswith("/dagRuns")
        key = pool["dag_run_id"] if is_run else pool.get("name") or pool["pool"]
        busy = self.server.busy > 0
        self.server.busy -= busy
        if not busy or self.server.done_all_the_same:
            (self.server.runs if is_run else self.server.pools)[key] = pool
        self.answer(500 if busy else 200, {"detail": {"reason": "Database error"}} if busy else pool)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[PoolServer]:
    monkeypatch.setattr(airflow_client, "BUSY_PAUSE_S", 0.0)
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


def test_a_run_is_started_once_though_the_database_was_busy(
    airflow: AirflowClient, server: PoolServer
) -> None:
    server.busy = 3
    run_id = airflow.trigger("ingest_logs", {"days": 2})
    assert list(server.runs) == [run_id]
    assert server.runs[run_id]["conf"] == {"days": 2}
    assert server.written == ["POST"] * 4


def test_a_run_that_began_in_spite_of_the_error_is_not_started_again(
    airflow: AirflowClient, server: PoolServer
) -> None:
    server.busy, server.done_all_the_same = 1, True
    run_id = airflow.trigger("ingest_logs", {})
    assert list(server.runs) == [run_id]
    assert server.written == ["POST"]
