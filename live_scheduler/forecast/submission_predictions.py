"""End times predicted at submission, in an append-only file: a prediction that users were told never changes.

    {"job_id": "4711", "submit_time_s": ..., "at_s": ..., "start_s": ..., "end_s": ..., "end_p90_s": ...,
     "virtual_cluster": "vc1", "gpus": 4, "release": "...", "version": 3, "policy": "pcs", "mode": "control",
     "text": "told 2026-11-21 12:00:05: ends 2026-11-21 16:10:31"}

A prediction is on the disk before it is shown, so it survives the daemon. A file that has grown large becomes
`promises.1.jsonl`, and a new one begins. A line that a crash cut off was never shown, and is left out.
"""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from datetime import datetime
from pathlib import Path
from threading import Lock

from live_scheduler.append_only import append_lines, append_rotated, read_rotated
from live_scheduler.cluster_state import LiveJob
from live_scheduler.forecast.prediction import Prediction
from live_scheduler.hindsight.decision_log import ROTATE_BYTES
from live_scheduler.live_settings import Mode
from live_scheduler.live_view import LiveView

SUBMISSION_PREDICTIONS_FILE = "promises.jsonl"
# The policy of a prediction where this product does not order the queue.
CLUSTER = "cluster"
# A prediction made later than this after the submission does not count as one at submission.
LATE_S = 60.0
# Bounds the memory for jobs of which no end is ever reported.
_MOST_KEPT = 100_000


@dataclass(frozen=True, slots=True)
class SubmissionPrediction:
    """When a job ends, as predicted at `at_s`. Times are Unix seconds; `version` is the release's.
    `learned_start_s` is when another forecast (`other_starts.py`) said it starts (None: none was asked).

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
    """Return whose order predictions are kept under: this product's policy, or the cluster's own."""
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
