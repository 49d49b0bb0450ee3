"""Looks at nodes beside the queue, which goes on whatever becomes of them; what goes wrong is said."""

import logging
from collections.abc import Callable
from typing import TypeVar

from foundation.errors import LucidError
from live_scheduler.loans.loan_status import LoanStatus
from live_scheduler.node_sleep.sleep_status import SleepingNodes

logger = logging.getLogger("lucid.live")

NodeStatus = TypeVar("NodeStatus", LoanStatus, SleepingNodes)


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
