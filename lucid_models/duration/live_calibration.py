"""Keeps a scorer's calibration up to date where jobs are seen one by one, as cheaply as they come.

What was known of a job at its submission is noted, and scored together with others: when quantiles are asked
for, or when there are many. What is learned does not depend on when that is.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lucid_models.duration.calibration import calibrated_with
from lucid_models.duration.job_replay import BLOCK, SubmittedJobs
from lucid_models.duration.scorer import DurationScorer


@dataclass(frozen=True, slots=True)
class _Submission:
    place: int  # among the jobs noted


@dataclass(frozen=True, slots=True)
class _Start:
    pass


@dataclass(frozen=True, slots=True)
class _End:
    duration_s: float | None


class LiveCalibration:
    """Follows submissions, starts and ends of jobs; tell the scorer's state of a submission first."""

    def __init__(self, scorer: DurationScorer) -> None:
        self._scorer = scorer
        self._noted = SubmittedJobs(scorer.state)
        self._jobs: list[Mapping[str, Any]] = []
        # What happened since then, in turn, with its moment (Unix time).
        self._happened: list[tuple[str, float, _Submission | _Start | _End]] = []

    def submitted(self, job: Mapping[str, Any], at_s: float) -> None:
        """A job was submitted (again) at `at_s` (Unix time), and the state knows it."""
        job_id = str(job["job_id"])
        self._happened.append((job_id, at_s, _Submission(len(self._jobs))))
        self._noted.add(job_id, self._scorer.state.flights[job_id].keys, at_s)
        self._jobs.append(job)
        if len(self._jobs) == BLOCK:
            self.catch_up()

    def started(self, job_id: str, at_s: float) -> None:
        """A job started at `at_s` (Unix time)."""
        self._happened.append((job_id, at_s, _Start()))

    def ended(self, job_id: str, at_s: float, duration_s: float | None) -> None:
        """A job ended at `at_s` (Unix time), after a run of so many seconds or without one."""
        self._happened.append((job_id, at_s, _End(duration_s)))

    def catch_up(self) -> None:
        """Bring the scorer's calibration to what was seen."""
        scorer, calibration = self._scorer, self._scorer.calibration
        said: list[list[float]] = []
        if self._jobs:
            rows = np.hstack([self._noted.take(), scorer.state.facts_of_all(self._jobs)])
            said = scorer.residuals.of(scorer.log_head.score(rows)).tolist()
        for job_id, at_s, what in self._happened:
            if isinstance(what, _Submission):
                job = self._jobs[what.place]
                calibration.submitted(job_id, at_s, *calibrated_with(job), said[what.place])
            elif isinstance(what, _Start):
                calibration.started(job_id, at_s)
            elif what.duration_s is None:
                calibration.withdrawn(job_id)
            else:
                calibration.ended(job_id, at_s, float(what.duration_s))
        self._jobs, self._happened = [], []
