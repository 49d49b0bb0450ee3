"""Quasi-shortest service first (Helios, SC '21, section 4.2, Algorithm 1)."""

from simulator.job_view import JobView
from simulator.policy import InOrderPolicy


class Qssf(InOrderPolicy):
    """Jobs start in the order of GPUs x estimated duration; no preemption."""

    needs_estimates = True

    def priority(self, job: JobView) -> tuple[float, int]:
        """Order by expected service (GPU seconds), then by GPUs."""
        return (job.estimate_s * job.gpus, job.gpus)
