"""What a task's log leaves out: chatter of libraries, lines that the task repeats in its last one, and
Airflow's report of an error that was told before, with its remedy.

Airflow ends a failed task's log with the exception and the frames of its own task runner, ours among them:
fifty lines among which the sentence that says what to do is lost. LUCID_LOG_FRAMES=true shows them again.
"""

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

from foundation.environment import read_switch
from foundation.errors import BadInputError

# A move of `champion` is what the task tells in the end.
_QUIET = ("alembic", "great_expectations", "matplotlib", "mlflow", "lucid.releases")
_TOLD = "told_in_the_log"


def quiet_libraries() -> None:
    """Let these say no more than warnings in this process."""
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


def frames_wanted() -> bool:
    """Return whether logs show the frames of errors that we know of (LUCID_LOG_FRAMES)."""
    try:
        return read_switch("LUCID_LOG_FRAMES", default=False)
    except BadInputError:  # an error is being told: rather too much of it than another
        return True


def as_told(error: BaseException) -> BaseException:
    """Return the error, which the log of this task will not report again."""
    import structlog

    if not frames_wanted():
        setattr(error, _TOLD, True)
        # The list itself: loggers that exist hold on to it.
        processors = structlog.get_config()["processors"]
        if _leave_out not in processors:
            processors.insert(0, _leave_out)
    return error


def _leave_out(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Drop an entry that reports an error which was told; a processor of structlog."""
    import structlog

    reported = event.get("exc_info")
    error = sys.exc_info()[1] if reported is True else reported
    if isinstance(error, tuple):
        error = error[1]
    if getattr(error, _TOLD, False):
        raise structlog.DropEvent
    return event
