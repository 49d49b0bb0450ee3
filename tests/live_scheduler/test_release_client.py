import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from foundation.errors import BadInputError
from live_scheduler.client import PollLimits, ReleaseClient
from live_scheduler.ranking import rank_queue
from live_scheduler.release import FallbackRelease, LiveRelease
from lucid_models.registry import Registry
from lucid_models.releases.lifecycle import (
    build_release,
    publish_release,
    record_verdict,
    rollback_release,
)
from lucid_models.releases.manifest import FORMAT_VERSION, release_name
from tests.evidence import Evidence
from tests.live_scheduler.live_release import AWAY, keep_release

SMALL = release_name("small")
QUEUE = [
    {"job_id": "long", "gpus": 4, "submit_time": "2020-04-12T00:00:00", "user": "u5", "name": "train_u5"},
    {"job_id": "short", "gpus": 1, "submit_time": "2020-04-12T01:00:00", "user": "u0", "name": "train_u0"},
]


def live(release: object) -> LiveRelease:
    assert isinstance(release, LiveRelease)
    return release


def fetch(shop: Any, state: Path) -> Path:
    """Leave what is published in a client's state folder."""
    live(ReleaseClient(shop.uri, "champion", state, cluster="small").poll())
    return state


def stored_file(shop: Any, version: int, name: str) -> Path:
    run_id = Registry(shop.uri).version(SMALL, version).run_id
    return next((shop.server.folder / "artifacts").rglob(f"{run_id}/artifacts/release/{name}"))


