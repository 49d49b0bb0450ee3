"""The order of events at the same moment."""

from enum import IntEnum


class EventKind(IntEnum):
    """What happens first when several things happen at the same time."""

    COMPLETE = 0  # first: GPUs freed at t serve jobs at t
    LIMIT = 1  # a bounded run is over; after COMPLETE, so that a job which ends on the limit has ended
    PHASE = 2  # a job's needs change
    CANCEL = 3  # a user withdraws a job; one that ends at this moment has ended
    CLUSTER = 4  # nodes come, leave, fail or are repaired; before submissions, which see the cluster as it is
    SUBMIT = 5  # jobs submitted at t compete for what is free at t
    WAKE = 6  # last: the policy asked to look again, and sees all of the above
