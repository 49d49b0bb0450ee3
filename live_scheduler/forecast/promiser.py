"""Tells each job at the first pass that sees it when it will have ended, once (`promises.py`).

A pass only notes who is new; a thread of its own has the ends predicted in the forecasts' process and writes
them down. Jobs that nobody could predict yet (held, waiting for another) are promised something when they
can be.
"""

import logging
import threading
from collections import deque
from collections.abc import Sequence

from foundation.errors import ServiceUnavailableError
from live_scheduler.cluster_state import ClusterState, LiveJob
from live_scheduler.daemon import JOURNAL_FILE
from live_scheduler.forecast.forecaster import Forecaster
from live_scheduler.forecast.promise_quality import KeptPromise, kept_promises
from live_scheduler.forecast.promises import PROMISES_FILE, Promise, PromiseBook, promise_of
from live_scheduler.live_view import LiveView
from live_scheduler.memory.journal import Journal

logger = logging.getLogger("lucid.live")

# How predictions held lately is told of so many jobs, that ended no longer ago than this.
RECENT_JOBS = 2_000
RECENT_S = 7 * 86_400.0
# A job that could not be predicted is tried again when it has changed, and this often.
AGAIN_S = 60.0


class Promiser:
    """A watcher of the daemon. `book` are the promises, `recent` those whose jobs ended lately."""

    def __init__(self, forecaster: Forecaster) -> None:
        """Take up what an earlier process promised; nothing is started yet."""
        daemon = forecaster.daemon
        self.forecaster = forecaster
        self.book = PromiseBook(daemon.state_dir / PROMISES_FILE)
        self.recent: deque[KeptPromise] = deque(maxlen=RECENT_JOBS)
        since_s = daemon.view.at_s - RECENT_S
        events = Journal(daemon.state_dir / JOURNAL_FILE).read(since_s)
        self.recent.extend(kept_promises(self.book.path, events, since_s))
        self._tried: dict[str, tuple[object, float]] = {}  # what it was like, and when it may be tried again
        self._view: LiveView | None = None
        self._wake = threading.Event()

    def passed(self, view: LiveView) -> None:
        """Take in who ended, and have those predicted who are new."""
        for end in view.ended:
            promise = self.book.settle(end.job)
            if promise is not None and end.duration_s is not None:
                self.recent.append(KeptPromise(promise, end.end_time_s))
        # Jobs are told by the reading that showed them first; those of later ones have their turn.
        idle = self._view is None and view.cluster is not None and view.decision is not None
        if idle and view.cluster is not None and self._new(view, view.cluster):
            self._view = view
            self._wake.set()

    def start(self, stop: threading.Event) -> None:
        """Make promises in a thread, until told to end."""
        threading.Thread(target=self.run, args=(stop,), name="promises", daemon=True).start()

    def run(self, stop: threading.Event) -> None:
        """Make promises when a pass has seen new jobs; what goes wrong is logged, and tried again."""
        while not stop.is_set():
            if not self._wake.wait(0.2):
                continue
            self._wake.clear()
            if self._view is None:
                continue
            try:
                self.make(self._view)
            except ServiceUnavailableError as error:
                logger.debug("no promises: %s", error)
            except Exception:
                logger.exception("no promises")
                stop.wait(1.0)
            finally:
                self._view = None

    def make(self, view: LiveView) -> Sequence[Promise]:
        """Predict the view's new jobs, and write it down.

        Raises ServiceUnavailableError when nothing can be predicted at present, OSError when it cannot be
        written down.
        """
        cluster = view.cluster
        new = [] if cluster is None else self._new(view, cluster)
        if cluster is None or not new:
            return []
        found = self.forecaster.predict(view, [job.job_id for job in new])
        jobs = cluster.by_id
        made = [promise_of(each, jobs[job_id], view, cluster.at_s) for job_id, each in found.items()]
        self.book.add(made)
        self._tried = {job_id: tried for job_id, tried in self._tried.items() if job_id in jobs}
        for job in new:
            if job.job_id not in found:
                self._tried[job.job_id] = (_state(job), cluster.at_s + AGAIN_S)
        return made

    def _new(self, view: LiveView, cluster: ClusterState) -> list[LiveJob]:
        """Return the jobs without a promise that may be predicted."""
        alone = view.decision.left_alone if view.decision is not None else {}
        book, tried = self.book, self._tried
        return [
            job
            for job in cluster.jobs
            if job.gpus
            and book.of(job) is None
            and job.job_id not in alone
            and ((last := tried.get(job.job_id)) is None or last[0] != _state(job) or cluster.at_s >= last[1])
        ]


def _state(job: LiveJob) -> tuple[object, ...]:
    return job.waiting, job.partition, job.gpus, job.held, job.waits_for
