"""What a killed process left is gone at the next start; what a living one works on stays."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from foundation.process_identity import is_gone, own_process
from foundation.process_lock import held, scratch_folder, sweep
from foundation.storage import TEMPORARY_PREFIX, locate, sweep_unfinished, write_atomically
from lucid_models.registry import PROCESS_TAG, Registry

WORKS = """
import sys, time
from foundation.process_lock import scratch_folder
from foundation.process_identity import own_process
from foundation.storage import locate, write_atomically
def write(sink):
    sink.write(b"half")
    print(folder, own_process(), flush=True)
    time.sleep(600)
with scratch_folder("test") as folder:
    fs, path = locate(sys.argv[1] + "/part-0.parquet")
    write_atomically(fs, path, write)
"""


def touched_long_ago(*paths: Path) -> None:
    for path in paths:
        os.utime(path, (time.time() - 60, time.time() - 60))


@contextmanager
def working(folder: Path) -> Iterator[tuple[subprocess.Popen[str], Path, str]]:
    """A process at work; its scratch folder and its name."""
    process = subprocess.Popen([sys.executable, "-c", WORKS, str(folder)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        scratch, name = process.stdout.readline().split()
        yield process, Path(scratch), name
    finally:
        process.kill()
        process.communicate()


def test_a_killed_processs_files_are_swept_and_a_living_ones_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    (tmp_path / "tmp").mkdir()
    lake = tmp_path / "lake"
    with working(lake) as (process, scratch, name):
        (unfinished,) = lake.glob(f"{TEMPORARY_PREFIX}*")
        touched_long_ago(scratch, unfinished)
        with scratch_folder("mine"):
            assert scratch.is_dir()
        assert sweep_unfinished(str(lake)) == 0
        assert not is_gone(name)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert is_gone(name)
        with scratch_folder("mine") as mine:
            assert list((tmp_path / "tmp").iterdir()) == [mine]
        assert sweep_unfinished(str(lake)) == 1
        assert list(lake.iterdir()) == []


def test_what_was_just_made_is_another_ones_or_a_link_stays(tmp_path: Path) -> None:
    fresh, link, target = tmp_path / "fresh", tmp_path / "link", tmp_path / "target"
    fresh.write_text("")
    target.mkdir()
    link.symlink_to(target)
    assert sweep([fresh, link, tmp_path / "nowhere"]) == []
    touched_long_ago(fresh)
    with held(fresh):
        assert sweep([fresh]) == []
    assert sweep([fresh, link]) == [fresh]
    assert target.is_dir()


def test_a_process_of_elsewhere_cannot_be_told(tmp_path: Path) -> None:
    host, boot, numbering, pid, started = own_process().split("/")
    assert not is_gone(own_process())
    assert is_gone(f"{host}/{boot}/{numbering}/{pid}/{float(started) - 100}")  # a later one with its number
    assert is_gone(f"{host}/other-boot/{numbering}/{pid}/{started}")
    for unseen in (
        f"other/{boot}/{numbering}/{pid}/1.0",
        f"{host}/{boot}/pid:[1]/{pid}/1.0",
        "",
        "a/b",
        "////",
    ):
        assert not is_gone(unseen)


def test_a_file_is_written_as_before(tmp_path: Path) -> None:
    fs, path = locate(str(tmp_path / "a" / "b.txt"))
    write_atomically(fs, path, lambda sink: sink.write(b"whole"))
    assert [file.name for file in (tmp_path / "a").iterdir()] == ["b.txt"]


@pytest.mark.slow
def test_a_run_whose_process_was_killed_is_ended_by_the_next(tmp_path: Path) -> None:
    registry = Registry(f"sqlite:///{tmp_path / 'mlflow.db'}")
    with registry.run("lucid-test", "lives") as living:
        with pytest.raises(KeyError), registry.run("lucid-test", "killed") as killed:
            raise KeyError
        client = registry.client
        host, boot, numbering, pid, _ = own_process().split("/")
        client.set_tag(killed.run_id, PROCESS_TAG, f"{host}/{boot}/{numbering}/{pid}/0.0")
        client.update_run(killed.run_id, status="RUNNING")
        with registry.run("lucid-test", "next"):
            assert client.get_run(killed.run_id).info.status == "KILLED"
            assert client.get_run(living.run_id).info.status == "RUNNING"
