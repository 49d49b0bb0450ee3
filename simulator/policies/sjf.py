"""Shortest job first, with perfect knowledge: a bound to measure others against, not a scheduler."""

from simulator.job_view import JobView
from simulator.policy import InOrderPolicy


class Sjf(InOrderPolicy):
    """Jobs start in the order of their true run time; no preemption."""

    oracle = True
    reads_profiles = False

    def priority(self, job: JobView) -> float:
        """Order by the true duration."""
        return job.job.duration_s
