"""How long the jobs of a live queue go on waiting, by the wait model of the release that is followed."""

from collections.abc import Iterable, Mapping

from live_scheduler.cluster_state import ClusterState, LiveJob
from live_scheduler.daemon import JOURNAL_FILE, Daemon
from live_scheduler.forecast.completion_forecast import JobForecast
from live_scheduler.forecast.submission_predictions import (
    SUBMISSION_PREDICTIONS_FILE,
    SubmissionPrediction,
    policy_of,
    read_submission_predictions,
)
from live_scheduler.forecast.submission_predictor import RECENT_S, OtherStarts, StartOpinion
from live_scheduler.live_view import LiveView
from live_scheduler.memory.journal import Journal
from live_scheduler.release import LiveRelease
from parts.waits.live.recent_starts import RecentStarts, queue_facts
from parts.waits.live.settings import WaitAnswerSettings
from parts.waits.live.speaker import StartSpeaker
from parts.waits.live.start_errors import StartErrors
from parts.waits.model.answers import WaitForecast
from parts.waits.model.queue_moment import queue_of_jobs

_ASSUMES = (
    "Jobs go on starting as they did lately: the wait model learned from the queue, not from a policy.",
    "P50 and P90 of the end are those of the wait and of the run time, added.",
)
# An array waits as its tasks do, and a queue of so many of them tells as much as a longer one.
_MOST_TASKS = 1_000


class WaitForecasts(OtherStarts):
    """Forecasts of one daemon's queue, made anew for each reading that is asked about.

    `start_errors` keeps how far off they and playing forward were.
    """

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self._recent = RecentStarts()
        daemon.learn_from_events(self._recent)
        since_s = daemon.view.at_s - RECENT_S
        self.start_errors = StartErrors.of_the_past(
            read_submission_predictions(daemon.state_dir / SUBMISSION_PREDICTIONS_FILE, since_s),
            Journal(daemon.state_dir / JOURNAL_FILE).read(since_s),
        )
        self._made: tuple[ClusterState, LiveRelease, Mapping[str, WaitForecast]] | None = None

    @property
    def settings(self) -> WaitAnswerSettings | None:
        """How the release answers about waits; None: it has no wait model."""
        release = self.daemon.releases.current
        if not isinstance(release, LiveRelease) or "waits" not in release.manifest.parts:
            return None
        return WaitAnswerSettings.from_data(release.manifest.parts["waits"])

    def waits_s(self, view: LiveView) -> Mapping[str, float]:
        """Return the P50 of how long jobs go on waiting, by job."""
        return {job_id: forecast.p50_s for job_id, forecast in self.of(view).items()}

    def opinion(self, view: LiveView, job: LiveJob, played: JobForecast) -> StartOpinion | None:
        """Return what the wait model says of a job, and whether it or playing forward was off by less."""
        learned, settings = self.of(view).get(job.job_id), self.settings
        if learned is None or settings is None:
            return None
        errors = self.start_errors.means(policy_of(view), settings.recent_jobs)
        speaker = StartSpeaker.by_errors(view.settings.mode, errors, settings)
        if played.start_p50_s is None:
            speaker = StartSpeaker.alone(played.why)
        at_s = view.read_cluster().at_s
        return StartOpinion(
            at_s + learned.p50_s, at_s + learned.p90_s, speaker.said_by.value, speaker.why, _ASSUMES
        )

    def told(self, predictions: Iterable[SubmissionPrediction]) -> None:
        """Remember what both said of new jobs."""
        self.start_errors.told(predictions)

    def passed(self, view: LiveView) -> None:
        """Judge what was said of jobs that have started."""
        self.start_errors.passed(view)

    def of(self, view: LiveView) -> Mapping[str, WaitForecast]:
        """By the id of each job of the view that waits and may start; nothing without a wait model."""
        release, cluster = self.daemon.releases.current, view.cluster
        if (
            cluster is None
            or not isinstance(release, LiveRelease)
            or "waits" not in release.scorers.forecasts
        ):
            return {}
        made = self._made
        if made is None or made[0] is not cluster or made[1] is not release:
            self._made = made = (cluster, release, self._forecasts(cluster, release))
        return made[2]

    def _forecasts(self, cluster: ClusterState, release: LiveRelease) -> Mapping[str, WaitForecast]:
        scorer = release.scorers.forecasts["waits"]
        # As the job table that was learned from tells it: a job waits from when on it might start.
        jobs = [job for job in cluster.jobs if job.eligible for _ in range(min(job.tasks, _MOST_TASKS))]
        waiting = [
            queue_facts(job.facts() | {"ready_time_s": job.ready_time_s}) | {"priority": job.priority}
            for job in jobs
        ]
        with self.daemon.lock:
            started = self._recent.at(cluster.at_s)
        queue = queue_of_jobs(cluster.at_s, waiting, started)
        forecast_s = scorer.forecast(queue, queue.waiting["partition"].tolist())
        forecasts: dict[str, WaitForecast] = {}
        for row, place in enumerate(queue.waiting["job"].tolist()):
            job = jobs[place]
            # Of an array counts the task that starts first.
            forecast = WaitForecast(
                job.job_id, job.virtual_cluster, cluster.at_s - job.submit_time_s, *forecast_s[row].tolist()
            )
            earlier = forecasts.get(job.job_id, forecast)
            forecasts[job.job_id] = min(earlier, forecast, key=lambda one: one.p50_s)
        return forecasts
