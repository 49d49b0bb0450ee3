"""What the processes of one run share."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.built_once import built_once


def process_of(run: Path, worker: str = "") -> Any:
    """The temporary folders of a process of a run; those of pytest-xdist's workers lie below the run's."""
    folder = run / worker
    folder.mkdir(exist_ok=True)
    return SimpleNamespace(getbasetemp=lambda: folder)


def test_all_processes_read_what_the_first_one_built(tmp_path: Path) -> None:
    def build(folder: Path) -> None:
        with (tmp_path / "builders").open("a") as builders:
            builders.write("one\n")
        (folder / "file").write_text("content")

    workers = [process_of(tmp_path, f"popen-gw{number}") for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda worker: built_once(worker, "thing", build), workers))
    assert (tmp_path / "builders").read_text() == "one\n"
    assert len(set(found)) == 1
    assert (found[0] / "file").read_text() == "content"


def test_what_could_not_be_built_is_built_anew(tmp_path: Path) -> None:
    process = process_of(tmp_path)

    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise RuntimeError("no space")

    with pytest.raises(RuntimeError, match="no space"):
        built_once(process, "thing", fail)
    left: list[Path] = []
    built_once(process, "thing", lambda folder: left.extend(folder.iterdir()))
    assert left == []