@pytest.mark.slow
def test_importing_the_client_needs_numpy_and_httpx_only() -> None:
    code = (
        "import sys, live_scheduler.client, live_scheduler.ranking;"
        "heavy = {'airflow', 'mlflow', 'sklearn', 'interpret', 'great_expectations', 'pandas', 'pyarrow',"
        " 'matplotlib', 'scipy'};"
        "print(sorted(heavy & {name.partition('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_follows_publications_and_rollbacks(shop: Any, tmp_path: Path) -> None:
    client = ReleaseClient(shop.uri, "champion", tmp_path, cluster="small")
    assert isinstance(client.poll(), FallbackRelease)
    assert "champion" in (client.status().problem or "")
    first, second = shop.approved(1), shop.approved(2)
    publish_release(tracking_uri=shop.uri, cluster="small", version=first)
    assert live(client.poll()).version == first
    assert client.status().mode == "following"
    assert client.status().verdict == "approved"
    publish_release(tracking_uri=shop.uri, cluster="small", version=second)
    assert live(client.current).version == first
    swapped = live(client.poll())
    assert swapped.version == second
    assert client.poll() is swapped
    rollback_release(tracking_uri=shop.uri, cluster="small")
    assert live(client.poll()).version == first
    assert live(ReleaseClient(shop.uri, "previous", tmp_path, cluster="small").poll()).version == second


def test_ranks_as_the_release_was_trained(shop: Any, tmp_path: Path) -> None:
    publish_release(tracking_uri=shop.uri, cluster="small", version=shop.approved(1))
    ranked = rank_queue(QUEUE, ReleaseClient(shop.uri, "champion", tmp_path, cluster="small").poll())
    assert [job.job_id for job in ranked] == ["short", "long"]
    for job, gpus in zip(ranked, (1, 4), strict=True):
        assert job.estimated_duration_s is not None
        assert job.priority == pytest.approx(gpus * job.estimated_duration_s)
    assert "u0" in ranked[0].reason


def test_polling_an_unchanged_alias_is_one_request(shop: Any, tmp_path: Path) -> None:
    publish_release(tracking_uri=shop.uri, cluster="small", version=shop.approved(1))
    client = ReleaseClient(shop.uri, "champion", tmp_path, cluster="small")
    client.poll()
    asked: list[str] = []
    client._server._http.http.event_hooks = {"request": [lambda request: asked.append(request.url.path)]}
    client.poll()
    assert asked == ["/api/2.0/mlflow/registered-models/alias"]


DAMAGED_FILES = (
    ("duration.json", lambda whole: whole.replace(b"1", b"7", 1), "SHA-256"),
    ("packing.json", lambda whole: whole[:-20], "bytes"),
    ("packing.json", lambda whole: whole + b" " * 10, "bytes"),
    ("throughput.json", lambda whole: b"", "bytes"),
    ("manifest.json", lambda whole: whole.replace(b'"gss": 2', b'"gss": 9'), "manifest has the SHA-256"),
)


@pytest.mark.evidence(table="faults", rows=("11", "17"))
def test_refuses_a_damaged_release_and_keeps_the_old_one(
    shop: Any, tmp_path: Path, subtests: pytest.Subtests, evidence: Evidence
) -> None:
    first, second = shop.approved(1), shop.approved(2)
    publish_release(tracking_uri=shop.uri, cluster="small", version=first)
    fetched = fetch(shop, tmp_path / "fetched")
    Registry(shop.uri).set_alias(SMALL, "champion", second)
    for number, (file, damage, said) in enumerate(DAMAGED_FILES):
        with subtests.test(number=number, file=file):
            state = copytree(fetched, tmp_path / str(number))
            client = ReleaseClient(
                shop.uri, "champion", state, limits=PollLimits(retry_refused_s=0.0), cluster="small"
            )
            before = client.current
            assert live(before).version == first
            path = stored_file(shop, second, file)
            whole = path.read_bytes()
            path.write_bytes(damage(whole))
            assert client.poll() is before
            status = client.status()
            assert (status.mode, status.refused_version) == ("last known good", second)
            assert said in (status.refused_reason or "")
            told = json.loads((state / "small" / "status-champion.json").read_text())
            assert told["refused_version"] == second
            # Started anew it still has the old one, and when the file is mended it takes the new one.
            assert live(ReleaseClient(shop.uri, "champion", state, cluster="small").current).version == first
            path.write_bytes(whole)
            assert live(client.poll()).version == second
            assert client.status().refused_version is None
    evidence("faults", "17", "The release in use stays; the status names the file and what is wrong.")
    path = stored_file(shop, second, "duration.json")
    path.write_bytes(stored_file(shop, first, "duration.json").read_bytes())
    client = ReleaseClient(shop.uri, "champion", copytree(fetched, tmp_path / "mixed"), cluster="small")
    assert live(client.poll()).version == first
    evidence("faults", "11", f"The release in use stays: {client.status().refused_reason}")


def test_a_refused_release_is_not_fetched_at_every_poll(shop: Any, tmp_path: Path) -> None:
    version = shop.approved(1)
    publish_release(tracking_uri=shop.uri, cluster="small", version=version)
    path = stored_file(shop, version, "duration.json")
    path.write_bytes(path.read_bytes()[:-1])
    client = ReleaseClient(shop.uri, "champion", tmp_path, cluster="small")
    assert isinstance(client.poll(), FallbackRelease)
    asked: list[str] = []
    client._server._http.http.event_hooks = {"request": [lambda request: asked.append(request.url.path)]}
    assert isinstance(client.poll(), FallbackRelease)
    assert len(asked) == 1


@pytest.mark.evidence(table="faults", rows=("12",))
def test_refuses_newer_formats(shop: Any, tmp_path: Path, evidence: Evidence) -> None:
    first, second = shop.approved(1), shop.approved(2)
    publish_release(tracking_uri=shop.uri, cluster="small", version=first)
    client = ReleaseClient(shop.uri, "champion", tmp_path, cluster="small")
    client.poll()
    path = stored_file(shop, second, "manifest.json")
    newest = FORMAT_VERSION + 1
    newer = path.read_bytes().replace(b'"format_version": 3', b'"format_version": %d' % newest)
    path.write_bytes(newer)
    registry = Registry(shop.uri)
    digest = hashlib.sha256(newer).hexdigest()
    registry.set_version_tag(SMALL, second, "manifest_sha256", digest)
    record_verdict(tracking_uri=shop.uri, cluster="small", version=second, verdict={"approved": True})
    registry.set_alias(SMALL, "champion", second)
    assert live(client.poll()).version == first
    assert f"format version {newest}" in (client.status().refused_reason or "")
    evidence("faults", "12", f"The release in use stays: {client.status().refused_reason}")


@pytest.mark.evidence(table="faults", rows=("18",))
def test_follows_only_what_the_gate_approved_whoever_moves_the_alias(
    shop: Any, tmp_path: Path, evidence: Evidence
) -> None:
    """An account that may write to MLflow makes versions, tags and aliases by hand."""
    registry = Registry(shop.uri)
    first, second = shop.approved(1), shop.approved(2)
    other = shop.approved(2, cluster="large")
    publish_release(tracking_uri=shop.uri, cluster="small", version=first)
    client = ReleaseClient(
        shop.uri, "champion", tmp_path, limits=PollLimits(retry_refused_s=0.0), cluster="small"
    )
    before = client.poll()
    genuine = registry.version(SMALL, second).tags
    found = registry.client.get_model_version(SMALL, str(second))
    foreign = registry.client.get_model_version(release_name("large"), str(other))
    unpinned = {key: value for key, value in genuine.items() if key != "manifest_sha256"}
    unjudged = {key: value for key, value in genuine.items() if not key.startswith("verdict")}
    of_first = {
        key: value for key, value in registry.version(SMALL, first).tags.items() if key.startswith("verdict")
    }
    for source, tags, said in (
        (found, unjudged, "has no verdict"),
        (found, unjudged | {"verdict": "approved"}, "no run that holds its verdict"),
        (found, unpinned, "does not pin its manifest"),
        (found, genuine | of_first, "was given on"),
        (found, genuine | {"verdict": "refused"}, "its tag says 'refused'"),
        (found, genuine | {"verdict_sha256": "0" * 64}, "has the SHA-256"),
        (found, genuine | {"verdict_run_id": "0" * 32}, "verdict.json"),
        (found, genuine, "was given on"),  # the same files as another version than the one that was judged
        (foreign, registry.version(release_name("large"), other).tags, "was given on"),
    ):
        made = registry.create_version(SMALL, source.source, source.run_id, tags, description="by hand")
        registry.set_alias(SMALL, "champion", made)
        assert client.poll() is before
        status = client.status()
        assert (status.mode, status.version, status.refused_version) == ("last known good", first, made)
        assert said in (status.refused_reason or "")
        anew = ReleaseClient(shop.uri, "champion", tmp_path, cluster="small")
        assert live(anew.poll()).version == first
    registry.set_alias(SMALL, "champion", second)
    assert live(client.poll()).version == second
    # The gate judges it again, and refuses it now: what is in use is no longer followed.
    record_verdict(
        tracking_uri=shop.uri,
        cluster="small",
        version=second,
        verdict={"approved": False, "sentence": "Worse."},
    )
    assert live(client.poll()).version == second
    assert (client.status().mode, client.status().verdict) == ("last known good", None)
    assert "Worse." in (client.status().problem or "")
    evidence(
        "faults",
        "18",
        "The release in use stays, mode `last known good`; the status names the refused version and why.",
    )


def test_a_release_that_orders_only_says_so_wherever_it_is_named(shop: Any, tmp_path: Path) -> None:
    shop.approved(1, settings={"sharing": "none"})
    client = ReleaseClient(shop.uri, "challenger", tmp_path, cluster="small")
    assert (
        live(client.poll())
        .describe()
        .endswith("(challenger, cluster small, not signed, order only: no GPUs are shared)")
    )


def test_a_challenger_without_a_verdict_is_looked_at_by_hand_only(shop: Any, tmp_path: Path) -> None:
    build_release(tracking_uri=shop.uri, cluster="small")
    client = ReleaseClient(shop.uri, "challenger", tmp_path, cluster="small")
    assert isinstance(client.poll(), FallbackRelease)
    by_hand = ReleaseClient(shop.uri, "challenger", tmp_path, cluster="small", unapproved=True)
    assert live(by_hand.poll()).describe().endswith("(challenger, cluster small, not approved)")
    assert by_hand.status().mode == "following"
    assert by_hand.poll() is by_hand.current
    assert isinstance(
        ReleaseClient(shop.uri, "challenger", tmp_path, cluster="small").current, FallbackRelease
    )


def rewrite(path: Path, change: Any) -> None:
    path.write_bytes(change(path.read_bytes()))


@pytest.mark.parametrize(
    ("swap", "said"),
    [
        # A manifest that is one, with other settings than those that were proven.
        (
            lambda home, one: rewrite(one / "manifest.json", lambda b: b.replace(b'"gss": 2', b'"gss": 1')),
            "SHA-256",
        ),
        (lambda home, one: swap_whole(home, one), "was given on"),
        (lambda home, one: rewrite(one / "verdict.json", lambda b: b.replace(b"true", b"false")), "SHA-256"),
        (lambda home, one: (one / "verdict.json").unlink(), "No such file"),
        (lambda home, one: repoint(home, version=-1), "-1 is no version"),
        (lambda home, one: repoint(home, version=2), "was given on"),
        (lambda home, one: repoint(home, version=True), "True is no version"),
        (lambda home, one: repoint(home, verdict_sha256=None), "verdict_sha256"),
        (lambda home, one: repoint(home, cluster="large"), "of cluster 'large'"),
        (lambda home, one: repoint(home, format_version=1), "format version 1"),
    ],
)
def test_what_was_swapped_on_disk_is_not_followed(
    tmp_path: Path, small_model_files: dict[str, list[Path]], swap: Any, said: str
) -> None:
    keep_release(tmp_path, small_model_files)
    home = tmp_path / "small"
    assert live(ReleaseClient(AWAY, "champion", tmp_path, cluster="small").current).version == 7
    swap(home, next((home / "releases").iterdir()))
    client = ReleaseClient(AWAY, "champion", tmp_path, cluster="small")
    assert isinstance(client.current, FallbackRelease)
    assert said in client.current.why


def repoint(home: Path, **changes: Any) -> None:
    path = home / "current-champion.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def swap_whole(home: Path, one: Path) -> None:
    """Another manifest, and the pointer after it: the verdict was given on the first."""
    rewrite(one / "manifest.json", lambda whole: whole.replace(b'"gss": 2', b'"gss": 1'))
    repoint(home, manifest_sha256=hashlib.sha256((one / "manifest.json").read_bytes()).hexdigest())


@pytest.mark.evidence(table="faults", rows=("16",))
def test_starts_from_the_last_known_good_and_outlives_the_server(
    shop: Any, tmp_path: Path, evidence: Evidence
) -> None:
    first = shop.approved(1)
    publish_release(tracking_uri=shop.uri, cluster="small", version=first)
    client = ReleaseClient(shop.uri, "champion", tmp_path, limits=PollLimits(silence_s=2.0), cluster="small")
    held = live(client.poll())
    expected = rank_queue(QUEUE, held)
    with halted(shop.server.process):
        assert client.poll() is held
        assert_outlives(client)
        started = ReleaseClient(
            shop.uri, "champion", tmp_path, limits=PollLimits(silence_s=2.0), cluster="small"
        )
        assert live(started.poll()).version == first
        assert rank_queue(QUEUE, started.current) == expected
        # Another server's release is not this one's.
        assert isinstance(
            ReleaseClient("http://127.0.0.1:9", "champion", tmp_path, cluster="small").current,
            FallbackRelease,
        )
    assert client.poll() is held
    assert client.status().mode == "following"
    evidence(
        "faults",
        "16",
        "It starts from the last known good release, ranks as before, and says that the server did "
        "not answer.",
    )


def test_keeps_its_release_where_nobody_listens(
    tmp_path: Path, small_model_files: dict[str, list[Path]]
) -> None:
    keep_release(tmp_path, small_model_files)
    client = ReleaseClient(AWAY, "champion", tmp_path, cluster="small")
    held = client.current
    assert live(client.poll()) is held
    assert_outlives(client)


def assert_outlives(client: ReleaseClient) -> None:
    status = client.status()
    assert status.mode == "last known good"
    assert "did not answer" in (status.problem or "")


@contextmanager
def halted(server: "subprocess.Popen[bytes]") -> Iterator[None]:
    """A server that takes connections and answers none."""
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


DAMAGED_STATES = (
    lambda state: (state / "small" / "current-champion.json").write_text("{"),
    lambda state: (state / "small" / "current-champion.json").write_text("{}"),
    lambda state: next(state.rglob("duration.json")).write_bytes(b"{}"),
    lambda state: next(state.rglob("packing.json")).unlink(),
    lambda state: next(state.rglob("manifest.json")).write_bytes(b""),
    lambda state: (state / "small" / "current-champion.json").write_text(
        json.dumps(
            {
                "format_version": 2, "origin": "", "cluster": "small", "folder": "../..", "version": 1,
                "manifest_sha256": "", "verdict_sha256": "",
            }
        )
    ),
)  # fmt: skip


def test_a_half_written_state_is_not_loaded_and_is_mended(
    shop: Any, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    version = shop.approved(1)
    publish_release(tracking_uri=shop.uri, cluster="small", version=version)
    fetched = fetch(shop, tmp_path / "fetched")
    for number, damage in enumerate(DAMAGED_STATES):
        with subtests.test(number=number):
            state = copytree(fetched, tmp_path / str(number))
            damage(state)
            (state / "small" / "releases" / ".9-abc.left-over").mkdir()
            client = ReleaseClient(shop.uri, "champion", state, cluster="small")
            assert isinstance(client.current, FallbackRelease)
            assert live(client.poll()).version == version
            assert (
                live(ReleaseClient(shop.uri, "champion", state, cluster="small").current).version == version
            )


def test_goes_on_when_the_state_cannot_be_written(shop: Any, tmp_path: Path) -> None:
    version = shop.approved(1)
    publish_release(tracking_uri=shop.uri, cluster="small", version=version)
    blocked = tmp_path / "state"
    blocked.write_text("a file, not a folder")
    client = ReleaseClient(shop.uri, "champion", blocked, cluster="small")
    assert live(client.poll()).version == version
    assert "could not be kept" in (client.status().problem or "")


def test_few_releases_are_kept_on_disk(tmp_path: Path, small_model_files: dict[str, list[Path]]) -> None:
    for version in range(1, 5):
        keep_release(tmp_path, small_model_files, version=version)
    assert len(list((tmp_path / "small" / "releases").iterdir())) <= 3
    assert live(ReleaseClient(AWAY, "champion", tmp_path, cluster="small").current).version == 4


def test_polls_from_many_threads_give_whole_releases(shop: Any, tmp_path: Path) -> None:
    first, second = shop.approved(1), shop.approved(2)
    publish_release(tracking_uri=shop.uri, cluster="small", version=first)
    client = ReleaseClient(shop.uri, "champion", tmp_path, cluster="small")
    seen: list[LiveRelease] = []

    def work() -> None:
        seen.extend(live(client.poll()) for _ in range(4))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    publish_release(tracking_uri=shop.uri, cluster="small", version=second)
    for thread in threads:
        thread.join()
    assert live(client.poll()).version == second
    assert len(seen) == 16
    for release in seen:
        assert release.manifest.models["duration"].version == release.version


class _Oddity(BaseHTTPRequestHandler):
    status, body = 200, b"{}"

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture
def odd_server() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Oddity)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.evidence(table="faults", rows=("10",))
@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b"<html>proxy</html>"),
        (200, b"[]"),
        (200, b'{"model_version": {"version": "x"}}'),
        (200, b'{"model_version": {"version": "1", "tags": [{}]}}'),
        (200, b'{"model_version": {"version": "1"}}'),
        (200, b'{"model_version": {"version": "-1", "tags": [{"key": "verdict", "value": "approved"}]}}'),
        (401, b'{"error": "who are you"}'),
        (500, b"oops"),
        (302, b""),
        (200, b"\xff"),
    ],
)
def test_odd_answers_never_raise(
    odd_server: ThreadingHTTPServer,
    tmp_path: Path,
    status: int,
    body: bytes,
    monkeypatch: pytest.MonkeyPatch,
    evidence: Evidence,
) -> None:
    monkeypatch.setattr(_Oddity, "status", status)
    monkeypatch.setattr(_Oddity, "body", body)
    client = ReleaseClient(
        f"http://127.0.0.1:{odd_server.server_port}", "champion", tmp_path, cluster="small"
    )
    release = client.poll()
    assert isinstance(release, FallbackRelease)
    assert client.status().problem
    assert release.why == client.status().problem
    evidence(
        "faults",
        "10",
        "Whatever comes back, the scheduler goes on and its status names what was wrong.",
    )


def test_what_cannot_be_followed_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="sqlite"):
        ReleaseClient("sqlite:///mlflow.db", "champion", tmp_path, cluster="small")
    with pytest.raises(BadInputError, match="alias"):
        ReleaseClient("http://127.0.0.1:9", "../champion", tmp_path, cluster="small")
