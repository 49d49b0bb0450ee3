"""EASY backfilling: first come, first served, and short jobs around the first that waits.

Lifka, "The ANL/IBM SP scheduling system" (JSSPP '95); `simulator/mechanisms/backfill.py` has the rule. A job
is believed to run as long as its user asked for (`JobView.request_s`): its time limit, as on Slurm sites, or
an estimate where there are no limits. What is outlived does not kill the job here: it is doubled.
"""

from collections.abc import Mapping

import numpy as np

from simulator.column_rule import ColumnRule, GapRule
from simulator.mechanisms.backfill import Backfill, Beliefs
from simulator.mechanisms.backfilling_policy import BackfillingPolicy
from simulator.snapshot import NodePool
from simulator.workload.columns import WorkloadColumns


class Easy(BackfillingPolicy):
    """First come, first served, with EASY backfilling by time limits, else by estimates."""

    needs_estimates = True
    reads_profiles = False

    def backfill(self) -> Backfill:
        """Believe what users asked for."""
        return Backfill(lambda job: job.request_s)

    def column_rule(self, jobs: WorkloadColumns) -> ColumnRule:
        """First come, first served; believe what users asked for."""
        limit_s = jobs.time_limit_s
        asked_s = np.where(np.isnan(limit_s), jobs.estimated_duration_s, limit_s)
        return ColumnRule((jobs.submit_time_s,), GapRule(asked_s))

    def history(self) -> Beliefs:
        """Return what is believed of the jobs that run and wait."""
        return self._backfill.beliefs()

    def resume(self, pools: Mapping[str, NodePool], history: Beliefs | None) -> None:
        """Take note of what runs."""
        self._backfill.resume(pools, history or {})
