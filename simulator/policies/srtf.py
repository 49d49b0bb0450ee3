"""Shortest remaining time first, with perfect knowledge and preemption."""

from math import inf

from simulator.actions import Action
from simulator.job_view import JobView
from simulator.mechanisms.preemption import PreemptionSettings, preempt_to_fit, quota_walk
from simulator.policy import Policy
from simulator.running_order import RunningKey
from simulator.snapshot import Snapshot


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

    def running_key(self, job: JobView, now_s: float) -> RunningKey:
        """Order running jobs by their expected end: the same order, and it stands still while they run."""
        return job.run_since_s + job.remaining_s / job.speed, None

    def decide(self, snapshot: Snapshot) -> list[Action]:
        """Give the GPUs of each changed pool to the shortest jobs."""
        now_s = snapshot.now_s
        actions: list[Action] = []
        for pool in snapshot.changed:
            if not len(pool.queue):
                continue
            if self.settings.selection == "fit":
                actions += preempt_to_fit(pool, now_s, now_s.__add__)
            else:
                # A job with nothing left to do goes before those that only hold on to their GPUs.
                actions += quota_walk(
                    pool,
                    now_s,
                    lambda remaining_s: now_s + remaining_s if remaining_s else -inf,
                    waiting_first=True,
                )
        return actions
