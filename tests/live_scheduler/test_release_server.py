"""A server that means ill costs a poll bounded time and memory, and the status says when it is away."""

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from foundation.bounded_http import AnswerLimits
from foundation.deadlines import within
from foundation.errors import BadInputError, ReleaseRefusedError, ServiceUnavailableError
from live_scheduler import release_server
from live_scheduler.client import PollLimits, ReleaseClient
from live_scheduler.release import FallbackRelease, LiveRelease
from live_scheduler.release_server import ALIAS_LIMITS, ReleaseServer
from tests.evidence import Evidence
from tests.hostile_server import HostileServer, hostile_server
from tests.live_scheduler.live_release import AWAY, approved_release, keep_release
from tests.live_scheduler.slow_release_server import slow_release_server

GENEROUS_S = 20.0


@pytest.fixture
def server() -> Iterator[HostileServer]:
    with hostile_server() as running:
        yield running


def test_the_alias_is_asked_for_within_a_mebibyte_and_ten_seconds() -> None:
    assert AnswerLimits(1 << 20, 10.0) == ALIAS_LIMITS


@pytest.mark.evidence(table="faults", rows=("14", "15"))
@pytest.mark.parametrize("attack", ["endless body", "drip body", "drip headers", "gzip", "redirect"])
def test_a_poll_ends_whatever_answers(
    server: HostileServer,
    attack: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    evidence: Evidence,
) -> None:
    monkeypatch.setattr(release_server, "ALIAS_LIMITS", AnswerLimits(1 << 20, 0.5))
    server.attack = attack
    client = ReleaseClient(server.uri, "champion", tmp_path, cluster="small")
    began = time.monotonic()
    client.poll()
    assert time.monotonic() - began < GENEROUS_S
    problem = client.status().problem or ""
    assert server.uri in problem or "302" in problem
    assert server.sent < 64 << 20
    seen = problem.replace(server.uri, "http://mlflow")
    evidence("faults", "15" if attack == "redirect" else "14", f"{attack.capitalize()}: {seen}")


@pytest.mark.parametrize(
    ("attack", "kind"),
    [
        ("endless body", ReleaseRefusedError),
        ("huge length", ReleaseRefusedError),
        ("gzip", ServiceUnavailableError),
        ("drip body", ServiceUnavailableError),
    ],
)
def test_a_file_is_as_long_as_is_pinned_and_arrives_in_time(
    server: HostileServer, attack: str, kind: type[Exception]
) -> None:
    server.attack = attack
    files = ReleaseServer(server.uri)
    limit_s = 0.5 if attack == "drip body" else GENEROUS_S
    with within(limit_s, "these files"), pytest.raises(kind, match=r"duration\.json"):
        files.fetch("lucid-release-small", 3, "duration.json", 1 << 20)
    files.close()


def test_what_is_in_use_is_stale_after_missed_polls(
    tmp_path: Path, small_model_files: dict[str, list[Path]], server: HostileServer
) -> None:
    keep_release(tmp_path, small_model_files)
    client = ReleaseClient(
        AWAY, "champion", tmp_path, limits=PollLimits(stale_after_polls=3), cluster="small"
    )

    def modes() -> list[str]:
        seen = []
        for _ in range(3):
            client.poll()
            seen.append(client.status().mode)
        return seen

    assert modes() == ["last known good", "last known good", "stale"]
    assert json.loads((tmp_path / "small" / "status-champion.json").read_text())["mode"] == "stale"
    # A word from the server, even one that there is no such alias, ends it.
    server.body = json.dumps({"model_version": {"version": "9", "tags": []}}).encode()
    client._server = ReleaseServer(server.uri)
    assert modes() == ["last known good"] * 3
    client._server = ReleaseServer(AWAY)
    assert modes()[-1] == "stale"


def test_a_token_is_for_tls_or_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "secret")
    with pytest.raises(BadInputError, match=r"readable.*LUCID_PLAIN_HTTP_HOSTS=mlflow\.example\.org"):
        ReleaseClient("http://mlflow.example.org:5000", "champion", tmp_path, cluster="small")
    monkeypatch.setenv("LUCID_PLAIN_HTTP_HOSTS", "mlflow.example.org")
    ReleaseClient("http://mlflow.example.org:5000", "champion", tmp_path, cluster="small").close()


@pytest.mark.evidence(table="faults", rows=("29",))
def test_a_poll_with_all_its_files_has_one_deadline_and_says_meanwhile_how_far_it_is(
    tmp_path: Path, small_model_files: dict[str, list[Path]], evidence: Callable[..., None]
) -> None:
    release = approved_release(small_model_files)
    # No file is late by itself: each piece comes well within the longest silence.
    with slow_release_server(*release) as address:
        client = ReleaseClient(address, "champion", tmp_path, cluster="small", limits=PollLimits(poll_s=0.8))
        assert isinstance(client.poll(), FallbackRelease)
        status = client.status()
        assert status.fetching is None
        assert status.refused_version is None  # the server is slow; nothing is wrong with the release
        assert "at most 0.8 s for a look for a release with all its files as a whole" in (
            status.problem or ""
        )
        client.close()

    reached, go_on = threading.Event(), threading.Event()

    def stop_at_the_third(file: str) -> None:
        if file == "duration.json":
            reached.set()
            go_on.wait(GENEROUS_S)

    with slow_release_server(*release, stop_at_the_third) as address:
        client = ReleaseClient(
            address, "champion", tmp_path, cluster="small", limits=PollLimits(silence_s=GENEROUS_S)
        )
        polling = threading.Thread(target=client.poll)
        polling.start()
        assert reached.wait(GENEROUS_S)
        fetching = client.status().fetching or ""
        go_on.set()
        polling.join()
        assert re.fullmatch(r"release 7: file \d of 5, \d+\.\d\d of \d+\.\d\d MB, \d+ s", fetching)
        assert isinstance(client.current, LiveRelease)
        assert client.status().fetching is None
        evidence(
            "faults",
            "29",
            f"A look ends at its one limit, all files together, and the status tells meanwhile: {fetching}.",
        )
        client.close()
