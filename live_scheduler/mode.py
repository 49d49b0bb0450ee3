"""How much the live scheduler does."""

from enum import StrEnum


class Mode(StrEnum):
    """How much the daemon does."""

    OBSERVE = "observe"  # decide, log it, compare with what happened; change nothing
    ADVISE = "advise"  # besides, write the expected start and completion beside each job
    CONTROL = "control"  # besides, order the queue
