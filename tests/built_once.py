"""What several test processes of one run need, built by the first that asks and read by the others.

It lies in the folder of the run, which pytest-xdist's processes share. Who asks meanwhile waits; what could
not be built is built anew by the next who asks. Who has built it reads it back as the others do: no test can
tell which process built what it uses.
"""

import fcntl
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")


def built_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], T]) -> T:
    """What `make` returned for a new folder. What lies in there is everybody's: nobody changes it."""
    shared = _folder_of_the_run(factory) / "built-once"
    shared.mkdir(exist_ok=True)
    folder, returned = shared / name, shared / f"{name}.pickle"
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the system's: a process that dies gives it back
        if not returned.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            whole = pickle.dumps(make(folder))
            returned.write_bytes(whole)
    kept: T = pickle.loads(returned.read_bytes())
    return kept


def _folder_of_the_run(factory: pytest.TempPathFactory) -> Path:
    """Under pytest-xdist the folder above this process's own."""
    own = factory.getbasetemp()
    return own.parent if own.name.startswith("popen-") else own
