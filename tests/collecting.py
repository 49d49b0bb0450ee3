"""Of several processes that collect the same tests, the first compiles for all.

In a fresh checkout nothing is compiled: not what the tests import, not the tests themselves, whose assertions
pytest rewrites besides. Processes that begin together would each do all of it.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def after_the_first(folder: Path) -> Iterator[None]:
    """Go ahead alone if nobody is inside, else wait until nobody is alone inside.

    The lock is the system's, so that a process that dies gives it back. It lies on the folder itself.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)
