"""Shortest job first, with perfect knowledge: a bound to measure others against, not a scheduler."""

from simulator.column_rule import ColumnRule
from simulator.job_view import JobView
from simulator.policy import InOrderPolicy
from simulator.workload.columns import WorkloadColumns


class Sjf(InOrderPolicy):
    """Jobs start in the order of their true run time; no preemption."""

    oracle = True
    reads_profiles = False

    def priority(self, job: JobView) -> float:
        """Order by the true duration."""
        return job.job.duration_s

    def column_rule(self, jobs: WorkloadColumns) -> ColumnRule:
        """Order by the true duration."""
        return ColumnRule((jobs.duration_s,))
