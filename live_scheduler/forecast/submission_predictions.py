"""End times predicted at submission, in an append-only file: a prediction that users were told never changes.

    {"job_id": "4711", "submit_time_s": ..., "at_s": ..., "start_s": ..., "end_s": ..., "end_p90_s": ...,
     "virtual_cluster": "vc1", "gpus": 4, "release": "...", "version": 3, "policy": "pcs", "mode": "control",
     "text": "told 2026-11-21 12:00:05: ends 2026-11-21 16:10:31"}

A prediction is on the disk before it is shown, so it survives the daemon. A file that has grown large becomes
`promises.1.jsonl`, and a new one begins. A line that a crash cut off was never shown, and is left out.
"""

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import numpy as np

from live_scheduler.cluster_state import LiveJob
from live_scheduler.forecast.completion_forecast import Prediction
from live_scheduler.hindsight.decision_log import ROTATE_BYTES
from live_scheduler.live_settings import Mode
from live_scheduler.live_view import LiveView
from live_scheduler.memory.journal import JobEvent, JobEventKind
from live_scheduler.memory.records import append_lines, append_rotated, read_rotated

SUBMISSION_PREDICTIONS_FILE = "promises.jsonl"
# The policy of a prediction where this product does not order the queue.
CLUSTER = "cluster"
# A prediction made later than this after the submission does not count as one at submission.
LATE_S = 60.0
# Bounds the memory for jobs of which no end is ever reported.
_MOST_KEPT = 100_000
# Predictions older than this are not matched with ends.
LONGEST_S = 35 * 86_400.0


@dataclass(frozen=True, slots=True)
class SubmissionPrediction:
    """When a job ends, as predicted at `at_s`. Times are Unix seconds; `version` is the release's.
    `learned_start_s` is when another forecast (`OtherStarts`) said it starts (None: none was asked).

    `policy` orders the queue: the live one in the mode control, else "cluster". `text` is shown beside the
    job.
    """

    job_id: str
    submit_time_s: float
    at_s: float
    start_s: float
    end_s: float
    end_p90_s: float
    virtual_cluster: str
    gpus: int
    release: str
    version: int | None
    policy: str
    mode: str
    text: str
    learned_start_s: float | None = None

    @property
    def late(self) -> bool:
        """Whether it was made long after the submission: the job was held, or no daemon ran."""
        return self.at_s - self.submit_time_s > LATE_S

    @property
    def jct_s(self) -> float:
        """The predicted time from submission to completion, in seconds."""
        return self.end_s - self.submit_time_s

    def error_pct(self, end_s: float) -> float:
        """Pred_err (PCS, section 2): |predicted - true| / predicted JCT, in percent."""
        return 100.0 * abs(self.end_s - end_s) / max(self.jct_s, 1e-9)


def policy_of(view: LiveView) -> str:
    """Return the name of the order that predictions go by: this product's policy, or the cluster's own."""
    return view.settings.policy if view.settings.mode is Mode.CONTROL else CLUSTER


def submission_prediction_of(
    forecast: Prediction, job: LiveJob, view: LiveView, at_s: float, learned_wait_s: float | None = None
) -> SubmissionPrediction:
    """Return the record of a forecast for a job of the view, which was read at `at_s`.

    `learned_wait_s`: how much longer it waits by another forecast.
    """
    decision, mode = view.decision, view.settings.mode
    return SubmissionPrediction(
        job_id=job.job_id,
        submit_time_s=job.submit_time_s,
        at_s=at_s,
        start_s=forecast.start_s,
        end_s=forecast.end_s,
        end_p90_s=forecast.end_p90_s,
        virtual_cluster=job.virtual_cluster,
        gpus=job.gpus,
        release=decision.release if decision else view.release.release,
        version=decision.release_version if decision else view.release.version,
        policy=policy_of(view),
        mode=str(mode),
        text=f"told {_local(at_s)}: ends {_local(math.ceil(forecast.end_s))}",
        learned_start_s=None if learned_wait_s is None else at_s + learned_wait_s,
    )


class SubmissionPredictions:
    """The predictions for the jobs that wait or run. One thread adds; any thread may read."""

    def __init__(self, path: Path, *, rotate_bytes: int = ROTATE_BYTES) -> None:
        """Read the predictions that an earlier process made."""
        self.path = path
        self._rotate_bytes = rotate_bytes
        self._lock = Lock()
        self._by_job: dict[str, SubmissionPrediction] = {}
        for prediction in read_submission_predictions(path):
            self._keep(prediction)

    def of(self, job: LiveJob) -> SubmissionPrediction | None:
        """Return the prediction for a job; None: not made yet."""
        prediction = self._by_job.get(job.job_id)
        # A requeued job may have a new submission time; its first prediction stands.
        if prediction and (prediction.submit_time_s == job.submit_time_s or job.restarts):
            return prediction
        return None

    def add(self, predictions: Sequence[SubmissionPrediction]) -> None:
        """Append predictions to the file, then keep them. Raises OSError, and keeps none of them then."""
        lines = [_line(each) for each in predictions]
        if not lines:
            return
        with self._lock:
            rotated = append_rotated(self.path, lines, self._rotate_bytes)
            for each in predictions:
                self._keep(each)
            if rotated:
                append_lines(self.path, [_line(each) for each in self._by_job.values()])

    def settle(self, job: LiveJob) -> SubmissionPrediction | None:
        """Return the prediction for a job that has ended, and forget it: ids may come again."""
        with self._lock:
            return None if self.of(job) is None else self._by_job.pop(job.job_id)

    def _keep(self, prediction: SubmissionPrediction) -> None:
        self._by_job.pop(prediction.job_id, None)
        self._by_job[prediction.job_id] = prediction
        if len(self._by_job) > _MOST_KEPT:
            del self._by_job[next(iter(self._by_job))]


