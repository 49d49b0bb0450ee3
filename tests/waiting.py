"""Waiting for what another process or thread does."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE_S = 300.0  # long enough for a machine with much else to do, short enough to tell what hangs


def wait_until(happened: Callable[[], T], what: str = "it happened", *, every_s: float = 0.02) -> T:
    """Return what `happened` returned once it was true; raises AssertionError after PATIENCE_S."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := happened()):
        assert time.monotonic() < deadline, f"not within {PATIENCE_S:g} s: {what}"
        time.sleep(every_s)
    return found
