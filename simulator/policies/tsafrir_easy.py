"""EASY backfilling by the user's history (Tsafrir, Etsion, Feitelson, TPDS '07): no model, hard to beat.

A job is believed to run as long as the mean of its user's last two jobs that had ended when it was submitted,
but no longer than its user asked for: its time limit, else the estimate that came with it, if any. A job
that outlives this is corrected step by step, up to the request first. The queue is served in the order of
submission; the gaps around its head go to the job that is believed to be shortest.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from simulator.column_rule import ColumnRule, GapRule
from simulator.job_view import JobView
from simulator.mechanisms.backfill import Backfill, Beliefs
from simulator.mechanisms.backfilling_policy import BackfillingPolicy
from simulator.mechanisms.waiting_jobs import ShortestFirst
from simulator.snapshot import NodePool
from simulator.workload.columns import WorkloadColumns
from simulator.workload.user_history_estimates import UserHistory

# What is added to a prediction that was outlived once, twice, ... (the paper's "prediction correction").
CORRECTIONS_S = (0, 60, 300, 900, 1_800, 3_600, 7_200, 18_000, 36_000, 72_000, 180_000, 360_000)


@dataclass(frozen=True)
class TsafrirEasySettings:
    """Settings of EASY with Tsafrir's predictions.

    `capped`: a prediction never exceeds the estimate that came with the job, where there is no time limit
    (which it never exceeds). Where that is another prediction, the two are better not mixed.
    """

    capped: bool = True


class TsafrirEasy(BackfillingPolicy):
    """EASY backfilling, shortest job first in the gaps, by the mean of the user's last two jobs."""

    Settings = TsafrirEasySettings
    reads_profiles = False

    def __init__(self, settings: TsafrirEasySettings | None = None) -> None:
        self.settings = settings or TsafrirEasySettings()
        super().__init__()

    def begin_anew(self) -> None:
        """Begin without a history."""
        self._history = UserHistory()
        super().begin_anew()

    def backfill(self) -> Backfill:
        """Believe the user's last jobs, and fill gaps shortest job first."""
        return Backfill(self._believed_s, prolong=self._corrected_s, order=ShortestFirst)

    def column_rule(self, jobs: WorkloadColumns) -> ColumnRule:
        """First come, first served; believe the user's last jobs, and fill gaps shortest job first."""
        limit_s = jobs.time_limit_s
        asked_s = np.where(np.isnan(limit_s), jobs.estimated_duration_s, limit_s)
        most_s = asked_s if self.settings.capped else limit_s
        return ColumnRule((jobs.submit_time_s,), GapRule(asked_s, most_s, CORRECTIONS_S, shortest_first=True))

    def history(self) -> tuple[UserHistory, Beliefs]:
        """Return what has ended, and what was believed of the jobs that run and wait."""
        return self._history, self._backfill.beliefs()

    def resume(self, pools: Mapping[str, NodePool], history: tuple[UserHistory, Beliefs] | None) -> None:
        """Go on with another's history; without one, nothing has ended yet."""
        self._history, beliefs = history or (UserHistory(), {})
        self._backfill.resume(pools, beliefs)

    def _request_s(self, view: JobView) -> float | None:
        job = view.job
        if job.time_limit_s is not None:
            return job.time_limit_s
        return job.estimated_duration_s if self.settings.capped else None

    def _believed_s(self, view: JobView) -> float:
        job = view.job
        mine = self._history.of_user(job.user, job.virtual_cluster, view.gpus)
        if mine is None:
            asked_s = job.estimated_duration_s if job.time_limit_s is None else job.time_limit_s
            if asked_s is not None:
                return asked_s
            mine = self._history.estimate_s(job.user, job.virtual_cluster, view.gpus)
        request_s = self._request_s(view)
        return mine if request_s is None else min(mine, request_s)

    def _corrected_s(self, job: JobView, belief_s: float, times: int) -> float:
        step = min(times, len(CORRECTIONS_S) - 2)
        longer_s = belief_s + CORRECTIONS_S[step + 1] - CORRECTIONS_S[step]
        request_s = self._request_s(job)
        return longer_s if request_s is None or request_s <= belief_s else min(longer_s, request_s)

    def observe_end(self, job: JobView, now_s: float) -> None:
        """Learn from a job that has ended."""
        super().observe_end(job, now_s)
        self._history.ended(job.job.user, job.job.virtual_cluster, job.gpus, job.job.duration_s)
