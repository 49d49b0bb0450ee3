"""Quasi-shortest service first (Helios, SC '21, section 4.2, Algorithm 1)."""

from simulator.actions import Start
from simulator.job_view import JobView
from simulator.policy import Policy, start_in_order
from simulator.snapshot import Snapshot


class Qssf(Policy):
    """Jobs start in the order of GPUs x estimated duration; no preemption."""

    in_order = True
    needs_estimates = True

    def priority(self, job: JobView) -> tuple[float, int]:
        """Order by expected service (GPU seconds), then by GPUs."""
        return (job.estimate_s * job.gpus, job.gpus)

    def decide(self, snapshot: Snapshot) -> list[Start]:
        """Start from the front of each changed queue."""
        return start_in_order(snapshot)
