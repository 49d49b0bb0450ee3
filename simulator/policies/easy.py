"""EASY backfilling: first come, first served, and short jobs around the first that waits.

Lifka, "The ANL/IBM SP scheduling system" (JSSPP '95); `simulator/mechanisms/backfill.py` has the rule. How
long a job will run is what came with it (`estimated_duration_s`): the time limit that its user gave, as on
Slurm sites, or an estimate. Unlike a time limit, an estimate that is outlived does not kill the job: it is
doubled.
"""

from collections.abc import Mapping

from simulator.actions import Action
from simulator.cluster import ClusterSpec
from simulator.job_view import JobView
from simulator.mechanisms.backfill import Backfill, Beliefs
from simulator.policy import Policy
from simulator.snapshot import NodePool, Snapshot


class Easy(Policy):
    """First come, first served, with EASY backfilling by the given estimates."""

    needs_estimates = True

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._backfill = Backfill(lambda job: job.estimate_s)

    def prepare(self, cluster: ClusterSpec, largest_job: Mapping[str, int]) -> ClusterSpec:
        """Begin anew with an empty cluster."""
        self._forget()
        return cluster

    def history(self) -> Beliefs:
        """Return what is believed of the jobs that run and wait."""
        return self._backfill.beliefs()

    def resume(self, pools: Mapping[str, NodePool], history: Beliefs | None) -> None:
        """Take note of what runs."""
        self._backfill.resume(pools, history or {})

    def priority(self, job: JobView) -> float:
        """Order by submission."""
        return job.submit_time_s

    def observe_end(self, job: JobView, now_s: float) -> None:
        """Its GPUs are free now, whatever was believed."""
        self._backfill.ended(job)

    def decide(self, snapshot: Snapshot) -> list[Action]:
        """Start from the front of each changed queue, then backfill."""
        return [action for pool in snapshot.changed for action in self._backfill.decide(pool, snapshot.now_s)]
