"""Shortest remaining time first, with perfect knowledge and preemption."""

from collections.abc import Callable
from functools import partial
from math import inf
from operator import add

from simulator.column_rule import ColumnRule
from simulator.job_view import JobView
from simulator.mechanisms.preemption import PreemptivePolicy
from simulator.running_order import RunningKey
from simulator.workload.columns import WorkloadColumns


class Srtf(PreemptivePolicy):
    """The jobs with the least true remaining run time hold the GPUs."""

    oracle = True
    reads_profiles = False
    at_events_only = True  # running jobs overtake waiting ones in between
    waiting_first = True

    def priority(self, job: JobView) -> float:
        """Order by the true remaining run time; it stands still while a job waits."""
        return job.remaining_s

    def column_rule(self, jobs: WorkloadColumns) -> ColumnRule | None:
        """Order by the true remaining run time."""
        return self.column_rule_by()

    def running_key(self, job: JobView, now_s: float) -> RunningKey:
        """Order running jobs by their expected end: the same order, and it stands still while they run."""
        return job.run_since_s + job.remaining_s / job.speed, None

    def limits(self, now_s: float) -> Callable[[float], float]:
        """Return when a job would end that started now.

        By quotas a job with nothing left to do goes before those that only hold on to their GPUs.
        """
        if self.settings.selection == "fit":
            return partial(add, now_s)
        return lambda remaining_s: now_s + remaining_s if remaining_s else -inf
