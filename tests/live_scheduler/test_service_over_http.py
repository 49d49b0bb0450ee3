"""The HTTP service from the outside: a real server over a real daemon, asked by an HTTP client."""

import json
import socket
import stat
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foundation.errors import BadInputError
from live_scheduler.service import schema
from live_scheduler.service.operations import Operations
from live_scheduler.service.serving import WebServer
from live_scheduler.service.state_files import ENDPOINT_FILE, TOKEN_FILE, token_of
from tests.evidence import Evidence
from tests.live_scheduler.live_answers import STATE, Live, problem
from tests.live_scheduler.pushing import pushed_cluster
from tests.waiting import PATIENCE_S

# Who may ask


@pytest.mark.evidence(table="faults", rows=("27",))
@pytest.mark.parametrize(
    "path", ["/v1/status", "/v1/queue", "/v1/jobs/2/explain", "/v1/jobs/2/when", "/metrics",
             "/v1/openapi.json", "/docs", "/nothing"],
)  # fmt: skip
@pytest.mark.parametrize("given", [{}, {"Authorization": "Bearer no"}, {"Authorization": "Basic x"}])
def test_nothing_is_told_without_the_token(
    standing: Live, path: str, given: dict[str, str], evidence: Evidence
) -> None:
    answer = httpx.get(standing.url + path, headers=given, trust_env=False)
    assert answer.status_code == 401
    assert problem(answer).remedy
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert standing.token not in answer.text
    evidence("faults", "27", "Without the token every path answers 401.")


def test_two_tokens_are_none(standing: Live) -> None:
    headers = [("Authorization", f"Bearer {standing.token}"), ("Authorization", "Bearer other")]
    assert httpx.get(f"{standing.url}/v1/status", headers=headers, trust_env=False).status_code == 401


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "10.0.0.1", ""]
)
def test_a_request_for_another_host_is_refused(standing: Live, host: str) -> None:
    answer = standing.get("/v1/status", headers={"Host": host})
    assert answer.status_code in (400, 421)
    assert standing.get("/v1/status", headers={"Host": "localhost:1234"}).status_code == 200
    assert standing.get("/v1/status", headers={"Host": "[::1]:9"}).status_code == 200


def test_the_service_listens_on_loopback_alone(standing: Live) -> None:
    assert standing.service.web is not None
    assert standing.service.web._socket.getsockname()[0] == "127.0.0.1"


def test_the_token_is_its_owners_alone_and_lasts(live: Live) -> None:
    path = live.folder / TOKEN_FILE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((live.folder / ENDPOINT_FILE).stat().st_mode) == 0o600
    assert token_of(live.folder) == live.token
    path.chmod(0o640)
    with pytest.raises(BadInputError, match="Others may read"):
        token_of(live.folder)


