"""Clients that open connections and say nothing do not keep others from being answered; with real sockets."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import httpx
import pytest

from live_scheduler.service import serving, web
from live_scheduler.service.operations import Operations
from live_scheduler.service.serving import WebServer
from tests.evidence import Evidence
from tests.live_scheduler.live_answers import Live, problem

GENEROUS_S = 30.0


@contextmanager
def opened(port: int, count: int, sent: bytes = b"") -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        sockets = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=GENEROUS_S))
            for _ in range(count)
        ]
        for each in sockets:
            each.sendall(sent)
        yield sockets


def port_of(live: Live) -> int:
    assert live.service.web is not None
    return live.service.web.port


@pytest.mark.evidence(table="faults", rows=("27",))
@pytest.mark.parametrize(
    "sent", [b"", b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ", b"POST /v1/decide HTTP/1.1\r\n"]
)
def test_half_open_connections_keep_nobody_waiting(standing: Live, sent: bytes, evidence: Evidence) -> None:
    with opened(port_of(standing), 300, sent) as flood:
        assert httpx.get(f"{standing.url}/healthz", trust_env=False).status_code == 200
        assert standing.get("/v1/status").status_code == 200
        # The flood closed its own: the oldest are gone, and no more are held than may wait.
        with suppress(ConnectionResetError):
            assert flood[0].recv(1) == b""
    evidence("faults", "27", "Beside 300 half-open connections health and status are answered.")


def test_bodies_without_the_token_are_not_waited_for(standing: Live) -> None:
    head = b"POST /v1/decide HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000\r\n\r\n{"
    with opened(port_of(standing), 60, head) as flood:
        assert standing.get("/v1/status").status_code == 200
        for each in flood:
            assert each.recv(100).startswith(b"HTTP/1.1 401")


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch, standing: Live) -> Iterator[WebServer]:
    """The same service with short deadlines."""
    monkeypatch.setattr(web, "BODY_WITHIN_S", 0.3)
    protocol = serving.guarded_protocol(head_within_s=0.3)
    monkeypatch.setattr("live_scheduler.service.serving.guarded_protocol", lambda: protocol)
    app = web.web_app(standing.operations, standing.service.metrics, standing.token)
    server = WebServer(app, 0)
    server.start()
    yield server
    server.stop()


@pytest.mark.evidence(table="faults", rows=("27",))
def test_a_head_that_drips_is_cut_off(hurried: WebServer, evidence: Evidence) -> None:
    with opened(hurried.port, 1, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ") as (slow,):
        ends = time.monotonic() + GENEROUS_S
        with suppress(OSError):
            while time.monotonic() < ends:  # every byte is in time, the head is not
                slow.sendall(b"a")
                time.sleep(0.05)
            pytest.fail("it went on")
    evidence("faults", "27", "A request that drips is cut off.")


def test_a_body_that_drips_is_answered_so(hurried: WebServer, standing: Live) -> None:
    head = (
        "POST /v1/decide HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n"
        f"Authorization: Bearer {standing.token}\r\n\r\n{{"
    )
    with opened(hurried.port, 1, head.encode()) as (slow,):
        said = slow.makefile("rb").read().decode()  # to the end: it is the connection's last
    assert said.startswith("HTTP/1.1 408")
    assert "did not arrive within 0.3 s" in said


def test_health_is_answered_while_all_others_wait(standing: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    entered, release = threading.Semaphore(0), threading.Event()

    def wait(*_: Any) -> Any:
        entered.release()
        release.wait(GENEROUS_S)
        raise AssertionError("enough")

    monkeypatch.setattr(Operations, "status", wait)
    askers = [threading.Thread(target=lambda: standing.get("/v1/status")) for _ in range(45)]
    for asker in askers:
        asker.start()
    try:
        for _ in range(40):  # threads that answer requests
            assert entered.acquire(timeout=GENEROUS_S)
        assert httpx.get(f"{standing.url}/healthz", timeout=5.0, trust_env=False).status_code == 200
    finally:
        release.set()
        for asker in askers:
            asker.join()


def test_more_requests_than_are_answered_at_once_are_told_so(
    standing: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "_MOST_REQUESTS", 0)
    answer = standing.get("/v1/status")
    assert answer.status_code == 503
    assert "requests are being answered" in problem(answer).detail
    monkeypatch.undo()
    assert standing.get("/v1/status").status_code == 200
