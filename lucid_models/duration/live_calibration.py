"""Keeps a scorer's calibration up to date where jobs are seen one by one, as cheaply as they come.

What was known of a job at its submission is noted, and scored together with others: when quantiles are asked
for, or when there are many. What is learned does not depend on when that is.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from lucid_models.duration.calibration import virtual_cluster_of
from lucid_models.duration.job_replay import BLOCK, SubmittedJobs
from lucid_models.duration.scorer import DurationScorer


class LiveCalibration:
    """Follows submissions and ends of jobs; tell the scorer's state of a submission first."""

    def __init__(self, scorer: DurationScorer) -> None:
        self._scorer = scorer
        self._noted = SubmittedJobs(scorer.state)
        self._jobs: list[Mapping[str, Any]] = []
        # What happened since then, in turn: the place of a job among those noted, or its end: the run time
        # (s), NaN without a run.
        self._happened: list[tuple[str, int | float]] = []

    def submitted(self, job: Mapping[str, Any], at_s: float) -> None:
        """A job was submitted (again) at `at_s` (Unix time), and the state knows it."""
        job_id = str(job["job_id"])
        self._happened.append((job_id, len(self._jobs)))
        self._noted.add(job_id, self._scorer.state.flights[job_id].keys, at_s)
        self._jobs.append(job)
        if len(self._jobs) == BLOCK:
            self.catch_up()

    def ended(self, job_id: str, duration_s: float | None) -> None:
        """A job ended, after a run of so many seconds or without one."""
        self._happened.append((job_id, math.nan if duration_s is None else float(duration_s)))

    def catch_up(self) -> None:
        """Bring the scorer's calibration to what was seen."""
        scorer, calibration = self._scorer, self._scorer.calibration
        said: list[list[float]] = []
        if self._jobs:
            rows = np.hstack([self._noted.take(), scorer.state.facts_of_all(self._jobs)])
            said = scorer.residuals.of(scorer.log_head.score(rows)).tolist()
        for job_id, what in self._happened:
            if isinstance(what, int):
                calibration.submitted(job_id, virtual_cluster_of(self._jobs[what]), said[what])
            elif math.isnan(what):
                calibration.withdrawn(job_id)
            else:
                calibration.ended(job_id, what)
        self._jobs, self._happened = [], []
