"""Jobs in workers, and a policy that does with them what a test says."""

from collections.abc import Callable, Sequence
from typing import Any

from simulator.actions import Action, Loan, Start
from simulator.cluster.placement import Placement
from simulator.job_view import JobView
from simulator.policy import Policy, RunCosts
from simulator.snapshot import NodePool, Snapshot
from simulator.workload.job import Job
from simulator.workload.workers import Workers

Step = Callable[[Snapshot, NodePool], Sequence[Action]]


class Scripted(Policy):
    """Does as a test says, at the moments that it says."""

    costs = RunCosts(preemption_s=63.0, restart_s=63.0)

    def __init__(self, steps: dict[float, Step]) -> None:
        self.steps = dict(steps)

    def priority(self, job: JobView) -> Any:
        return job.index

    def decide(self, snapshot: Snapshot) -> Sequence[Action]:
        step = self.steps.pop(snapshot.now_s, None)
        return [] if step is None else step(snapshot, snapshot.pools["training"])

    def next_change_s(self, pool: NodePool, now_s: float) -> float | None:
        return min(self.steps, default=None)


def job(name: str = "a", *, hours_of_work: float = 1.0, submit_s: float = 0.0, **workers: Any) -> Job:
    """Return a job of 4-GPU workers, 1 to 3 unless said otherwise, with so much work at the least of them."""
    crew = Workers(**{"gpus_each": 4, "least": 1, "most": 3, **workers})
    work = hours_of_work * 3600 * crew.least
    return Job(name, "training", None, crew.gpus, submit_s, work / crew.rate(crew.most), workers=crew)


def start(placement: Placement, flexible: Placement = (), *, lend: int = 0) -> Step:
    def step(snapshot: Snapshot, pool: NodePool) -> list[Action]:
        loans: list[Action] = [Loan(snapshot.pools["inference"], pool, node) for node in range(lend)]
        assert pool.queue.head() is not None
        return [*loans, Start(pool.queue.first, Placement.of(placement), flexible=Placement.of(flexible))]

    return step
