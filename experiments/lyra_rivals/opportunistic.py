"""Opportunistic: jobs that may run on inference servers wait for idle ones only (Lyra, 7.1)."""

from collections.abc import Sequence
from dataclasses import dataclass

from parts.lending.replay.inference_servers import InferenceServers
from parts.lending.replay.orchestrator import share_of_servers
from parts.lending.workers.job_workers import workers_of
from parts.lending.workers.scalable_job import ScalableJob
from parts.lending.workers.server_pools import ServerPool
from parts.lending.workers.settings import WorkerSettings
from parts.lending.workers.worker_policy import WorkerPolicy
from simulator.actions import Action
from simulator.job_view import JobView
from simulator.snapshot import Snapshot


@dataclass(frozen=True)
class OpportunisticSettings(WorkerSettings):
    """Inference takes its servers back from the highest id down, whatever runs there.

    `most_preemptions`: a job that was preempted so often waits for training servers. Without such a guard
    a job that runs longer than any lull of inference never ends.
    """

    scaling: bool = False
    reclaim: str = "highest"
    most_preemptions: int = 10


class Opportunistic(WorkerPolicy):
    """Training servers are left to jobs that may run nowhere else."""

    Settings = OpportunisticSettings

    def __init__(self, settings: OpportunisticSettings | None = None) -> None:
        super().__init__(settings)
        self._idle_servers, self._unit, self._gpus_per_server = 0, 1, 1

    def decide(self, snapshot: Snapshot) -> Sequence[Action]:
        """Decide as others do, knowing how many inference servers are ever idle."""
        service = snapshot.lender
        self._idle_servers, self._unit = 0, 1
        if isinstance(service, InferenceServers) and self.settings.loaning:
            kept = share_of_servers(min(service.usage), service.servers)
            kept += share_of_servers(self.settings.headroom, service.servers)
            self._idle_servers, self._unit = service.servers - kept, service.loaned_workers_per_worker
            self._gpus_per_server = snapshot.pools[service.name].free.gpus_per_node
        return super().decide(snapshot)

    def _ever_fits(self, view: JobView) -> bool:
        """Whether a job's base workers find room on the inference servers when most of these are idle."""
        workers = workers_of(view)
        room = max(0, self._idle_servers) * (self._gpus_per_server // workers.gpus_each)
        return room >= workers.least * self._unit

    def pools_of(self, view: JobView) -> tuple[ServerPool, ...]:
        """Return inference servers for jobs that may run there, until they were preempted too often."""
        pools = super().pools_of(view)
        patient = view.preemptions < self.settings.most_preemptions
        if ServerPool.ON_LOAN not in pools or not (patient and self._ever_fits(view)):
            return (ServerPool.TRAINING,)
        return (ServerPool.ON_LOAN,)

    def extra_workers(self, jobs: Sequence[ScalableJob], capacity_gpus: int) -> Sequence[int]:
        """Give none."""
        return [0] * len(jobs)
