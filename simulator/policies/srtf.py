"""Shortest remaining time first, with perfect knowledge and preemption."""

from heapq import merge

from simulator.actions import Action
from simulator.policy import Policy
from simulator.preemption import PreemptionSettings, preempt_to_fit, quota_walk
from simulator.snapshot import JobView, NodePool, Snapshot


class Srtf(Policy):
    """The jobs with the least true remaining run time hold the GPUs."""

    oracle = True
    Settings = PreemptionSettings

    def __init__(self, settings: PreemptionSettings | None = None) -> None:
        self.settings = settings or PreemptionSettings()
        self.costs = self.settings.costs()

    def priority(self, job: JobView) -> float:
        """Order by the true remaining run time; it stands still while a job waits."""
        return job.remaining_s

    def decide(self, snapshot: Snapshot) -> list[Action]:
        """Give the GPUs of each changed pool to the shortest jobs."""
        return [
            action
            for pool in snapshot.changed
            if len(pool.queue)
            for action in self._decide(pool, snapshot.now_s)
        ]

    def _decide(self, pool: NodePool, now_s: float) -> list[Action]:
        if self.settings.selection == "fit":
            # JobView.remaining_at at full speed, without its calls: this is asked for each running job.
            return preempt_to_fit(
                pool,
                lambda job: (
                    job.remaining_s if job.placement is None else job.remaining_s - (now_s - job.run_since_s)
                ),
            )
        # A job's expected end orders running jobs as their remaining time does, and needs no arithmetic here.
        running = sorted(pool.running, key=lambda job: job.run_since_s + job.remaining_s)
        # Ties: waiting jobs come first.
        return quota_walk(pool, merge(pool.queue, running, key=lambda job: job.remaining_at(now_s)))
