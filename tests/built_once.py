"""Files that several test processes of one run need, made by the first that asks and read by the others.

They lie in the folder of the run, which pytest-xdist's processes share. Who asks meanwhile waits; what could
not be made is made anew by the next process that asks.
"""

import fcntl
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest


def built_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """The folder that `make` filled. What lies in there is shared: no test changes it."""
    shared = _folder_of_the_run(factory) / "built-once"
    shared.mkdir(exist_ok=True)
    folder, whole = shared / name, shared / f"{name}.whole"
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the system's: a process that dies gives it back
        if not whole.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            whole.touch()
    return folder


def _folder_of_the_run(factory: pytest.TempPathFactory) -> Path:
    """Under pytest-xdist the folder above this process's own."""
    own = factory.getbasetemp()
    return own.parent if own.name.startswith("popen-") else own
