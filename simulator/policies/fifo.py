"""First in, first out."""

from simulator.actions import Start
from simulator.job_view import JobView
from simulator.policy import Policy, start_in_order
from simulator.snapshot import Snapshot


class Fifo(Policy):
    """Jobs start in the order of submission; the first that does not fit holds up the rest of its queue."""

    in_order = True
    arrivals_never_delay = True

    def priority(self, job: JobView) -> float:
        """Order by submission."""
        return job.submit_time_s

    def decide(self, snapshot: Snapshot) -> list[Start]:
        """Start from the front of each changed queue."""
        return start_in_order(snapshot)
