"""Opportunistic: jobs that may run on inference servers wait for idle ones, for nothing else (Lyra, 7.1)."""

from collections.abc import Sequence
from dataclasses import dataclass

from foundation.errors import BadInputError
from simulator.job_view import JobView
from simulator.worker_scaling.scalable_job import ScalableJob
from simulator.worker_scaling.server_pools import ServerPool
from simulator.worker_scaling.settings import WorkerSettings
from simulator.worker_scaling.worker_policy import WorkerPolicy


@dataclass(frozen=True)
class OpportunisticSettings(WorkerSettings):
    """Inference takes its servers back from the highest id down, whoever runs there.

    `most_preemptions`: a job that was preempted so often waits for training servers. Without such a guard
    a job that runs longer than any lull of inference never ends.
    """

    scaling: bool = False
    reclaim: str = "highest"
    most_preemptions: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.most_preemptions < 0:
            raise BadInputError(f"most_preemptions is {self.most_preemptions}.", remedy="Use 0 or more.")


class Opportunistic(WorkerPolicy):
    """Training servers are left to jobs that may run nowhere else."""

    Settings = OpportunisticSettings

    def pools_of(self, view: JobView) -> tuple[ServerPool, ...]:
        """Return inference servers for jobs that may run there, until they were preempted too often."""
        pools = super().pools_of(view)
        if ServerPool.ON_LOAN not in pools or view.preemptions >= self.settings.most_preemptions:
            return (ServerPool.TRAINING,)
        return (ServerPool.ON_LOAN,)

    def extra_workers(self, jobs: Sequence[ScalableJob], capacity_gpus: int) -> Sequence[int]:
        """Give none."""
        return [0] * len(jobs)
