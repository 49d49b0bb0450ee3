"""First in, first out."""

from simulator.column_rule import ColumnRule
from simulator.job_view import JobView
from simulator.policy import InOrderPolicy
from simulator.workload.columns import WorkloadColumns


class Fifo(InOrderPolicy):
    """Jobs start in the order of submission; the first that does not fit holds up the rest of its queue."""

    arrivals_never_delay = True
    reads_profiles = False

    def priority(self, job: JobView) -> float:
        """Order by submission."""
        return job.submit_time_s

    def column_rule(self, jobs: WorkloadColumns) -> ColumnRule:
        """Order by submission."""
        return ColumnRule((jobs.submit_time_s,))
