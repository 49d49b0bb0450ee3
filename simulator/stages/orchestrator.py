"""The resource orchestrator (Lucid section 3.4): whose turn it is, and exclusive consolidated placement."""

from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace
from typing import Any, Literal

from cluster_logs.errors import BadInputError
from simulator.actions import Start
from simulator.placement import FreeGpus
from simulator.snapshot import JobView, NodePool
from simulator.stages.settings import StageSettings

ORDERS = ("service", "gpus", "submission")


@dataclass(frozen=True)
class OrchestratorSettings(StageSettings):
    """`order`: who is served first.

    "service" is GPUs x estimated duration (Algorithm 2). "gpus" and "submission" know no duration: the
    ablation without estimator (section 4.5), which packs without regard to run times as well.
    """

    order: Literal["service", "gpus", "submission"] = "service"

    def __post_init__(self) -> None:
        """Refuse an unknown order."""
        super().__post_init__()
        if self.order not in ORDERS:
            raise BadInputError(f"order is {self.order!r}.", remedy=f"Choose one of: {', '.join(ORDERS)}.")


class ResourceOrchestrator:
    """Ranks jobs, and starts those that find idle GPUs."""

    def __init__(self, settings: OrchestratorSettings) -> None:
        self.settings = settings

    def priority(self, job: JobView) -> tuple[float, float]:
        """Rank a job in its virtual cluster; then by submission."""
        order = self.settings.order
        if order == "service":
            return (job.gpus * job.estimate_s, job.submit_time_s)
        return (job.gpus if order == "gpus" else 0.0, job.submit_time_s)

    def start_what_fits(self, pool: NodePool) -> list[Start]:
        """Start queued jobs in the queue's order, passing over those that do not fit.

        Looks at each GPU demand in the queue once more than jobs of it start: what does not fit now fits for
        nobody of equal demand.
        """
        free = pool.free
        left = free.total
        if not left:
            return []
        heads: list[tuple[Any, Any]] = []
        for gpus, part in pool.queue.by_gpus().items():
            if gpus <= left and free.find(gpus) is not None:
                jobs = iter(part)
                heads.append((next(jobs).queue_entry, jobs))
        if not heads:
            return []
        heapify(heads)
        plan: FreeGpus | None = None
        actions: list[Start] = []
        while heads:
            entry, jobs = heads[0]
            job: JobView = entry[2]
            if plan is None:
                placement = free.find(job.gpus)
                if placement is not None and left > job.gpus:
                    plan = free.copy()
                    plan.take(placement)
            else:
                placement = plan.place(job.gpus)
            if placement is None:
                heappop(heads)
                continue
            actions.append(Start(job, placement))
            left -= job.gpus
            if not left:
                break
            following = next(jobs, None)
            if following is None:
                heappop(heads)
            else:
                heapreplace(heads, (following.queue_entry, jobs))
        return actions
