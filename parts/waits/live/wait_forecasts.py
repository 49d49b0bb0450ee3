"""How long the jobs of a live queue go on waiting, by the wait model of the release that is followed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from live_scheduler.cluster_state import ClusterState, LiveJob
from live_scheduler.daemon import JOURNAL_FILE, Daemon
from live_scheduler.forecast.completion_forecast import JobForecast
from live_scheduler.forecast.submission_predictions import (
    SUBMISSION_PREDICTIONS_FILE,
    SubmissionPrediction,
    policy_of,
    read_submission_predictions,
)
from live_scheduler.forecast.submission_predictor import PLAY_FORWARD as PLAYED
from live_scheduler.forecast.submission_predictor import RECENT_S, OtherStarts, StartOpinion
from live_scheduler.live_settings import Mode
from live_scheduler.live_view import LiveView
from live_scheduler.memory.journal import JobEvent, JobEventKind, Journal
from live_scheduler.release import LiveRelease
from lucid_models.amounts import counted
from parts.waits.live.settings import WaitAnswerSettings
from parts.waits.live.start_errors import MeanErrors, StartErrors
from parts.waits.model.answers import WaitForecast
from parts.waits.model.queue_moment import HISTORY_S, queue_of_jobs


class RecentStarts:
    """A learner of the daemon (`Daemon.learners`); its callers hold the daemon's lock."""

    def __init__(self) -> None:
        self._jobs: dict[str, dict[str, Any]] = {}

    def observe(self, event: JobEvent) -> None:
        """Take in what happened to a job; what is known already changes nothing."""
        if event.kind is JobEventKind.STARTED:
            self._jobs[event.job_id] = queue_facts(event.facts) | {"start_s": event.at_s, "end_s": None}
        elif event.kind is JobEventKind.ENDED and event.duration_s is not None:
            job = self._jobs.get(event.job_id) or queue_facts(event.facts)
            times = {"start_s": event.at_s - event.duration_s, "end_s": event.at_s}
            self._jobs[event.job_id] = job | times  # a caller that was given the other goes on reading it
        elif event.kind in (JobEventKind.REQUEUED, JobEventKind.WITHDRAWN):
            self._jobs.pop(event.job_id, None)

    def at(self, now_s: float) -> list[dict[str, Any]]:
        """The jobs that started by `now_s` (Unix s) and tell of waits then, as `queue_of_jobs` takes them."""
        since_s = now_s - HISTORY_S
        self._jobs = {
            job_id: job
            for job_id, job in self._jobs.items()
            if job["start_s"] > since_s or job["end_s"] is None or job["end_s"] > now_s
        }
        return [
            job if job["end_s"] is None or job["end_s"] <= now_s else {**job, "end_s": None}
            for job in self._jobs.values()
            if job["start_s"] <= now_s
        ]


def queue_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """A live job's facts (`LiveJob.facts`, and `ready_time_s` where that is not its submission) under the
    names of a queue's log, as a job table has them.
    """
    return {
        "submit_s": facts.get("ready_time_s", facts["submit_time_s"]),
        "partition": facts.get("virtual_cluster"),
        "account": facts.get("account") or facts.get("user"),
        "cpus": facts.get("cpus"),
        "gpus": facts.get("gpus"),
        "limit_s": facts.get("time_limit_s"),
    }


class SaidBy(StrEnum):
    """The two ways to say when a job starts."""

    PLAY_FORWARD = PLAYED
    WAIT_MODEL = "wait_model"


_WORDS = {SaidBy.PLAY_FORWARD: "playing the queue forward", SaidBy.WAIT_MODEL: "the learned wait model"}


@dataclass(frozen=True)
class StartSpeaker:
    """The one that speaks, and why, in a sentence."""

    said_by: SaidBy
    why: str

    @classmethod
    def by_errors(cls, mode: Mode, errors: MeanErrors, settings: WaitAnswerSettings) -> "StartSpeaker":
        """The one that was off by less; where too few jobs tell, playing forward speaks while this product
        orders the queue, and the wait model where a site's own policy does, which no play knows.
        """
        if errors.jobs >= settings.least_jobs:
            better = SaidBy.WAIT_MODEL if errors.learned < errors.played else SaidBy.PLAY_FORWARD
            return cls(
                better,
                f"Said by {_WORDS[better]}: of the last {counted(errors.jobs, 'job')} that started, the wait "
                f"model was off by a factor of {10**errors.learned:.2g} on average, and playing forward by "
                f"{10**errors.played:.2g}.",
            )
        controls = mode is Mode.CONTROL
        first = SaidBy.PLAY_FORWARD if controls else SaidBy.WAIT_MODEL
        why = "its policy is known" if controls else "the cluster's own policy is not known"
        return cls(
            first,
            f"Said by {_WORDS[first]}, since {why}; once {settings.least_jobs} jobs have started that both "
            f"spoke of ({errors.jobs} so far), the one that was off by less speaks.",
        )

    @classmethod
    def alone(cls, why_not_played: str) -> "StartSpeaker":
        """The wait model, of a job that cannot be played."""
        return cls(
            SaidBy.WAIT_MODEL,
            f"Said by {_WORDS[SaidBy.WAIT_MODEL]}: it cannot be played forward, for {why_not_played}.",
        )


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
