"""A state that is backed up while it is written, lost and restored; archives that are cut off, or hostile."""

import io
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cluster_logs.job_table import derive_throughput
from cluster_logs.lake import Lake
from foundation.errors import BadInputError
from live_scheduler.client import ReleaseClient
from local_stack.backup import back_up, restore
from lucid_models.registry import Registry
from lucid_models.releases.lifecycle import publish_release, show_release
from tests.command_line import Lucid
from tests.fixtures import MlflowServer, ReleaseShop, register_small_models, small_jobs
from tests.waiting import wait_until


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A small state: databases, a lake, secrets, keys; and what is none: what runs, and logs."""
    state = tmp_path / "state"
    for name in (
        "airflow/logs/dag_id=a",
        "mlflow/artifacts/1/abc",
        "secrets",
        "keys",
        "run",
        "log",
        "live/small",
    ):
        (state / name).mkdir(parents=True)
    with closing(sqlite3.connect(state / "airflow/airflow.db")) as database, database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE counted (number INTEGER)")
    for name in (
        *("mlflow/artifacts/1/abc/model.json", "secrets/fernet_key", "keys/judge.key"),
        *("trust.json", "run/status.json", "log/mlflow.log", "airflow/logs/dag_id=a/x.log"),
        "live/small/journal.jsonl",
    ):
        (state / name).write_text(f"the content of {name}")
    lake = Lake(str(state / "lake"))
    lake.write_jobs("small", small_jobs(200).assign(source_file="log.csv", source_row=range(200)))
    return state


def content(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def take(state: Path, target: Path, **more: Any) -> Any:
    return back_up(state, target, lake_uri=str(state / "lake"), **more)


def test_what_is_restored_is_what_there_was(state: Path, tmp_path: Path) -> None:
    archive = tmp_path / "backup.tar.gz"
    written = take(state, archive)
    assert archive.stat().st_mode & 0o077 == 0
    assert written.left_out == ("private signing keys: keep them apart, or say --with-keys",)
    restored = restore(archive, tmp_path / "again")
    assert (restored.files, restored.total_bytes) == (written.files, written.total_bytes)
    was, is_now = content(state), content(tmp_path / "again")
    assert "secrets/fernet_key" in is_now
    gone = {"keys/judge.key", "run/status.json", "log/mlflow.log", "airflow/logs/dag_id=a/x.log"}
    gone |= {name for name in was if name.endswith(("-wal", "-shm", ".lock"))}
    assert was.keys() - is_now.keys() == gone
    same = is_now.keys() - {"airflow/airflow.db"}
    assert {name: is_now[name] for name in same} == {name: was[name] for name in same}
    pd.testing.assert_frame_equal(
        Lake(str(tmp_path / "again/lake")).read_jobs("small"), Lake(str(state / "lake")).read_jobs("small")
    )


def test_private_keys_go_in_by_an_explicit_word(state: Path, tmp_path: Path) -> None:
    assert take(state, tmp_path / "backup.tar", with_keys=True).left_out == ()
    restore(tmp_path / "backup.tar", tmp_path / "again")
    assert (tmp_path / "again/keys/judge.key").exists()


def test_databases_and_lake_are_of_one_moment_while_they_are_written(state: Path, tmp_path: Path) -> None:
    ended = threading.Event()
    lake = Lake(str(state / "lake"))

    def count() -> None:
        with closing(sqlite3.connect(state / "airflow/airflow.db", timeout=60)) as database:
            for number in range(10**9):
                if ended.is_set():
                    return
                with database:  # two rows, or none
                    database.executemany("INSERT INTO counted VALUES (?)", [(number,), (number,)])

    def ingest() -> None:
        for number in range(10**9):
            if ended.is_set():
                return
            jobs = small_jobs(50, seed=number).assign(source_file=f"{number}.csv", source_row=range(50))
            with lake.writing("small", f"ingest {number}", ("jobs",)):
                lake.write_jobs("small", jobs)
                lake.write_jobs("small", jobs.assign(job_id=[f"{number}-{row}" for row in range(50)]))

    threads = [threading.Thread(target=count), threading.Thread(target=ingest)]
    for thread in threads:
        thread.start()
    try:
        for number in range(3):
            take(state, tmp_path / f"{number}.tar")
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    for number in range(3):
        again = tmp_path / f"again{number}"
        restore(tmp_path / f"{number}.tar", again)
        with closing(sqlite3.connect(again / "airflow/airflow.db")) as database:
            rows, numbers = database.execute(
                "SELECT count(*), count(DISTINCT number) FROM counted"
            ).fetchone()
        assert rows == 2 * numbers
        jobs = Lake(str(again / "lake")).read_jobs("small")  # not half-written
        ingested = jobs["job_id"].str.split("-").str[0].value_counts()
        assert set(ingested[ingested.index.str.isdecimal()]) <= {50}


@pytest.fixture
def heavy(state: Path) -> Path:
    for number in range(40):
        (state / "mlflow/artifacts/1/abc" / f"{number}.bin").write_bytes(os.urandom(2**21))
    return state


def killed(*words: str, state: Path, when: Callable[[], object]) -> None:
    """Run the program and kill it without warning as soon as something is so."""
    process = subprocess.Popen(
        [sys.executable, "-m", "lucid_cli", *words],
        env=os.environ | {"LUCID_STATE_DIR": str(state), "LUCID_LAKE_URI": str(state / "lake")},
        stderr=subprocess.DEVNULL,
    )
    wait_until(when)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL


@pytest.mark.slow
def test_a_killed_backup_leaves_none(heavy: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    target = tmp_path / "out/backup.tar.xz"
    killed("backup", "--out", str(target), state=heavy, when=lambda: any((tmp_path / "out").iterdir()))
    (part,) = (tmp_path / "out").iterdir()
    assert part.name.startswith(".backup.tar.xz.part-")
    long_ago_s = time.time() - 60
    os.utime(part, (long_ago_s, long_ago_s))
    take(heavy, tmp_path / "out/backup.tar")
    take(heavy, target.with_name("backup.tar.xz"), lake_wait_s=1)
    assert not part.exists()


@pytest.mark.slow
def test_a_killed_restore_leaves_the_place_as_it_was(heavy: Path, tmp_path: Path) -> None:
    archive, place = tmp_path / "backup.tar.gz", tmp_path / "places"
    take(heavy, archive)
    place.mkdir()
    killed(
        "restore", str(archive), state=place / "state",
        when=lambda: any(place.glob(".state.restoring-*/mlflow/artifacts/1/abc/*")),
    )  # fmt: skip
    assert not (place / "state").exists()
    restore(archive, place / "state")
    assert len(list((place / "state/mlflow/artifacts/1/abc").iterdir())) == 41


def test_a_state_is_not_overwritten(state: Path, tmp_path: Path) -> None:
    archive = tmp_path / "backup.tar"
    take(state, archive)
    with pytest.raises(BadInputError, match="there already"):
        take(state, archive)
    with pytest.raises(BadInputError, match="not empty"):
        restore(archive, state)
    was = content(state)
    restore(archive, state, replace=True)
    (aside,) = tmp_path.glob("state.before-*")
    assert content(aside) == was


def archive_of(
    path: Path,
    members: dict[str, bytes | tarfile.TarInfo],
    files: dict[str, Any] | None = None,
    **manifest: Any,
) -> Path:
    """An archive of these members, with a manifest that fits those that are files."""
    import hashlib

    named = {
        name: {"bytes": len(payload), "sha256": hashlib.sha256(payload).hexdigest()}
        for name, payload in members.items()
        if isinstance(payload, bytes)
    }
    document = {
        "format": 1, "created": "2026-11-28T00:00:00+00:00", "versions": {}, "left_out": [],
        "files": named if files is None else files,
    } | manifest  # fmt: skip
    with tarfile.open(path, "w") as tar:
        for name, payload in (*members.items(), ("MANIFEST.json", json.dumps(document).encode())):
            if isinstance(payload, tarfile.TarInfo):
                tar.addfile(payload)
                continue
            member = tarfile.TarInfo(name)
            member.size = len(payload)
            tar.addfile(member, io.BytesIO(payload))
    return path


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


@pytest.mark.parametrize(
    "members",
    [
        {"/etc/x": b"x"},
        {"../x": b"x"},
        {"a/../../x": b"x"},
        {"a/./x": b"x"},
        {"a//x": b"x"},
        {"link": special("link", tarfile.SYMTYPE, "/etc")},
        {"a": b"x", "link": special("link", tarfile.LNKTYPE, "a")},
        {"pipe": special("pipe", tarfile.FIFOTYPE)},
        {"device": special("device", tarfile.CHRTYPE)},
        {"folder": special("folder", tarfile.DIRTYPE)},
    ],
    ids=lambda members: " ".join(members),
)
def test_nothing_leaves_the_folder_and_nothing_but_files_is_unpacked(
    members: dict[str, Any], tmp_path: Path
) -> None:
    archive = archive_of(tmp_path / "hostile.tar", members)
    with pytest.raises(BadInputError, match="no whole backup"):
        restore(archive, tmp_path / "deep/deeper/state")
    assert list((tmp_path / "deep/deeper").iterdir()) == []
    assert not Path("/etc/x").exists()


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"files": {}}, "not as its manifest says"),
        ({"files": {"a": {"bytes": 1, "sha256": "0" * 64}}}, "a is not as its manifest says"),
        ({"files": {"a": {"bytes": 1}, "b": {}}}, "not as its manifest says"),
        ({"files": []}, "manifest cannot be read"),
        ({"format": 2}, "this version reads 1"),
        ({"versions": {"mlflow": "99.0"}}, "written with mlflow 99.0"),
        ({"versions": None}, "manifest cannot be read"),
    ],
)
def test_a_manifest_that_does_not_fit(named: dict[str, Any], message: str, tmp_path: Path) -> None:
    archive = archive_of(tmp_path / "bad.tar", {"a": b"x"}, **named)
    with pytest.raises(BadInputError, match=message):
        restore(archive, tmp_path / "state")
    assert not (tmp_path / "state").exists()


def test_a_cut_or_changed_archive_is_refused(state: Path, tmp_path: Path) -> None:
    whole = tmp_path / "backup.tar"
    take(state, whole)
    payload = whole.read_bytes()
    bad = tmp_path / "bad.tar"
    for size in (0, 100, 512, len(payload) // 2, payload.rindex(b"MANIFEST.json") - 1):
        bad.write_bytes(payload[:size])
        with pytest.raises(BadInputError, match="no whole backup"):
            restore(bad, tmp_path / "again")
    at = payload.index(b"the content of secrets")
    bad.write_bytes(payload[:at] + b"T" + payload[at + 1 :])
    with pytest.raises(BadInputError, match="secrets/fernet_key is not as its manifest says"):
        restore(bad, tmp_path / "again")
    with suppress(tarfile.TarError), tarfile.open(bad, "w") as tar:
        tar.add(whole, "backup.tar")
    with pytest.raises(BadInputError, match="no manifest"):
        restore(bad, tmp_path / "again")
    assert not (tmp_path / "again").exists()


@pytest.fixture
def served_state(
    tmp_path: Path, small_model_files: dict[str, list[Path]]
) -> Iterator[tuple[Path, ReleaseShop]]:
    """A state whose MLflow runs, with a release that is live."""
    state = tmp_path / "state"
    (state / "mlflow").mkdir(parents=True)
    server = MlflowServer(state / "mlflow")
    server.start()
    try:
        register_small_models(server.uri, small_model_files)
        shop = ReleaseShop(server, small_model_files)
        for number in (1, 2):
            publish_release(tracking_uri=server.uri, cluster="small", version=shop.approved(number))
        jobs = small_jobs(200).assign(source_file="log.synthetic", source_row=range(200))
        lake = Lake(str(state / "lake"))
        lake.write_jobs("small", jobs)
        lake.replace_derived_throughput("small", derive_throughput(lake.iter_jobs("small")))
        yield state, shop
    finally:
        server.stop()


@pytest.mark.thorough("two MLflow servers, one on what was restored")
def test_a_restored_installation_serves_the_same_release(
    served_state: tuple[Path, ReleaseShop], tmp_path: Path, lucid: Lucid, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, shop = served_state
    shown = show_release(tracking_uri=shop.uri, cluster="small")
    monkeypatch.setenv("LUCID_STATE_DIR", str(state))
    assert lucid("backup", "--out", tmp_path / "backup.tar.gz", "--json").json["left_out"] == []
    validated = lucid("validate", "--cluster", "small", "--json").json["expectations"]
    shop.server.stop()  # type: ignore[union-attr]
    monkeypatch.setenv("LUCID_STATE_DIR", str(tmp_path / "elsewhere/state"))
    assert lucid("restore", tmp_path / "backup.tar.gz", "--json").json["files"] > 10
    restored = MlflowServer(tmp_path / "elsewhere/state/mlflow")
    restored.start()
    try:
        assert show_release(tracking_uri=restored.uri, cluster="small") == shown
        client = ReleaseClient(restored.uri, "champion", tmp_path / "client", cluster="small")
        assert client.poll().version == shown.version
        assert Registry(restored.uri).aliases(shown.name)["previous"] == 1
    finally:
        restored.stop()
    assert lucid("validate", "--cluster", "small", "--json").json["expectations"] == validated
