"""What the service does, whichever way it is asked: one method an operation, on messages of the schema."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from foundation.errors import LucidError, ServiceUnavailableError
from live_scheduler.capability import Route
from live_scheduler.cluster_state import LiveJob
from live_scheduler.daemon import Daemon
from live_scheduler.deciding.live_pools import with_profile_facts
from live_scheduler.forecast.submission_predictions import JudgedPrediction
from live_scheduler.forecast.submission_predictor import SubmissionPredictor
from live_scheduler.hindsight.decision_log import DecisionLog, FirstSight
from live_scheduler.hindsight.regret_job import RegretReport, read_regret_report
from live_scheduler.live_view import LiveView
from live_scheduler.safety.heartbeat import HEARTBEAT_FILE, Moment, read_heartbeat
from live_scheduler.service import answers, live_messages, schema
from live_scheduler.service.job_account import explanation_of, first_sight_in_words
from live_scheduler.service.problems import NotServedHereError
from live_scheduler.service.stateless_decision import decide_once

# A pass holds the lock for milliseconds; a caller that waits longer than this gets an error.
MODELS_WITHIN_S = 3.0
Forecast = Callable[[LiveView, str], schema.Expectation]


class Operations:
    """A daemon that reads its own cluster, to be asked from any thread at any time.

    Reading `view` never waits. Answers that need the models, which a pass may be using, wait for it no longer
    than a few seconds and raise ServiceUnavailableError then, or before there is anything to answer from.
    Nothing here may delay or break a pass: at most one request at a time computes with models, so that many
    of them leave the daemon its share of the processor.
    """

    def __init__(
        self,
        daemon: Daemon,
        forecast: Forecast | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`forecast` plays the cluster forward (None: nothing does); ages are by `clock` (Unix time)."""
        self.daemon = daemon
        self._forecast, self._clock = forecast, clock
        self._computing = threading.Lock()

    @property
    def view(self) -> LiveView:
        """What the last pass left."""
        return self.daemon.view

    # What it does

    def status(self) -> schema.Status:
        """Return how the live scheduler is."""
        return answers.status_of(
            self.view,
            self._clock(),
            self.heartbeat_age_s(),
            self.regret_report(),
            self.judged_predictions(),
        )

    def queue(self, query: schema.QueueQuery) -> schema.QueueAnswer:
        """Return the queues in the order of the last decision."""
        return answers.queue_of(self.view, query.pool)

    def explain(self, query: schema.JobQuery) -> schema.Explanation:
        """Say why a job stands where it stands."""
        view = self.view
        job = answers.find_job(view.read_cluster(), query.job_id)
        estimate: tuple[float, str] | None = None
        more: list[str] = []
        try:
            estimate = self.estimate_reason(job)
        except LucidError as error:  # the place is known all the same
            more.append(f"The estimate's account is not to be had now: {error}")
        first_sight = self.first_sight(job.job_id)
        if first_sight is not None and first_sight.submit_time_s == job.submit_time_s:
            more.append(first_sight_in_words(first_sight))
        answer = explanation_of(view, query.job_id, estimate)
        return answer.with_changes(sentences=(*answer.sentences, *more))

    def when(self, query: schema.JobQuery) -> schema.Expectation:
        """Return when a job is expected to start and to end; raises NotFoundError, NotServedHereError."""
        job = answers.find_job(self.view.read_cluster(), query.job_id)
        if self._forecast is None:
            raise NotServedHereError(
                "This cluster is not played forward.", remedy="Ask for its place: `lucid live explain`."
            )
        with self.computing():
            return self._forecast(self.view, job.job_id)

    def decide(self, state: schema.ClusterState) -> schema.Decision:
        """Order a pushed cluster by the present release as it was trained, and remember nothing."""
        cluster = live_messages.live_cluster(state)
        with self.computing():
            decision = decide_once(cluster, self.daemon.releases.current, self.daemon.settings)
        return live_messages.decision_message(decision)

    def ask_part(self, route: Route, query: object) -> schema.Message:
        """Return what a part answers to a question of its own, and remember nothing."""
        with self.computing():
            return route.ask(query, self.daemon.releases.current)

    def schedule(self, state: schema.ClusterState) -> schema.Decision:
        """Take a pushed cluster in, and decide: the control path. Raises NotServedHereError here."""
        raise self._reads_itself("Push for one decision to Decide (POST /v1/decide).")

    def report_ends(self, ended: schema.EndedJobs) -> schema.EndsTaken:
        """Learn from jobs that ended. Raises NotServedHereError here."""
        raise self._reads_itself("Its accounting says what became of jobs.")

    # What is known

    def heartbeat_age_s(self) -> float | None:
        """Return how long ago the daemon last said that it is well (s); None: it gives no heartbeat."""
        beat = read_heartbeat(self.daemon.state_dir / HEARTBEAT_FILE)
        if beat is None or beat.left:
            return None
        age_s = beat.age_s(Moment.now())
        return age_s if age_s < 1e12 else None

    def trouble(self) -> str | None:
        """Return what is wrong at present; None: all is well."""
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
        """Return what was believed of a job when it was first ranked; None: it never was."""
        logs = (watcher for watcher in self.daemon.watchers if isinstance(watcher, DecisionLog))
        return next((log.first_sight(job_id) for log in logs), None)

    def regret_report(self) -> RegretReport | None:
        """Return the last regret report; None: there was none yet."""
        return read_regret_report(self.daemon.state_dir)

    def judged_predictions(self) -> Sequence[JudgedPrediction]:
        """Return the jobs that ended lately and whose end had been predicted."""
        makers = (watcher for watcher in self.daemon.watchers if isinstance(watcher, SubmissionPredictor))
        return next((tuple(maker.recent) for maker in makers), ())

    def estimate_reason(self, job: LiveJob) -> tuple[float, str] | None:
        """Return the present estimate of a job's run time (s) with its account in words; None: no release."""
        with self.models():
            online, maker = self.daemon.online, self.daemon.maker
            if online is None or maker is None:
                return None
            seen = maker.pools.views.get(job.job_id)
            facts = with_profile_facts(job.facts(), seen.job.profile if seen else None)
            view = self.view
            estimate = online.estimate(facts, view.decision.at_s if view.decision else view.at_s)
        return estimate.p50_s, estimate.reason

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
