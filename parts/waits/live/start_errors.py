"""How far the two ways to say when a job starts were off on jobs that started lately.

Both are asked at the same pass, the first that shows a job, and judged once the job has started: what they
said is on the disk by then (`submission_predictions.py`), so that nothing is known in hindsight.
"""

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean
from threading import Lock

from live_scheduler.forecast.submission_predictions import SubmissionPrediction
from live_scheduler.live_view import LiveView
from live_scheduler.memory.journal import JobEvent, JobEventKind

_MOST_KEPT = 100_000


@dataclass(frozen=True, slots=True)
class JudgedStart:
    """Of a job that started: how far off each was, |log10| of the wait said (and a second) by the wait there
    was. `policy` ordered the queue.
    """

    policy: str
    played_error: float
    learned_error: float


@dataclass(frozen=True, slots=True)
class MeanErrors:
    """Means over `jobs` jobs, in powers of ten."""

    jobs: int
    played: float
    learned: float


class StartErrors:
    """The last starts of which both had spoken, and those that both have spoken of and that are to come.

    The daemon's passes, the thread that predicts and the service's requests use it at once.
    """

    def __init__(self) -> None:
        self._recent: deque[JudgedStart] = deque(maxlen=_MOST_KEPT)
        self._to_come: dict[str, SubmissionPrediction] = {}
        self._lock = Lock()

    @classmethod
    def of_the_past(
        cls, predictions: Iterable[SubmissionPrediction], events: Iterable[JobEvent]
    ) -> "StartErrors":
        """What an earlier process of the daemon knew: its predictions, and the events of its journal."""
        errors = cls()
        # Of equal times what was said comes first: a job is told of before it starts.
        said = [(prediction.at_s, 0, place, prediction) for place, prediction in enumerate(predictions)]
        came = [(event.at_s, 1, place, event) for place, event in enumerate(events)]
        for _, _, _, one in sorted([*said, *came], key=lambda row: row[:3]):
            if isinstance(one, JobEvent):
                errors.happened(one)
            elif isinstance(one, SubmissionPrediction):
                errors.told([one])
        return errors

    def told(self, predictions: Iterable[SubmissionPrediction]) -> None:
        """Remember what was said of jobs that wait."""
        with self._lock:
            for prediction in predictions:
                if prediction.learned_start_s is not None:
                    self._to_come[prediction.job_id] = prediction
            while len(self._to_come) > _MOST_KEPT:
                del self._to_come[next(iter(self._to_come))]

    def happened(self, event: JobEvent) -> None:
        """Judge what was said of a job that started, or forget one that will not."""
        with self._lock:
            if event.kind is JobEventKind.STARTED:
                self._judge(event.job_id, event.at_s)
            elif event.kind is JobEventKind.WITHDRAWN:
                self._to_come.pop(event.job_id, None)

    def passed(self, view: LiveView) -> None:
        """Judge what was said of the jobs that a pass shows to have started."""
        jobs = {} if view.cluster is None else view.cluster.by_id
        with self._lock:
            for job_id in [job_id for job_id in self._to_come if job_id in jobs]:
                self._judge(job_id, jobs[job_id].start_time_s)
            for end in view.ended:
                self._judge(end.job.job_id, end.start_time_s)
                self._to_come.pop(end.job.job_id, None)

    def means(self, policy: str, recent_jobs: int) -> MeanErrors:
        """Over the last so many jobs that started while this policy ordered the queue."""
        with self._lock:
            judged = [one for one in self._recent if one.policy == policy][-recent_jobs:]
        if not judged:
            return MeanErrors(0, math.nan, math.nan)
        return MeanErrors(
            len(judged), fmean(one.played_error for one in judged), fmean(one.learned_error for one in judged)
        )

    def _judge(self, job_id: str, start_s: float | None) -> None:
        said = self._to_come.get(job_id)
        if start_s is None or said is None or said.learned_start_s is None:
            return
        del self._to_come[job_id]
        if start_s < said.at_s:
            return  # it had started before either spoke
        played, learned = (
            abs(math.log10((max(at_s - said.at_s, 0.0) + 1.0) / (start_s - said.at_s + 1.0)))
            for at_s in (said.start_s, said.learned_start_s)
        )
        self._recent.append(JudgedStart(said.policy, played, learned))
