"""Predicts the end of each job once, at the first pass that sees it (`submission_predictions.py`).

A pass only notes the new jobs; a thread of its own has their ends predicted in the forecasts' process and
records them. Jobs that cannot be predicted yet (held, waiting for another) are predicted once they can be.
"""

import logging
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from foundation.errors import ServiceUnavailableError
from live_scheduler.capability import capabilities
from live_scheduler.cluster_state import ClusterState, LiveJob
from live_scheduler.daemon import JOURNAL_FILE, Daemon
from live_scheduler.forecast.completion_forecast import JobForecast
from live_scheduler.forecast.forecaster import Forecaster
from live_scheduler.forecast.submission_predictions import (
    SUBMISSION_PREDICTIONS_FILE,
    JudgedPrediction,
    SubmissionPrediction,
    SubmissionPredictions,
    judged_predictions,
    submission_prediction_of,
)
from live_scheduler.live_view import LiveView
from live_scheduler.memory.journal import Journal

logger = logging.getLogger("lucid.live")
PLAY_FORWARD = "play_forward"
# The errors of recent predictions are those of so many jobs, which ended no longer ago than this.
RECENT_JOBS = 2_000
RECENT_S = 7 * 86_400.0
# A job that could not be predicted is tried again when it has changed, and this often.
AGAIN_S = 60.0


@dataclass(frozen=True)
class StartOpinion:
    """When a job starts (Unix s) by another forecast, and which of the two is believed and why.

    `said_by` is `PLAY_FORWARD` where playing forward is believed, else the other's name; `assumptions` are
    what its times assume.
    """

    start_p50_s: float
    start_p90_s: float
    said_by: str
    why: str
    assumptions: tuple[str, ...]

    @property
    def believed(self) -> bool:
        """Whether these times count, not those that were played."""
        return self.said_by != PLAY_FORWARD


class OtherStarts(ABC):
    """Another forecast of one daemon's queue, asked from the threads of passes, predictions and answers."""

    @abstractmethod
    def waits_s(self, view: LiveView) -> Mapping[str, float]:
        """Return the P50 of how long jobs of the view go on waiting, by job, where it says anything."""

    @abstractmethod
    def opinion(self, view: LiveView, job: LiveJob, played: JobForecast) -> StartOpinion | None:
        """Return what it says of a job that waits and may start; None: nothing."""

    @abstractmethod
    def told(self, predictions: Iterable[SubmissionPrediction]) -> None:
        """Take in what was said of new jobs, by it and by playing forward."""

    @abstractmethod
    def passed(self, view: LiveView) -> None:
        """Take in which jobs have started by a pass."""


def other_starts_of(daemon: Daemon) -> OtherStarts | None:
    """Return the other forecast that an installed part brings; None: none does."""
    found = (part.other_starts(daemon) for part in capabilities().values())
    return next((each for each in found if each is not None), None)


class SubmissionPredictor:
    """A watcher of the daemon: `predictions` of jobs in the queue, `recent` those whose jobs ended lately."""

    def __init__(self, forecaster: Forecaster, other_starts: OtherStarts | None = None) -> None:
        """Read what an earlier process predicted; nothing is started yet. `other_starts` is asked as well."""
        daemon = forecaster.daemon
        self.forecaster, self.other_starts = forecaster, other_starts
        self.predictions = SubmissionPredictions(daemon.state_dir / SUBMISSION_PREDICTIONS_FILE)
        self.recent: deque[JudgedPrediction] = deque(maxlen=RECENT_JOBS)
        since_s = daemon.view.at_s - RECENT_S
        events = list(Journal(daemon.state_dir / JOURNAL_FILE).read(since_s))
        self.recent.extend(judged_predictions(self.predictions.path, events, since_s))
        self._tried: dict[str, tuple[object, float]] = {}  # its state then, and the next try
        self._view: LiveView | None = None
        self._wake = threading.Event()

    def passed(self, view: LiveView) -> None:
        """Judge the predictions of ended jobs, and have new jobs predicted."""
        if self.other_starts is not None:
            self.other_starts.passed(view)
        for end in view.ended:
            prediction = self.predictions.settle(end.job)
            if prediction is not None and end.duration_s is not None:
                self.recent.append(JudgedPrediction(prediction, end.end_time_s))
        # Jobs are predicted from the reading that showed them first; those of later ones follow.
        idle = self._view is None and view.cluster is not None and view.decision is not None
        if idle and view.cluster is not None and self._new(view, view.cluster):
            self._view = view
            self._wake.set()

    def start(self, stop: threading.Event) -> None:
        """Make predictions in a thread until `stop` is set."""
        threading.Thread(target=self.run, args=(stop,), name="predictions", daemon=True).start()

    def run(self, stop: threading.Event) -> None:
        """Make predictions when a pass has seen new jobs; errors are logged, and the jobs tried again."""
        while not stop.is_set():
            if not self._wake.wait(0.2):
                continue
            self._wake.clear()
            if self._view is None:
                continue
            try:
                self.make(self._view)
            except ServiceUnavailableError as error:
                logger.debug("no predictions: %s", error)
            except Exception:
                logger.exception("no predictions")
                stop.wait(1.0)
            finally:
                self._view = None

    def make(self, view: LiveView) -> Sequence[SubmissionPrediction]:
        """Predict the view's new jobs, and record it.

        Raises ServiceUnavailableError when nothing can be predicted at present, OSError when the file cannot
        be written.
        """
        cluster = view.cluster
        new = [] if cluster is None else self._new(view, cluster)
        if cluster is None or not new:
            return []
        forecasts = self.forecaster.predict(view, [job.job_id for job in new])
        jobs = cluster.by_id
        waits_s = {} if self.other_starts is None else self.other_starts.waits_s(view)
        made = [
            submission_prediction_of(each, jobs[job_id], view, cluster.at_s, waits_s.get(job_id))
            for job_id, each in forecasts.items()
        ]
        self.predictions.add(made)
        if self.other_starts is not None:
            self.other_starts.told(made)
        self._tried = {job_id: tried for job_id, tried in self._tried.items() if job_id in jobs}
        for job in new:
            if job.job_id not in forecasts:
                self._tried[job.job_id] = (_state(job), cluster.at_s + AGAIN_S)
        return made

    def _new(self, view: LiveView, cluster: ClusterState) -> list[LiveJob]:
        """Return the jobs without a prediction that may be predicted."""
        left_alone = view.decision.left_alone if view.decision is not None else {}
        predictions, tried = self.predictions, self._tried
        return [
            job
            for job in cluster.jobs
            if job.gpus
            and predictions.of(job) is None
            and job.job_id not in left_alone
            and ((last := tried.get(job.job_id)) is None or last[0] != _state(job) or cluster.at_s >= last[1])
        ]


def _state(job: LiveJob) -> tuple[object, ...]:
    return job.waiting, job.partition, job.gpus, job.held, job.waits_for
