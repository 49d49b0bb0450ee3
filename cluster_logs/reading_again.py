"""Reading what another process may be writing: from the beginning again, until nothing changed meanwhile."""

import time
from collections.abc import Callable
from typing import TypeVar

from cluster_logs.cluster_writes import READER_WAITS_S
from foundation.errors import ChangedWhileReadError

Result = TypeVar("Result")


def unchanged(read: Callable[[], Result]) -> Result:
    """What `read` gives, which begins from the beginning each time.

    Raises ChangedWhileReadError when writers follow one another for so long that none of the readings begun
    within READER_WAITS_S was whole.
    """
    until_s = time.monotonic() + READER_WAITS_S
    while True:
        try:
            return read()
        except ChangedWhileReadError:
            if time.monotonic() >= until_s:
                raise
