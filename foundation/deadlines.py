"""A time by which all that a block waits for must have come, whatever waits within it."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True)
class Deadline:
    """When what is under way must have ended (monotonic s), and what is then said of it."""

    at_s: float
    allowed: str


_deadline: ContextVar[Deadline | None] = ContextVar("what is under way must end then", default=None)


@contextmanager
def within(seconds: float, what: str) -> Iterator[Deadline]:
    """Give every request of the block, all together, so many seconds; `what` names the block in errors.

    Within another such block the earlier end counts.
    """
    outer = _deadline.get()
    own = Deadline(time.monotonic() + seconds, f"{seconds:g} s for {what}")
    first = own if outer is None or own.at_s < outer.at_s else outer
    token = _deadline.set(first)
    try:
        yield first
    finally:
        _deadline.reset(token)


def time_left(timeout: float | None, late: type[Exception]) -> float | None:
    """Return how long a wait may take (s): `timeout`, or what is left until the deadline if less.

    Raises `late` when nothing is left.
    """
    deadline = _deadline.get()
    if deadline is None or deadline.at_s == math.inf:
        return timeout
    left_s = deadline.at_s - time.monotonic()
    if left_s <= 0:
        raise late("the time is over")
    return left_s if timeout is None else min(timeout, left_s)
