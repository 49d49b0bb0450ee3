"""A release's run-time statistics, kept up to date by what happens: the daemon's memory.

It starts as the statistics that the release was trained to, takes in what the journal says has happened since
then, and then every submission, start and end as it is seen. Estimates are those of the release's duration
model on these statistics.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foundation.errors import BadInputError
from live_scheduler.cluster_state import EndedJob
from live_scheduler.memory.journal import JobEvent, JobEventKind
from lucid_models.duration.queue_scorer import QueueScorer
from lucid_models.duration.scorer import DurationEstimate, DurationScorer, LiveCalibration

Floats = NDArray[np.float64]

# So many last ends are remembered, so that no run is counted twice.
_ENDS_KEPT = 100_000


class OnlineState:
    """The statistics at this moment, and the estimates of the jobs that wait."""

    def __init__(self, scorer: DurationScorer, events: Iterable[JobEvent] = ()) -> None:
        """Start from a release's duration model, and take in `events` that it was not trained on."""
        # The release stays as it is: others may hold it, and it may be followed again.
        self.scorer = scorer.with_state(scorer.state.copy())
        self.trained_until_s = self.scorer.state.now_s
        self._ended: dict[str, float] = {}  # the last end that was counted, so that none counts twice
        self._calibration = LiveCalibration(self.scorer)
        since_s = self.trained_until_s
        for event in sorted((e for e in events if e.at_s > since_s), key=lambda event: event.at_s):
            self.observe(event)
        self._queue = QueueScorer(self.scorer)

    @property
    def waiting(self) -> Sequence[str]:
        """The ids of the jobs that are estimated, in the order of `estimates`."""
        return self._queue.job_ids

    def observe(self, event: JobEvent) -> bool:
        """Take in what happened; return False when it was known already."""
        state = self.scorer.state
        job_id, facts = event.job_id, event.facts
        if event.kind is JobEventKind.SUBMITTED:
            if job_id in state.flights:
                return False
            self._submitted(event)
        elif event.kind is JobEventKind.STARTED:
            if job_id not in state.flights:
                self._submitted(event)
            state.observe_start(job_id, event.at_s)
            self._calibration.started(job_id, event.at_s)
        elif event.kind is JobEventKind.REQUEUED:
            self._submitted(event)
        else:
            if event.at_s <= self._ended.get(job_id, -math.inf):
                return False
            self._ended.pop(job_id, None)
            self._ended[job_id] = event.at_s
            if len(self._ended) > _ENDS_KEPT:
                del self._ended[next(iter(self._ended))]
            self._calibration.ended(
                job_id, event.at_s, None if event.kind is JobEventKind.WITHDRAWN else event.duration_s
            )
            if event.kind is JobEventKind.WITHDRAWN:
                state.observe_withdrawal(job_id)
            else:
                state.observe_end({**facts, "end_time_s": event.at_s, "duration_s": event.duration_s})
        return True

    def knows_end(self, end: EndedJob) -> bool:
        """Whether this end, or a later one of the job, was counted."""
        return end.end_time_s <= self._ended.get(end.job.job_id, -math.inf)

    def join(self, jobs: Iterable[Mapping[str, Any]]) -> None:
        """Estimate these jobs too from now on (facts as `LiveJob.facts`)."""
        self._queue.add(jobs)

    def leave(self, job_ids: Iterable[str]) -> None:
        """Estimate these jobs no longer."""
        self._queue.remove(job_ids)

    def estimates(self, at_s: float) -> Floats:
        """P50 run times (s) as known at `at_s` (Unix time), shape (jobs,), in the order of `waiting`.

        Raises BadInputError that names the first job whose estimate is not a positive number.
        """
        self._calibration.catch_up()
        estimates_s = self._queue.estimate(at_s)
        sound = np.isfinite(estimates_s) & (estimates_s > 0)
        if not sound.all():
            at = int(np.flatnonzero(~sound)[0])
            raise BadInputError(
                f"The release estimates {estimates_s[at]} s for job {self.waiting[at]} and "
                f"{int((~sound).sum())} of {len(estimates_s)} jobs have no sound estimate.",
                remedy="Roll the release back, and look at its duration model.",
            )
        return estimates_s

    def estimate(self, facts: Mapping[str, Any], at_s: float) -> DurationEstimate:
        """Return one job's P50, P90 and mean with the reason in words."""
        self._calibration.catch_up()
        return self.scorer.estimate([facts], at_s)[0]

    def estimate_now(self, jobs: Sequence[Mapping[str, Any]], at_s: float) -> list[float]:
        """P50 run times (s) of jobs that do not wait, as known at `at_s`."""
        self._calibration.catch_up()
        estimates_s: list[float] = self.scorer.predict(jobs, at_s).tolist()
        return estimates_s

    def quantiles(self, jobs: Sequence[Mapping[str, Any]], at_s: float) -> tuple[Floats, Floats]:
        """P50 and P90 (s) of jobs as known at `at_s`, calibrated by jobs that started, shape (jobs,) each."""
        if not jobs:
            return np.empty(0), np.empty(0)
        self._calibration.catch_up()
        return self.scorer.quantiles(jobs, at_s)

    def _submitted(self, event: JobEvent) -> None:
        self.scorer.state.observe_submit(event.facts)
        self._calibration.submitted(event.facts, event.at_s)
