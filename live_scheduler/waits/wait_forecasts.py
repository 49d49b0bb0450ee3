"""How long the jobs of a live queue go on waiting, by the wait model of the release that is followed."""

from collections.abc import Mapping

from live_scheduler.cluster_state import ClusterState
from live_scheduler.daemon import Daemon
from live_scheduler.live_view import LiveView
from live_scheduler.release import LiveRelease
from live_scheduler.waits.recent_starts import RecentStarts, queue_facts
from live_scheduler.waits.settings import WaitAnswerSettings
from lucid_models.waits.answers import WaitForecast
from lucid_models.waits.queue_moment import queue_of_jobs

# An array waits as its tasks do, and a queue of so many of them tells as much as a longer one.
_MOST_TASKS = 1_000


class WaitForecasts:
    """Forecasts of one daemon's queue, made anew for each reading that is asked about."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self._recent = RecentStarts()
        daemon.learn_from_events(self._recent)
        self._made: tuple[ClusterState, LiveRelease, Mapping[str, WaitForecast]] | None = None

    @property
    def settings(self) -> WaitAnswerSettings | None:
        """How the release answers about waits; None: it has no wait model."""
        release = self.daemon.releases.current
        if not isinstance(release, LiveRelease) or release.manifest.waits is None:
            return None
        return WaitAnswerSettings.from_data(release.manifest.waits)

    def of(self, view: LiveView) -> Mapping[str, WaitForecast]:
        """By the id of each job of the view that waits and may start; nothing without a wait model."""
        release, cluster = self.daemon.releases.current, view.cluster
        if cluster is None or not isinstance(release, LiveRelease) or release.scorers.waits is None:
            return {}
        made = self._made
        if made is None or made[0] is not cluster or made[1] is not release:
            self._made = made = (cluster, release, self._forecasts(cluster, release))
        return made[2]

    def _forecasts(self, cluster: ClusterState, release: LiveRelease) -> Mapping[str, WaitForecast]:
        scorer = release.scorers.waits
        assert scorer is not None  # noqa: S101
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
