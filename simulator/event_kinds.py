"""The order of events at the same moment."""

from enum import IntEnum


class EventKind(IntEnum):
    """What happens first when several things happen at the same time."""

    COMPLETE = 0  # first: GPUs freed at t serve jobs at t
    LIMIT = 1  # a bounded run is over; after COMPLETE, so that a job which ends on the limit has ended
    SUBMIT = 2  # jobs submitted at t compete for what is free at t
    WAKE = 3  # last: the policy asked to look again, and sees all of the above