def test_the_first_of_many_makes_the_token(tmp_path: Path) -> None:
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(token_of(tmp_path / "state"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700
    assert [path.name for path in (tmp_path / "state").iterdir()] == [TOKEN_FILE]


# Pushed in


def test_decide_ranks_a_pushed_cluster_and_remembers_nothing(standing: Live) -> None:
    body = pushed_cluster(STATE).model_dump_json()
    passes = standing.daemon.view.counts["passes"]
    first = standing.post("/v1/decide", body)
    assert first.status_code == 200
    decision = schema.Decision.model_validate_json(first.content)
    assert [place.job_id for place in decision.ranked] == ["3", "7", "4", "2"]
    assert decision.release_version == 7
    again = schema.Decision.model_validate_json(standing.post("/v1/decide", body).content)
    assert again.ranked == decision.ranked
    assert standing.daemon.view.counts["passes"] == passes


def test_a_daemon_that_reads_its_cluster_takes_no_pushed_state(standing: Live) -> None:
    body = pushed_cluster(STATE).model_dump_json()
    answer = standing.post("/v1/schedule", body)
    assert answer.status_code == 409
    assert "/v1/decide" in problem(answer).remedy
    assert standing.post("/v1/ends", "{}").status_code == 409


@pytest.mark.parametrize(
    ("body", "place"),
    [
        (b"", "body"),
        (b"{", "body"),
        (b"[1]", "body"),
        (b'{"at_s": 1, "jobs": [{"job_id": "1"}]}', "body.jobs.0.virtual_cluster"),
        (b'{"at_s": "soon"}', "body.at_s"),
        (b'{"at_s": NaN}', "body"),
        (b'{"at_s": 1, "at_s": 2}', "body"),
        (b'{"jobs": ' + b"[" * 5_000 + b"]" * 5_000 + b"}", "body"),
        (b"[" * 1_000_000, "body"),
        (b'{"at_s": 1e999}', "body.at_s"),
        (b'{"at_s": 1, "job": []}', "body.job"),
        (b"\xff\xfe", "body"),
    ],
)
def test_a_body_that_cannot_be_used_is_named(standing: Live, body: bytes, place: str) -> None:
    answer = standing.get(
        "/v1/decide", method="POST", content=body, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 422
    told = problem(answer)
    assert told.place.startswith(place)
    assert told.remedy


fields = st.sampled_from(["at_s", "jobs", "nodes", "job_id", "gpus", "submit_time_s", "partitions", "x"])
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(fields, inner, max_size=4),
    max_leaves=12,
)


@given(
    body=st.dictionaries(fields, anything, max_size=4) | anything, path=st.sampled_from(["decide", "ends"])
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_json_is_sent_gets_an_answer_that_is_no_fault_of_ours(
    standing: Live, body: Any, path: str
) -> None:
    answer = standing.post(f"/v1/{path}", json.dumps(body))
    assert answer.status_code in (200, 409, 422)
    if answer.status_code == 422:
        assert problem(answer).place.startswith("body")


def test_a_huge_body_is_refused_before_it_is_read(standing: Live) -> None:
    from live_scheduler.service.web import MAX_BODY_BYTES

    with socket.create_connection(("127.0.0.1", standing.service.web.port), timeout=PATIENCE_S) as connection:
        head = (
            f"POST /v1/decide HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {standing.token}\r\n"
            f"Content-Length: {MAX_BODY_BYTES + 1}\r\n\r\n"
        )
        connection.sendall(head.encode())
        assert connection.recv(12) == b"HTTP/1.1 413"
    assert standing.get("/v1/status").status_code == 200


def test_a_body_of_unknown_length_is_cut_off_too(standing: Live) -> None:
    from live_scheduler.service.web import MAX_BODY_BYTES

    part = b" " * (1024 * 1024)

    def endless() -> Iterator[bytes]:
        for _ in range(MAX_BODY_BYTES // len(part) + 2):
            yield part

    try:
        answer = standing.get("/v1/decide", method="POST", content=endless())
    except httpx.WriteError:
        pass  # the service had answered and hung up
    else:
        assert answer.status_code == 413
    assert standing.get("/v1/status").status_code == 200


def test_paths_and_methods_that_are_not_there_are_problems_too(standing: Live) -> None:
    assert problem(standing.get("/v2/status")).status == 404
    assert problem(standing.get("/v1/status", method="DELETE")).status == 405
    assert standing.get("/docs").status_code == 404
    assert "/v1/jobs/{job_id}/explain" in standing.get("/v1/openapi.json").json()["paths"]


# While things happen


def test_answers_are_whole_while_the_view_is_swapped(live: Live) -> None:
    """Every answer is of one pass: two states with other jobs alternate, and none is ever mixed."""
    other = replace(STATE, jobs=tuple(replace(job, job_id=f"{job.job_id}0", user="u5") for job in STATE.jobs))
    live.see(STATE)
    stop = threading.Event()

    def passes() -> None:
        at = 0
        while not stop.is_set():
            at += 1
            live.see(other if at % 2 else STATE)

    swapping = threading.Thread(target=passes)
    swapping.start()
    failures: list[str] = []
    seen: set[frozenset[str]] = set()

    def ask() -> None:
        with httpx.Client(headers={"Authorization": f"Bearer {live.token}"}, trust_env=False) as client:
            for _ in range(25):
                answer = client.get(f"{live.url}/v1/queue?pool=vc1")
                ids = frozenset(job["job_id"] for job in answer.json()["queues"][0]["jobs"])
                seen.add(ids)
                if ids not in ({"2", "3", "4", "7"}, {"20", "30", "40", "70"}):
                    failures.append(answer.text)
                told = client.get(f"{live.url}/v1/jobs/4/explain")
                if told.status_code not in (200, 404):
                    failures.append(told.text)

    askers = [threading.Thread(target=ask) for _ in range(4)]
    for thread in askers:
        thread.start()
    for thread in askers:
        thread.join()
    stop.set()
    swapping.join()
    assert failures == []
    assert seen
    assert live.daemon.view.problem is None


def test_who_keeps_the_models_busy_keeps_nobody_from_the_place(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("live_scheduler.service.operations.MODELS_WITHIN_S", 0.05)
    live.see(STATE)
    with live.daemon.lock:
        told = live.explain("4")
    assert told.place == 3
    assert told.estimate_reason is None
    assert "busy" in told.sentences[-1]


def test_a_service_that_fails_is_started_anew_and_the_daemon_goes_on(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    import uvicorn

    real = uvicorn.Server.serve
    failed = threading.Event()

    async def fails_once(self: Any, sockets: Any = None) -> None:
        if not failed.is_set():
            failed.set()
            raise SystemExit(3)
        await real(self, sockets=sockets)

    monkeypatch.setattr(uvicorn.Server, "serve", fails_once)
    server = WebServer(_hello, 0)
    server.start()
    try:
        assert httpx.get(server.url, timeout=PATIENCE_S, trust_env=False).text == "hello"
    finally:
        server.stop()
    assert failed.is_set()
    live.see(STATE)
    assert live.daemon.view.problem is None


async def _hello(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


def test_an_error_of_the_program_is_a_problem_and_the_service_goes_on(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.see(STATE)
    monkeypatch.setattr(Operations, "estimate_reason", lambda *_: 1 / 0)
    told = live.get("/v1/jobs/4/explain")
    assert told.status_code == 500
    assert "ZeroDivisionError" in problem(told).detail
    assert live.get("/v1/status").status_code == 200


def test_a_taken_port_is_refused_at_the_start(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(BadInputError, match=str(port)):
            WebServer(_hello, port)


@pytest.mark.parametrize("path", ["/healthz", "/v1/status", "/metrics", "/nowhere"])
def test_a_browser_runs_and_frames_nothing_of_an_answer(standing: Live, path: str) -> None:
    answer = standing.get(path)
    assert answer.headers.get_list("Content-Security-Policy") == [
        "default-src 'none'; frame-ancestors 'none'"
    ]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "same-origin"