def read_submission_predictions(path: Path, since_s: float = -math.inf) -> Iterator[SubmissionPrediction]:
    """Iterate over the predictions made at or after `since_s` (Unix time); unreadable lines are left out."""
    return read_rotated(path, _submission_prediction, since_s)


def _line(prediction: SubmissionPrediction) -> str:
    return json.dumps(asdict(prediction), separators=(",", ":"), allow_nan=False)


def _submission_prediction(text: str) -> SubmissionPrediction:
    document = json.loads(text)
    columns = fields(SubmissionPrediction)
    names = [field.name for field in columns if field.name in document or field.default is MISSING]
    prediction = SubmissionPrediction(**{name: document[name] for name in names})
    times = (
        prediction.submit_time_s,
        prediction.at_s,
        prediction.start_s,
        prediction.end_s,
        prediction.end_p90_s,
        prediction.start_s if prediction.learned_start_s is None else prediction.learned_start_s,
    )
    if not all(math.isfinite(at_s) for at_s in times):
        raise ValueError("no time")
    return prediction


def _local(at_s: float) -> str:
    return f"{datetime.fromtimestamp(at_s).astimezone():%Y-%m-%d %H:%M:%S}"


@dataclass(frozen=True, slots=True)
class JudgedPrediction:
    """A prediction and when its job ended (Unix s)."""

    prediction: SubmissionPrediction
    end_s: float

    @property
    def error_pct(self) -> float:
        """Pred_err, in percent of the predicted JCT."""
        return self.prediction.error_pct(self.end_s)


@dataclass(frozen=True, slots=True)
class PredictionErrorSummary:
    """Pred_err over some jobs, in percent (average, median, 99th percentile by linear interpolation).

    `by_promise` and `by_p90` are the shares that had ended by the predicted end, and by the plays' 90th
    percentile. `late` counts predictions made long after the submission; they are not judged.
    """

    jobs: int
    mean_pct: float
    median_pct: float
    p99_pct: float
    by_promise: float
    by_p90: float
    late: int = 0


class Group(NamedTuple):
    """Which predictions: `virtual_cluster` is empty for all of them."""

    policy: str
    release_version: int | None
    virtual_cluster: str


def summarise_errors(kept: Iterable[JudgedPrediction]) -> PredictionErrorSummary | None:
    """Return the errors of the predictions made at submission; None without any."""
    every = list(kept)
    counted = [each for each in every if not each.prediction.late]
    if not counted:
        return None
    errors = np.array([each.error_pct for each in counted])
    return PredictionErrorSummary(
        len(counted),
        float(errors.mean()),
        float(np.median(errors)),
        float(np.percentile(errors, 99)),
        float(np.mean([each.end_s <= each.prediction.end_s for each in counted])),
        float(np.mean([each.end_s <= each.prediction.end_p90_s for each in counted])),
        len(every) - len(counted),
    )


def by_policy_and_release(
    kept: Iterable[JudgedPrediction], *, virtual_clusters: bool
) -> Iterator[tuple[Group, PredictionErrorSummary]]:
    """Yield errors by policy and release, and in each virtual cluster if asked."""
    groups: dict[tuple[str, int, str], list[JudgedPrediction]] = {}
    for each in kept:
        of = each.prediction
        key = (of.policy, of.version or 0, of.virtual_cluster if virtual_clusters else "")
        groups.setdefault(key, []).append(each)
    for (policy, version, virtual_cluster), group in sorted(groups.items()):
        errors = summarise_errors(group)
        if errors is not None:
            yield Group(policy, version or None, virtual_cluster), errors


def judged_predictions(
    path: Path, events: Iterable[JobEvent], start_s: float = -math.inf, end_s: float = math.inf
) -> list[JudgedPrediction]:
    """Return the predictions of a file whose jobs ended in [start_s, end_s), by the journal's events.

    In the order of the ends. A job that was stopped and queued again ends with its last run.
    """
    waiting: dict[str, list[SubmissionPrediction]] = {}
    for prediction in dict.fromkeys(read_submission_predictions(path, start_s - LONGEST_S)):
        waiting.setdefault(prediction.job_id, []).append(prediction)
    judged = []
    for event in sorted(events, key=lambda event: event.at_s):
        if event.kind is not JobEventKind.ENDED or event.job_id not in waiting:
            continue
        earlier = [each for each in waiting[event.job_id] if each.at_s <= event.at_s]
        if earlier:
            waiting[event.job_id] = [each for each in waiting[event.job_id] if each.at_s > event.at_s]
            if start_s <= event.at_s < end_s:
                judged.append(JudgedPrediction(earlier[-1], event.at_s))
    return judged
