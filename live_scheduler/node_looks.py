"""Looks at nodes beside the queue, which goes on whatever becomes of them; what goes wrong is said."""

import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self, TypeVar

from foundation.errors import LucidError

logger = logging.getLogger("lucid.live")


class LookStatus(Protocol):
    """What is known after a look: a message with `at_s`, `refused`, `deferred` and `problem`."""

    problem: str | None

    def with_changes(self, **values: Any) -> Self:
        """Return it with other values."""


NodeStatus = TypeVar("NodeStatus", bound=LookStatus)


def look_at_nodes(
    last: NodeStatus, at_s: float, look: Callable[[NodeStatus], NodeStatus], which: str
) -> NodeStatus:
    """Return what `look` makes of the last status at `at_s` (Unix s). Never raises: see `problem`."""
    before = last.with_changes(at_s=at_s, problem=None, refused={}, deferred=0)
    try:
        status = look(before)
    except (LucidError, OSError) as error:
        status = before.with_changes(problem=str(error))
    except Exception as error:
        logger.exception("no look at %s", which)
        status = before.with_changes(problem=f"Unexpected: {error!r}")
    if status.problem and status.problem != last.problem:
        logger.warning("%s: %s", which, status.problem)
    return status


def some_nodes(names: Sequence[str], *, most: int = 5) -> str:
    """Return nodes for people: `node n3`, or `12 nodes (n1, n2, n3, n4, n5 ...)`."""
    if len(names) == 1:
        return f"node {names[0]}"
    return f"{len(names)} nodes ({', '.join(names[:most])}{' ...' if len(names) > most else ''})"
