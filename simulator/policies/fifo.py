"""First in, first out."""

from simulator.job_view import JobView
from simulator.policy import InOrderPolicy


class Fifo(InOrderPolicy):
    """Jobs start in the order of submission; the first that does not fit holds up the rest of its queue."""

    arrivals_never_delay = True
    reads_profiles = False

    def priority(self, job: JobView) -> float:
        """Order by submission."""
        return job.submit_time_s
