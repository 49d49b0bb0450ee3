"""Of several processes that collect the same tests, the first compiles for all.

In a fresh checkout nothing is compiled: not what the tests import, not the tests themselves, whose assertions
pytest rewrites besides. Processes that begin together would each do all of it. Where most of it lies compiled
none waits.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def after_the_first(folder: Path) -> Iterator[None]:
    """Go ahead alone if no process is inside, else wait until none is alone inside.

    The lock is the system's, so that a process that dies gives it back. It lies on the folder itself.
    """
    if _is_compiled(folder):
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


def _is_compiled(folder: Path) -> bool:
    """Whether most test files below a folder have been compiled since they were changed."""
    files = list(folder.rglob("test_*.py"))
    return sum(map(_has_newer_bytecode, files)) > len(files) // 2


def _has_newer_bytecode(file: Path) -> bool:
    compiled = (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc")
    changed_s = file.stat().st_mtime
    return any(each.stat().st_mtime >= changed_s for each in compiled)
