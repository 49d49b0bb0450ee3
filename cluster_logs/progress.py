"""How long work says how far it has come."""

from collections.abc import Callable

# (done, total or None when unknown, what is being done)
Progress = Callable[[int, int | None, str], None]


def silent(done: int, total: int | None, what: str) -> None:
    """Report nothing."""
