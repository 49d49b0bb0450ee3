"""The seam: what a scheduling policy is.

A policy is asked for decisions whenever something happened in a node pool; it answers with actions. It keeps
no record of the cluster: everything that it needs is in the snapshot, so that the same code orders a live
queue. `docs/simulator_fidelity.md` lists the rules that policies share.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from cluster_logs.errors import BadInputError
from simulator.actions import Action, Start
from simulator.cluster import ClusterSpec
from simulator.snapshot import JobView, NodePool, Snapshot


@dataclass(frozen=True)
class RunCosts:
    """Seconds that a policy's mechanisms cost a job. The GPUs are held meanwhile."""

    preemption_s: float = 0.0  # checkpoint and restore of a job on one node
    preemption_multi_node_s: float | None = None  # of a larger job; None: the same
    completion_s: float = 0.0  # between the end of the work and the release of the GPUs

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None and not 0 <= value < float("inf"):
                raise BadInputError(f"{name} is {value!r} s.", remedy="Use 0 s or more.")

    def preemption_of(self, gpus: int, gpus_per_node: int) -> float:
        """Return the overhead that one preemption costs a job of this size."""
        if gpus > gpus_per_node and self.preemption_multi_node_s is not None:
            return self.preemption_multi_node_s
        return self.preemption_s


class Policy(ABC):
    """A scheduling policy. `priority` and `decide` are all that a simple one needs.

    Class attributes declare what it needs: `oracle` (it reads true durations), `needs_estimates`. `round_s`
    makes decisions fall on multiples of that many seconds only; None decides at every event.
    """

    oracle: ClassVar[bool] = False
    needs_estimates: ClassVar[bool] = False
    round_s: float | None = None
    costs: RunCosts = RunCosts()

    def prepare(self, cluster: ClusterSpec, largest_job: Mapping[str, int]) -> ClusterSpec:
        """Return the cluster with the partitions that the policy sets aside.

        `largest_job` is the GPU demand of the largest job in each virtual cluster, which must still fit.
        """
        return cluster

    def pool_of(self, job: JobView) -> str:
        """Name the pool that a job queues for, each time that it starts to wait."""
        return job.job.virtual_cluster

    @abstractmethod
    def priority(self, job: JobView) -> Any:
        """Rank a job when it starts to wait: lower is served earlier; ties go by who waits longest."""

    @abstractmethod
    def decide(self, snapshot: Snapshot) -> list[Action]:
        """Say what to do now, in the pools of `snapshot.changed`. Actions are applied in order."""

    def next_change_s(self, pool: NodePool, now_s: float) -> float | None:
        """When `decide` could answer differently in a pool although nothing happens there; None: never."""
        return None


def start_from_front(pool: NodePool) -> list[Action]:
    """Start queued jobs in the queue's order and stop at the first that does not fit.

    The rule that Lucid's and Helios' non-preemptive baselines share (Helios, Algorithm 1): a job is never
    overtaken by a later one, even when only fragmentation keeps it waiting.
    """
    queue = pool.queue
    if not len(queue) or pool.free.find(queue.first.gpus) is None:
        return []
    plan = pool.plan()
    actions: list[Action] = []
    for job in queue:
        placement = plan.place(job.gpus)
        if placement is None:
            break
        actions.append(Start(job, placement))
    return actions
