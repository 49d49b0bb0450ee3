"""First in, first out."""

from simulator.actions import Action
from simulator.policy import Policy, start_from_front
from simulator.snapshot import JobView, Snapshot


class Fifo(Policy):
    """Jobs start in the order of submission; the first that does not fit holds up the rest of its queue."""

    def priority(self, job: JobView) -> float:
        """Order by submission."""
        return job.submit_time_s

    def decide(self, snapshot: Snapshot) -> list[Action]:
        """Start from the front of each changed queue."""
        return [action for pool in snapshot.changed for action in start_from_front(pool)]
