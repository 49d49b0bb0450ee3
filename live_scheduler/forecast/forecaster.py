"""The daemon's forecasts: made in another process, now and then or on request, and kept."""

import logging
import math
import threading
from collections.abc import Mapping, Sequence

from foundation.errors import BadInputError, ServiceUnavailableError
from live_scheduler.cluster_state import ClusterState, LiveJob
from live_scheduler.daemon import Daemon
from live_scheduler.deciding.live_policies import believed_pairs
from live_scheduler.deciding.live_pools import with_profile_facts
from live_scheduler.forecast.completion_forecast import CompletionForecast, Prediction
from live_scheduler.forecast.forecast_inputs import ForecastInputs, RunTime
from live_scheduler.forecast.forecast_process import ForecastProcess
from live_scheduler.live_settings import Mode
from live_scheduler.live_view import LiveView
from live_scheduler.release import LiveRelease
from simulator.workload.job import JobProfile

logger = logging.getLogger("lucid.live")

# So many jobs are estimated at once under the daemon's lock: some milliseconds.
ESTIMATED_AT_ONCE = 100
# Whoever asks gets a forecast that is at most so old, or the one before the next that is due.
FRESH_S = 30.0
# After the start; doubled while there is nothing to make one of.
FIRST_AFTER_S = 1.0


class Forecaster:
    """Forecasts of one daemon's cluster. `latest` is the last one, swapped in one step."""

    def __init__(self, daemon: Daemon, process: ForecastProcess | None = None) -> None:
        """Nothing is started yet."""
        self.daemon = daemon
        self.process = process or ForecastProcess()
        self.latest: CompletionForecast | None = None
        self._making = threading.RLock()

    def start(self, stop: threading.Event) -> None:
        """Where texts are written beside jobs, make a forecast now and then, in a thread, until `stop`."""
        if self.daemon.settings.mode is not Mode.OBSERVE:
            threading.Thread(target=self.run, args=(stop,), name="forecasts", daemon=True).start()

    def run(self, stop: threading.Event) -> None:
        """Make a forecast every `advise_interval_s`, until `stop` is set; what goes wrong is logged."""
        interval_s = self.daemon.settings.advise_interval_s
        pause_s = min(FIRST_AFTER_S, interval_s)
        while not stop.wait(pause_s):
            try:
                self.make(self.daemon.view)
                pause_s = interval_s
            except ServiceUnavailableError as error:
                logger.debug("no forecast: %s", error)
                pause_s = min(2 * pause_s, interval_s)
            except Exception:
                logger.exception("no forecast")
                pause_s = interval_s

    def close(self) -> None:
        """End the process."""
        self.process.close()

    def make(self, view: LiveView) -> CompletionForecast:
        """Play the view's cluster forward, and keep the result.

        Raises ServiceUnavailableError before there is a cluster and a release to do it with, and when the
        playing fails.
        """
        with self._making:
            self.latest = forecast = self.process.forecast(self.inputs(view))
        return forecast

    def fresh(self, view: LiveView, job_id: str) -> CompletionForecast:
        """Return the last forecast if it is still good for a job, else make one; raises as `make`."""
        forecast = self._good_for(view, job_id)
        if forecast is None:
            with self._making:  # another thread may be making the one that is wanted
                forecast = self._good_for(view, job_id) or self.make(view)
        return forecast

    def _good_for(self, view: LiveView, job_id: str) -> CompletionForecast | None:
        """Return the last forecast if it is young enough, and knows the job as it is."""
        latest, settings = self.latest, view.settings
        job = None if view.cluster is None else view.cluster.by_id.get(job_id)
        if latest is None or job is None:
            return None
        job_forecast = latest.jobs.get(job_id)
        oldest_s = FRESH_S
        if settings.mode is not Mode.OBSERVE:  # the next one comes by itself
            oldest_s = max(FRESH_S, 1.5 * settings.advise_interval_s)
        young = view.at_s - latest.at_s <= oldest_s
        return latest if young and job_forecast is not None and job_forecast.runs is not job.waiting else None

    def predict(self, view: LiveView, new: Sequence[str]) -> dict[str, Prediction]:
        """Predict the ends of the view's new jobs, each as if no job came after it; raises as `make`."""
        return self.process.predict(self.inputs(view), new)

    def run_time(self, job: LiveJob, at_s: float) -> RunTime | None:
        """What is believed of one job's run time at `at_s` (Unix s), up to its limit; None: nothing."""
        with self.daemon.lock:
            if self.daemon.online is None:
                return None
            quantiles = self.daemon.online.quantiles([job.facts()], at_s)
        most_s = math.inf if job.time_limit_s is None else max(job.time_limit_s, 1.0)
        p50_s, p90_s = (min(float(values[0]), most_s) for values in quantiles)
        try:
            return RunTime(p50_s, p90_s)
        except BadInputError:
            return None

    def inputs(self, view: LiveView) -> ForecastInputs:
        """Return everything that a forecast of the view's cluster is made of; raises as `make`."""
        cluster = view.read_cluster()
        release = self.daemon.releases.current
        if not isinstance(release, LiveRelease):
            raise ServiceUnavailableError(
                f"Nothing is believed of run times without a release: {release.why}",
                remedy="Publish a release for this cluster.",
            )
        profiles = self._profiles(cluster)
        return ForecastInputs(
            cluster=cluster,
            run_times=self._run_times(cluster, profiles),
            settings=view.settings,
            release=release.describe(),
            profiles=profiles,
            believed_pairs=believed_pairs(release.scorers.packing),
        )

    def _profiles(self, cluster: ClusterState) -> dict[str, JobProfile]:
        with self.daemon.lock:
            maker = self.daemon.maker
            views = {} if maker is None else maker.pools.views
            return {
                job.job_id: seen.job.profile
                for job in cluster.jobs
                if (seen := views.get(job.job_id)) is not None and seen.job.profile is not None
            }

    def _run_times(self, cluster: ClusterState, profiles: Mapping[str, JobProfile]) -> dict[str, RunTime]:
        """Estimate all jobs, a few at a time: a pass that needs the models waits for milliseconds."""
        run_times: dict[str, RunTime] = {}
        for start in range(0, len(cluster.jobs), ESTIMATED_AT_ONCE):
            jobs = cluster.jobs[start : start + ESTIMATED_AT_ONCE]
            with self.daemon.lock:
                online = self.daemon.online
                if online is None:
                    raise ServiceUnavailableError("The release is not followed yet.", remedy="Ask again.")
                p50_s, p90_s = online.quantiles([_facts(job, profiles) for job in jobs], cluster.at_s)
            for job, median_s, late_s in zip(jobs, p50_s.tolist(), p90_s.tolist(), strict=True):
                try:
                    run_times[job.job_id] = RunTime(median_s, late_s)
                except BadInputError:  # it is not predicted, and the forecast says so
                    logger.debug("job %s is estimated at %s s (P90 %s s)", job.job_id, median_s, late_s)
        return run_times


def _facts(job: LiveJob, profiles: Mapping[str, JobProfile]) -> dict[str, object]:
    return with_profile_facts(job.facts(), profiles.get(job.job_id))
