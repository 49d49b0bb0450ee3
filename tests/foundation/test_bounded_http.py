"""Whatever a server answers, a request of ours ends: bounded in bytes, in time, and in what is believed."""

import time
from collections.abc import Iterator

import pytest
from requests.utils import should_bypass_proxies

from foundation.bounded_http import AnswerLimits, BoundedClient, json_of, refuse_readable_secret
from foundation.errors import BadInputError, LucidError, ServiceUnavailableError
from lucid_models.registry import Registry
from tests.hostile_server import HostileServer, hostile_server

SOON = AnswerLimits(most_bytes=1 << 20, within_s=0.5)
GENEROUS_S = 20.0  # the server goes on for a minute; a busy machine is slow


@pytest.fixture
def server() -> Iterator[HostileServer]:
    with hostile_server() as running:
        yield running


@pytest.mark.parametrize("attack", ["drip body", "drip headers", "silence", "endless 100"])
def test_a_request_ends_in_time_whatever_drips(server: HostileServer, attack: str) -> None:
    server.attack = attack
    began = time.monotonic()
    # Each byte comes long before a read is too late: only the whole request's time ends it.
    with (
        BoundedClient(server.uri, limits=SOON, wait_s=60.0) as client,
        pytest.raises(ServiceUnavailableError, match=r"in time .*0\.5 s"),
    ):
        client.get("/alias")
    assert time.monotonic() - began < GENEROUS_S


@pytest.mark.parametrize(
    ("attack", "said"),
    [
        ("endless body", "more than the 1,048,576 bytes"),
        ("huge length", "more than the 1,048,576 bytes"),
        ("gzip", "encoding 'gzip'"),
    ],
)
def test_no_answer_is_larger_than_was_asked_for(server: HostileServer, attack: str, said: str) -> None:
    server.attack = attack
    with (
        BoundedClient(server.uri, limits=AnswerLimits(1 << 20, GENEROUS_S)) as client,
        pytest.raises(ServiceUnavailableError, match=said),
    ):
        client.get("/alias")
    assert "accept-encoding: identity" in server.requests[0].lower()
    assert server.sent < 64 << 20  # what the sockets hold, and no more


def test_an_answer_may_be_as_large_as_was_asked_for(server: HostileServer) -> None:
    server.body = b"1" * (1 << 20)
    with BoundedClient(server.uri, limits=AnswerLimits(1 << 20, GENEROUS_S)) as client:
        assert client.get("/alias").content == server.body
        server.body += b"1"
        with pytest.raises(ServiceUnavailableError, match="more than"):
            client.get("/alias")


def test_a_redirect_is_an_answer_and_not_followed(server: HostileServer) -> None:
    server.attack = "redirect"
    with BoundedClient(server.uri, limits=SOON) as client:
        assert client.get("/alias").status_code == 302
    assert len(server.requests) == 1


def test_proxies_of_the_environment_are_not_used(
    server: HostileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with hostile_server() as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.uri)
        with BoundedClient(server.uri, limits=SOON, auth=("user", "secret")) as client:
            assert client.get("/alias").status_code == 200
        assert proxy.requests == []


@pytest.mark.parametrize("body", [b"<html>", b"[" * 500_000, b"\xff", b"", b"9" * 10_000])
def test_what_is_no_json_is_said_so(server: HostileServer, body: bytes) -> None:
    server.body = body
    with BoundedClient(server.uri, limits=AnswerLimits(1 << 20, GENEROUS_S)) as client:
        answer = client.get("/alias")
    with pytest.raises(ServiceUnavailableError, match="not with JSON"):
        json_of(answer)


@pytest.mark.parametrize(
    ("url", "secret", "refused"),
    [
        ("http://127.0.0.1:5000", True, None),
        ("http://localhost:5000", True, None),
        ("http://[::1]:5000", True, None),
        ("https://mlflow.example.org", True, None),
        ("http://mlflow.example.org", False, None),
        ("http://mlflow:5000", True, None),
        ("http://mlflow.example.org", True, "readable"),
        ("http://127.0.0.1.example.org", True, "readable"),
        ("http://user:pass@127.0.0.1:5000", False, "holds a password"),
    ],
)
def test_no_secret_crosses_the_network_readable(
    url: str, secret: bool, refused: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LUCID_PLAIN_HTTP_HOSTS", "other, MLflow")
    said = ""
    try:
        refuse_readable_secret(url, "LUCID_TRACKING_URI", secret=secret)
    except BadInputError as error:
        said = str(error)
    assert bool(said) == (refused is not None)
    assert (refused or "") in said
    assert "pass@" not in said


def test_mlflows_own_client_keeps_loopback_from_proxies_and_secrets_from_the_network(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "http://proxy.example.org:3128")
    monkeypatch.setenv("NO_PROXY", "intern.example.org")
    monkeypatch.setenv("no_proxy", "")
    Registry("http://127.0.0.1:5000")
    for host in ("127.0.0.1:5000", "localhost", "intern.example.org"):
        assert should_bypass_proxies(f"http://{host}/", no_proxy=None)
    assert not should_bypass_proxies("http://example.org/", no_proxy=None)
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "secret")
    with pytest.raises(BadInputError, match="readable"):
        Registry("http://mlflow.example.org:5000")


def test_an_address_that_is_none_is_named() -> None:
    with pytest.raises(LucidError, match="http://\\[::"):
        BoundedClient("http://[::", limits=SOON)
