"""The states of a job in every table; importable without the tables' libraries."""

from enum import StrEnum


class JobState(StrEnum):
    """The states of a job, whatever words its source uses."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"

    @property
    def finished(self) -> bool:
        """Whether a job in this state will never run again."""
        return self in FINISHED_STATES


FINISHED_STATES = frozenset({JobState.COMPLETED, JobState.CANCELLED, JobState.FAILED})
