"""What policies share that are served in the order of submission, and backfill the gaps."""

from abc import abstractmethod

from simulator.actions import Action
from simulator.job_view import JobView
from simulator.mechanisms.backfill import Backfill
from simulator.policy import Policy
from simulator.snapshot import Snapshot


class BackfillingPolicy(Policy):
    """First come, first served, with EASY backfilling; a subclass says what jobs are believed to run."""

    unequal_nodes = True
    by_limits = True
    at_events_only = True  # a belief that is outlived in between is corrected when something happens

    def __init__(self) -> None:
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forget what was believed of other jobs."""
        self._backfill = self.backfill()

    @abstractmethod
    def backfill(self) -> Backfill:
        """Return how gaps are filled in a new simulation."""

    def priority(self, job: JobView) -> float:
        """Order by submission."""
        return job.submit_time_s

    def observe_end(self, job: JobView, now_s: float) -> None:
        """Its GPUs are free now, whatever was believed."""
        self._backfill.ended(job)

    def decide(self, snapshot: Snapshot) -> list[Action]:
        """Start from the front of each changed queue, then backfill."""
        return [action for pool in snapshot.changed for action in self._backfill.decide(pool, snapshot.now_s)]
