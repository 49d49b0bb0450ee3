"""What users were told at submission, in a file that is only ever appended to: a promise is never changed.

    {"job_id": "4711", "submit_time_s": ..., "at_s": ..., "start_s": ..., "end_s": ..., "end_p90_s": ...,
     "virtual_cluster": "vc1", "gpus": 4, "release": "...", "version": 3, "policy": "pcs", "mode": "control",
     "text": "told 2026-11-21 12:00:05: ends 2026-11-21 16:10:31"}

A promise is on the disk before anybody hears of it, so whatever happens to the daemon, it stands. The file
that has grown large becomes `promises.1.jsonl`, and a new one begins. A line that a crash cut off was told to
nobody, and is left out.
"""

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from pathlib import Path
from threading import Lock

from live_scheduler.append_only import append_lines
from live_scheduler.cluster_state import LiveJob
from live_scheduler.forecast.prediction import Prediction
from live_scheduler.hindsight.decision_log import ROTATE_BYTES, older_file
from live_scheduler.live_settings import Mode
from live_scheduler.live_view import LiveView

PROMISES_FILE = "promises.jsonl"
# Whose order a promise goes by where this product does not order the queue.
CLUSTER = "cluster"
# A promise that was made so long after the submission says little about predictions at submission.
LATE_S = 60.0
# Promises to jobs whose end nobody ever heard of are forgotten beyond so many.
_MOST_KNOWN = 100_000


@dataclass(frozen=True, slots=True)
class Promise:
    """When a job ends, as told at `at_s`. Times are Unix seconds; `version` is the release's.

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

    @property
    def late(self) -> bool:
        """Whether it was made long after the submission: the job was held, or no daemon ran."""
        return self.at_s - self.submit_time_s > LATE_S

    @property
    def jct_s(self) -> float:
        """The promised time from submission to completion."""
        return self.end_s - self.submit_time_s

    def error_pct(self, end_s: float) -> float:
        """Pred_err (PCS, section 2): |promised - true| / promised JCT, in percent."""
        return 100.0 * abs(self.end_s - end_s) / max(self.jct_s, 1e-9)


def promise_of(found: Prediction, job: LiveJob, view: LiveView, at_s: float) -> Promise:
    """Make a promise of a prediction for a job of the view, which was read at `at_s`."""
    decision, mode = view.decision, view.settings.mode
    return Promise(
        job_id=job.job_id,
        submit_time_s=job.submit_time_s,
        at_s=at_s,
        start_s=found.start_s,
        end_s=found.end_s,
        end_p90_s=found.end_p90_s,
        virtual_cluster=job.virtual_cluster,
        gpus=job.gpus,
        release=decision.release if decision else view.release.release,
        version=decision.release_version if decision else view.release.version,
        policy=view.settings.policy if mode is Mode.CONTROL else CLUSTER,
        mode=str(mode),
        text=f"told {_local(at_s)}: ends {_local(math.ceil(found.end_s))}",
    )


class PromiseBook:
    """The promises to the jobs that wait or run. One thread adds to it; any may ask."""

    def __init__(self, path: Path, *, rotate_bytes: int = ROTATE_BYTES) -> None:
        """Take up what was promised before."""
        self.path = path
        self._rotate_bytes = rotate_bytes
        self._lock = Lock()
        self._known: dict[str, Promise] = {}
        for promise in read_promises(path):
            self._know(promise)

    def of(self, job: LiveJob) -> Promise | None:
        """Return what a job was promised; None: nothing yet."""
        found = self._known.get(job.job_id)
        # A job that was requeued may have a new submission, and keeps what it was told.
        return found if found and (found.submit_time_s == job.submit_time_s or job.restarts) else None

    def add(self, promises: Sequence[Promise]) -> None:
        """Write promises down for good, then know them. Raises OSError, and knows none of them then."""
        lines = [_line(each) for each in promises]
        if not lines:
            return
        with self._lock:
            size = append_lines(self.path, lines)
            for each in promises:
                self._know(each)
            if size > self._rotate_bytes:
                self.path.replace(older_file(self.path))
                append_lines(self.path, [_line(each) for each in self._known.values()])

    def settle(self, job: LiveJob) -> Promise | None:
        """Return what a job that has ended was promised, and forget it: ids may come again."""
        with self._lock:
            found = self.of(job)
            return None if found is None else self._known.pop(job.job_id)

    def _know(self, promise: Promise) -> None:
        self._known.pop(promise.job_id, None)
        self._known[promise.job_id] = promise
        if len(self._known) > _MOST_KNOWN:
            del self._known[next(iter(self._known))]


def read_promises(path: Path, since_s: float = -math.inf) -> Iterator[Promise]:
    """Iterate over the promises made at or after `since_s` (Unix time); what cannot be read is left out."""
    for file in (older_file(path), path):
        with suppress(FileNotFoundError), file.open(encoding="utf-8", errors="replace") as lines:
            for text in lines:
                promise = _promise(text)
                if promise is not None and promise.at_s >= since_s:
                    yield promise


def _line(promise: Promise) -> str:
    return json.dumps(asdict(promise), separators=(",", ":"), allow_nan=False)


def _promise(text: str) -> Promise | None:
    try:
        document = json.loads(text)
        promise = Promise(**{field.name: document[field.name] for field in fields(Promise)})
        times = (promise.submit_time_s, promise.at_s, promise.start_s, promise.end_s, promise.end_p90_s)
        return promise if all(math.isfinite(at_s) for at_s in times) else None
    except (ValueError, KeyError, TypeError):
        return None


def _local(at_s: float) -> str:
    return f"{datetime.fromtimestamp(at_s).astimezone():%Y-%m-%d %H:%M:%S}"
