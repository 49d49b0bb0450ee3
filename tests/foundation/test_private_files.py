"""What a user's own are to see stays theirs, whatever the umask and what an older version left open."""

import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from foundation.private_files import private_database, private_folder
from live_scheduler.memory.records import append_lines
from live_scheduler.service.state_files import token_of, write_endpoint
from live_scheduler.settings_file import state_folder
from local_stack.supervisor import write_private
from lucid_models.mlflow_server import MlflowServer
from lucid_models.registry import Registry
from pipeline import settings


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    before = os.umask(0o000)
    yield
    os.umask(before)


def open_to_others(root: Path) -> list[str]:
    """What others could read or enter, below and with `root`."""
    found = [root, *root.rglob("*")]
    return [str(path) for path in found if stat.S_IMODE(path.lstat().st_mode) & 0o077]


def test_the_local_store_and_its_folders_are_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUCID_STATE_DIR", str(tmp_path / "new" / "state"))
    monkeypatch.delenv("LUCID_TRACKING_URI", raising=False)
    database = Path(MlflowServer(settings.tracking_uri()).tracking_uri.removeprefix("sqlite:///"))
    with sqlite3.connect(database) as opened:
        opened.execute("PRAGMA journal_mode=WAL")
        opened.execute("CREATE TABLE a (b)")
        assert len(list(database.parent.iterdir())) > 1  # the journals too
        assert open_to_others(tmp_path / "new") == []


@pytest.mark.slow
def test_a_store_that_was_named_is_private_itself(tmp_path: Path) -> None:
    Registry(f"sqlite:///{tmp_path / 'mlflow.db'}")
    assert stat.S_IMODE((tmp_path / "mlflow.db").stat().st_mode) == 0o600


def test_what_a_live_scheduler_keeps_is_private(tmp_path: Path) -> None:
    folder = state_folder(tmp_path / "state", "mini")
    token_of(folder)
    write_endpoint(folder, cluster="mini", http=None)
    append_lines(folder / "log" / "decisions.jsonl", ["{}"])
    write_private(tmp_path / "state" / "run" / "stack.json", "{}")
    assert open_to_others(tmp_path / "state") == []


def test_what_an_older_version_left_open_is_closed(tmp_path: Path) -> None:
    folder = tmp_path / "mlflow"
    folder.mkdir(mode=0o755)
    (folder / "mlflow.db").write_text("")
    (folder / "mlflow.db-wal").write_text("")
    private_database(private_folder(folder) / "mlflow.db")
    assert open_to_others(folder) == []
    other = tmp_path / "shared"
    other.mkdir(mode=0o755)
    private_folder(other, tighten=False)  # a folder of another user stays as it is
    assert stat.S_IMODE(other.stat().st_mode) == 0o755
