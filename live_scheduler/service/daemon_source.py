"""The daemon as the service asks it: its view without waiting, its models under its lock, and briefly."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from foundation.errors import ServiceUnavailableError
from live_scheduler.cluster_state import ClusterState, EndedJob, LiveJob
from live_scheduler.daemon import Daemon
from live_scheduler.deciding.decision import Decision
from live_scheduler.deciding.live_pools import with_profile_facts
from live_scheduler.forecast.prediction_quality import JudgedPrediction
from live_scheduler.forecast.submission_predictor import SubmissionPredictor
from live_scheduler.hindsight.decision_log import DecisionLog, FirstSight
from live_scheduler.hindsight.regret_job import RegretReport, read_regret_report
from live_scheduler.live_view import LiveView
from live_scheduler.safety.heartbeat import HEARTBEAT_FILE, Moment, read_heartbeat
from live_scheduler.service.loan_answers import plan_loans_once
from live_scheduler.service.problems import NotServedHereError
from live_scheduler.service.schema import Expectation, LoanAnswer, LoanQuery
from live_scheduler.service.stateless_decision import decide_once

# A pass holds the lock for milliseconds; whoever waits longer than this says so instead.
MODELS_WITHIN_S = 3.0
Forecast = Callable[[LiveView, str], Expectation]


class DaemonSource:
    """A `LiveSource` over a daemon that reads its own cluster.

    `forecast` plays the cluster forward (None: nothing does). At most one request at a time computes with
    models, so that many of them leave the daemon its share of the processor.
    """

    def __init__(self, daemon: Daemon, forecast: Forecast | None = None) -> None:
        self.daemon = daemon
        self._forecast = forecast
        self._computing = threading.Lock()

    @property
    def view(self) -> LiveView:
        """What the last pass left."""
        return self.daemon.view

    def heartbeat_age_s(self) -> float | None:
        """Return how long ago the daemon last said that it is well (s)."""
        beat = read_heartbeat(self.daemon.state_dir / HEARTBEAT_FILE)
        if beat is None or beat.left:
            return None
        age_s = beat.age_s(Moment.now())
        return age_s if age_s < 1e12 else None

    def trouble(self) -> str | None:
        """Return what is wrong at present."""
        view = self.view
        if view.problem is not None:
            return view.problem
        if view.cluster is None:
            return "The first pass is not over yet."
        age_s = self.heartbeat_age_s()
        if age_s is not None and age_s > view.settings.dead_after_s:
            return f"The last heartbeat is {age_s:.0f} s old."
        return view.decision.problem if view.decision else None

    def first_sight(self, job_id: str) -> FirstSight | None:
        """Return what the decision log told of a job first, if there is a log."""
        logs = (watcher for watcher in self.daemon.watchers if isinstance(watcher, DecisionLog))
        return next((log.first_sight(job_id) for log in logs), None)

    def regret_report(self) -> RegretReport | None:
        """Return the last regret report."""
        return read_regret_report(self.daemon.state_dir)

    def judged_predictions(self) -> Sequence[JudgedPrediction]:
        """Return the jobs that ended lately and had been told when they would."""
        makers = (watcher for watcher in self.daemon.watchers if isinstance(watcher, SubmissionPredictor))
        return next((tuple(maker.recent) for maker in makers), ())

    def estimate_reason(self, job: LiveJob) -> tuple[float, str] | None:
        """Return the present estimate of a job's run time (s) with its account in words."""
        with self.models():
            online, maker = self.daemon.online, self.daemon.maker
            if online is None or maker is None:
                return None
            seen = maker.pools.views.get(job.job_id)
            facts = with_profile_facts(job.facts(), seen.job.profile if seen else None)
            view = self.view
            found = online.estimate(facts, view.decision.at_s if view.decision else view.at_s)
        return found.p50_s, found.reason

    def expect(self, job_id: str) -> Expectation:
        """Return when a job is expected to start and end."""
        if self._forecast is None:
            raise NotServedHereError(
                "This cluster is not played forward.", remedy="Ask for its place: `lucid live explain`."
            )
        with self.computing():
            return self._forecast(self.view, job_id)

    def decide(self, cluster: ClusterState) -> Decision:
        """Order a cluster by the present release as it was trained, and remember nothing."""
        with self.computing():
            return decide_once(cluster, self.daemon.releases.current, self.daemon.settings)

    def plan_loans(self, query: LoanQuery) -> LoanAnswer:
        """Say which servers to lend and which to take back, and remember nothing."""
        with self.computing():
            return plan_loans_once(query, self.daemon.releases.current)

    def schedule(self, cluster: ClusterState) -> Decision:
        """Refuse: this daemon reads its cluster itself."""
        raise self._reads_itself("Push for one decision to Decide (POST /v1/decide).")

    def report_ends(self, ended: Sequence[EndedJob]) -> int:
        """Refuse: accounting says what became of jobs."""
        raise self._reads_itself("Its accounting says what became of jobs.")

    @contextmanager
    def models(self) -> Iterator[None]:
        """Hold the daemon's lock for a moment; raises ServiceUnavailableError when a pass keeps it."""
        if not self.daemon.lock.acquire(timeout=MODELS_WITHIN_S):
            raise ServiceUnavailableError("The models are busy with a pass.", remedy="Ask again.")
        try:
            yield
        finally:
            self.daemon.lock.release()

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Be the only one that computes; raises ServiceUnavailableError when another does for long."""
        if not self._computing.acquire(timeout=10 * MODELS_WITHIN_S):
            raise ServiceUnavailableError("Others are being answered.", remedy="Ask again in a moment.")
        try:
            yield
        finally:
            self._computing.release()

    def _reads_itself(self, remedy: str) -> NotServedHereError:
        return NotServedHereError(
            f"The daemon of {self.daemon.settings.cluster} reads its cluster itself.", remedy=remedy
        )
