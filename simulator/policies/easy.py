"""EASY backfilling: first come, first served, and short jobs around the first that waits.

Lifka, "The ANL/IBM SP scheduling system" (JSSPP '95); `simulator/mechanisms/backfill.py` has the rule. How
long a job will run is what came with it (`estimated_duration_s`): the time limit that its user gave, as on
Slurm sites, or an estimate. Unlike a time limit, an estimate that is outlived does not kill the job: it is
doubled.
"""

from collections.abc import Mapping

from simulator.mechanisms.backfill import Backfill, Beliefs
from simulator.mechanisms.backfilling_policy import BackfillingPolicy
from simulator.snapshot import NodePool


class Easy(BackfillingPolicy):
    """First come, first served, with EASY backfilling by the given estimates."""

    needs_estimates = True

    def backfill(self) -> Backfill:
        """Believe the estimates."""
        return Backfill(lambda job: job.estimate_s)

    def history(self) -> Beliefs:
        """Return what is believed of the jobs that run and wait."""
        return self._backfill.beliefs()

    def resume(self, pools: Mapping[str, NodePool], history: Beliefs | None) -> None:
        """Take note of what runs."""
        self._backfill.resume(pools, history or {})
