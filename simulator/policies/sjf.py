"""Shortest job first, with perfect knowledge: a bound to measure others against, not a scheduler."""

from simulator.actions import Start
from simulator.job_view import JobView
from simulator.policy import Policy, start_in_order
from simulator.snapshot import Snapshot


class Sjf(Policy):
    """Jobs start in the order of their true run time; no preemption."""

    in_order = True
    oracle = True

    def priority(self, job: JobView) -> float:
        """Order by the true duration."""
        return job.job.duration_s

    def decide(self, snapshot: Snapshot) -> list[Start]:
        """Start from the front of each changed queue."""
        return start_in_order(snapshot)
