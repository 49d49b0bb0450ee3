"""The text beside a job: what was predicted at its submission, and when it is expected to start and end now.

    told 2026-11-21 12:00:05: ends 2026-11-21 16:10:31; starts about 14:05 (by 15:30), ends about 16:10
    told 2026-11-20 16:11:42: ends 2026-11-23 08:40:00; ends about Tue 09:00 (by Tue 17:00)

What was predicted then never changes (`submission_predictions.py`). Times are the daemon's local ones, as
Slurm shows them, rounded by how far away they are; they are written anew only when they have become wrong by
more than that, so that a cluster is not asked for a change too small to notice.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from live_scheduler.adapter import Advise
from live_scheduler.cluster_state import ClusterState, Kept, LiveJob
from live_scheduler.deciding.decision import Decision
from live_scheduler.forecast.completion_forecast import CompletionForecast, JobForecast
from live_scheduler.forecast.forecaster import Forecaster
from live_scheduler.forecast.submission_predictions import SubmissionPrediction
from live_scheduler.live_settings import LiveSettings, Mode
from live_scheduler.live_view import LiveView

MINUTE_S, HOUR_S, DAY_S = 60.0, 3_600.0, 86_400.0
# Up to so far away, times are rounded to so much.
_ROUNDED_TO: Sequence[tuple[float, float]] = (
    (HOUR_S, 5 * MINUTE_S),
    (6 * HOUR_S, 15 * MINUTE_S),
    (DAY_S, 30 * MINUTE_S),
    (7 * DAY_S, HOUR_S),
)
FAR_S = 7 * DAY_S  # beyond, the day is enough
# What is said stands until it is wrong by this share of the time that is left, or by two steps of rounding.
WRONG_BY = 0.25
# So many texts a pass: a slurmctld takes a millisecond or two for each.
TEXTS_PER_PASS = 200

PredictionAtSubmission = Callable[[LiveJob], SubmissionPrediction | None]


@dataclass(frozen=True, slots=True)
class Said:
    """What was predicted of a job: the text, and the times (Unix s) that it was made of."""

    text: str
    times: tuple[float, ...]


class Advisor:
    """A stage of the daemon, and one of its watchers: it asks for new texts, and learns which were refused.

    What a job shows is read from the cluster, so nothing is lost with the daemon, and what a rate limit put
    off is asked for again.
    """

    def __init__(
        self,
        settings: LiveSettings,
        forecasts: Forecaster,
        prediction_of: PredictionAtSubmission = lambda _: None,
    ) -> None:
        """`prediction_of` gives what was predicted of a job at its submission."""
        self._settings = settings
        self._forecasts = forecasts
        self._prediction_of = prediction_of
        self._shown: set[str] = set()  # jobs whose prediction was asked to be shown
        self._seen: CompletionForecast | None = None
        self._said: dict[str, Said] = {}
        self._wanted: dict[str, Said] = {}  # job -> what it is to show

    def changes(self, decision: Decision | None, cluster: ClusterState) -> list[Advise]:
        """Return the texts to write now: those of the last forecast that are not there yet, some a pass."""
        if self._settings.mode is Mode.OBSERVE:
            return []
        jobs = cluster.by_id
        for job_id in [job_id for job_id, said in self._wanted.items() if _done(jobs.get(job_id), said)]:
            said = self._wanted.pop(job_id)
            if job_id in jobs and said.text:
                self._said[job_id] = said
        forecast = self._forecasts.latest
        if forecast is not None and forecast is not self._seen:
            self._seen = forecast
            self._take_in(forecast, cluster)
        self._show_predictions(cluster)
        places = {} if decision is None else decision.places
        order = sorted(self._wanted, key=lambda job_id: places.get(job_id, 0))
        return [Advise(job_id, self._wanted[job_id].text) for job_id in order[:TEXTS_PER_PASS]]

    def passed(self, view: LiveView) -> None:
        """Do not ask again, before the next forecast, for what the cluster refused."""
        for refusal in view.refused:
            if isinstance(refusal.change, Advise):
                self._wanted.pop(refusal.change.job_id, None)

    def _show_predictions(self, cluster: ClusterState) -> None:
        """Have each prediction shown as soon as it is made, without waiting for the next forecast."""
        jobs = cluster.by_id
        self._shown &= jobs.keys()
        for job in cluster.jobs:
            if job.job_id in self._shown or (prediction := self._prediction_of(job)) is None:
                continue
            self._shown.add(job.job_id)
            if self._is_ours(job) and not job.advice.startswith(prediction.text):
                shown = self._said.get(job.job_id, Said("", ()))
                wanted = self._wanted.get(job.job_id, shown)
                self._wanted[job.job_id] = Said(_joined(prediction, wanted.text), wanted.times)

    def _take_in(self, forecast: CompletionForecast, cluster: ClusterState) -> None:
        """Find the jobs with a text that has become wrong."""
        self._wanted = {}
        self._shown.clear()
        self._said = {job_id: said for job_id, said in self._said.items() if job_id in cluster.by_id}
        for job in cluster.jobs:
            job_forecast = forecast.jobs.get(job.job_id)
            if job_forecast is None or job_forecast.runs is job.waiting or not self._is_ours(job):
                continue  # it has changed since: the next forecast knows it
            prediction = self._prediction_of(job)
            text = _joined(prediction, advice(job_forecast, forecast.at_s))
            if text == job.advice:
                continue
            times = _times(job_forecast)
            said = self._said.get(job.job_id)
            if (
                times
                and said is not None
                and said.text == job.advice
                and still_right(said.times, times, cluster.at_s)
            ):
                continue
            self._wanted[job.job_id] = Said(text, times)

    def _is_ours(self, job: LiveJob) -> bool:
        if job.hands_off or Kept.TEXT in job.kept:
            return False
        ordered = self._settings.partitions
        names = {*job.virtual_cluster.split(","), *job.partition.split(",")}
        return not ordered or not names.isdisjoint((*ordered, self._settings.profiling_partition))


def _joined(prediction: SubmissionPrediction | None, text: str) -> str:
    """Put what was predicted of a job before what is expected now."""
    if prediction is None or text.startswith(prediction.text):
        return text
    return f"{prediction.text}; {text}" if text else prediction.text


def advice(job_forecast: JobForecast, now_s: float) -> str:
    """Return the text for a job; empty when nothing can be predicted."""
    if job_forecast.end_p50_s is None or job_forecast.end_p90_s is None:
        return ""
    ends = _span("ends", job_forecast.end_p50_s, job_forecast.end_p90_s, now_s)
    if job_forecast.runs or job_forecast.start_p50_s is None or job_forecast.start_p90_s is None:
        return ends
    starts = _span("starts", job_forecast.start_p50_s, job_forecast.start_p90_s, now_s)
    return f"{starts}, ends about {clock_time(job_forecast.end_p50_s, now_s)}"


def still_right(shown_s: Sequence[float], times: Sequence[float], now_s: float) -> bool:
    """Whether times (Unix s) that are shown are near enough to what is expected now."""
    if len(shown_s) != len(times):
        return False
    for was_s, is_s in zip(shown_s, times, strict=True):
        left_s = max(0.0, is_s - now_s)
        if abs(was_s - is_s) > max(WRONG_BY * left_s, 2 * _step_s(left_s)):
            return False
    return True


def clock_time(at_s: float, now_s: float) -> str:
    """Return a time of day, with the day where it is not today; rounded up by how far away it is."""
    if at_s - now_s > FAR_S:
        return f"{datetime.fromtimestamp(at_s).astimezone():%Y-%m-%d}"
    now = datetime.fromtimestamp(now_s).astimezone()
    offset = now.utcoffset()
    shift_s = offset.total_seconds() if offset is not None else 0.0  # whole hours are local ones
    step_s = _step_s(at_s - now_s)
    at = datetime.fromtimestamp(-(-(at_s + shift_s) // step_s) * step_s - shift_s).astimezone()
    return f"{at:%H:%M}" if at.date() == now.date() else f"{at:%a %H:%M}"


def _span(what: str, p50_s: float, p90_s: float, now_s: float) -> str:
    about, by = clock_time(p50_s, now_s), clock_time(p90_s, now_s)
    return f"{what} about {about}" if about == by else f"{what} about {about} (by {by})"


def _step_s(left_s: float) -> float:
    return next((step_s for far_s, step_s in _ROUNDED_TO if left_s <= far_s), DAY_S)


def _times(job_forecast: JobForecast) -> tuple[float, ...]:
    """Return the times that a text is made of; those of a start are gone once it runs."""
    ends = (job_forecast.end_p50_s, job_forecast.end_p90_s)
    starts = () if job_forecast.runs else (job_forecast.start_p50_s, job_forecast.start_p90_s)
    return tuple(at_s for at_s in (*starts, *ends[: 2 if job_forecast.runs else 1]) if at_s is not None)


def _done(job: LiveJob | None, said: Said) -> bool:
    return job is None or job.advice == said.text
