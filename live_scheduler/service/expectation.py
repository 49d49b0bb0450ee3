"""When a job is expected to start and to end, as the service says it, beside what it was told before."""

from collections.abc import Iterator

from foundation.human_times import human_duration
from live_scheduler.cluster_state import LiveJob
from live_scheduler.forecast.advice import clock_time
from live_scheduler.forecast.completion_forecast import JobForecast
from live_scheduler.forecast.forecaster import Forecaster
from live_scheduler.forecast.prediction_quality import summarise_errors
from live_scheduler.forecast.submission_predictions import CLUSTER
from live_scheduler.forecast.submission_predictor import SubmissionPredictor
from live_scheduler.live_settings import Mode
from live_scheduler.live_view import LiveView
from live_scheduler.service.answers import cluster_of, errors_message, find_job, moment
from live_scheduler.service.schema import Expectation, PredictionErrors
from lucid_models.amounts import counted


class ExpectedTimes:
    """Answers from a forecast that is fresh, or made now (`daemon_source.Forecast`)."""

    def __init__(
        self, forecaster: Forecaster, submission_predictor: SubmissionPredictor | None = None
    ) -> None:
        self.forecaster = forecaster
        self.submission_predictor = submission_predictor

    def __call__(self, view: LiveView, job_id: str) -> Expectation:
        """Return when a job of the view starts and ends; raises NotFoundError, ServiceUnavailableError."""
        job = find_job(cluster_of(view), job_id)
        forecast = self.forecaster.fresh(view, job.job_id)
        forecast_of_job = forecast.of(job.job_id)
        at_submission = (
            None if self.submission_predictor is None else self.submission_predictor.predictions.of(job)
        )
        answer = Expectation(
            job_id=job.job_id,
            at_s=forecast.at_s,
            sentence=sentence(forecast_of_job, forecast.at_s),
            start_p50_s=forecast_of_job.start_p50_s,
            start_p90_s=forecast_of_job.start_p90_s,
            end_p50_s=forecast_of_job.end_p50_s,
            end_p90_s=forecast_of_job.end_p90_s,
            assumptions=forecast.assumptions,
            predicted_start_s=forecast_of_job.predicted_start_s,
            predicted_end_s=forecast_of_job.predicted_end_s,
            told_end_s=at_submission.end_s if at_submission else None,
            told_end_p90_s=at_submission.end_p90_s if at_submission else None,
            told_at_s=at_submission.at_s if at_submission else None,
            held=self._held(view, job),
        )
        policy = view.settings.policy if view.settings.mode is Mode.CONTROL else "the cluster's own order"
        return answer.model_copy(update={"remarks": tuple(remarks(answer, policy))})

    def _held(self, view: LiveView, job: LiveJob) -> PredictionErrors | None:
        """Say how such predictions held lately: in the job's virtual cluster, else anywhere."""
        if self.submission_predictor is None:
            return None
        policy = view.settings.policy if view.settings.mode is Mode.CONTROL else CLUSTER
        kept = [each for each in tuple(self.submission_predictor.recent) if each.prediction.policy == policy]
        here = [each for each in kept if each.prediction.virtual_cluster == job.virtual_cluster]
        for name, group in ((job.virtual_cluster, here), ("", kept)):
            errors = summarise_errors(group)
            if errors is not None:
                return errors_message(errors, policy, None, name)
        return None


def sentence(found: JobForecast, now_s: float) -> str:
    """Say it in one sentence; times of day are local."""
    job = f"Job {found.job_id}"
    start_p50_s, start_p90_s, end_p50_s, end_p90_s = (
        None if at_s is None else clock_time(at_s, now_s)
        for at_s in (found.start_p50_s, found.start_p90_s, found.end_p50_s, found.end_p90_s)
    )
    if end_p50_s is None:
        what = "ends" if found.runs else "starts"
        return f"{job}: when it {what} cannot be predicted: {found.why}."
    if found.runs:
        return f"{job} runs, and ends about {end_p50_s}, by {end_p90_s} in nine plays of ten."
    return (
        f"{job} starts about {start_p50_s}, by {start_p90_s} in nine plays of ten, and ends about "
        f"{end_p50_s}, by {end_p90_s}."
    )


def remarks(answer: Expectation, policy: str) -> Iterator[str]:
    """Say the one number, what was told at submission, and how well such words held."""
    if answer.predicted_end_s is not None:
        yield f"By the estimates, under {policy}, it ends at {moment(answer.predicted_end_s)}."
    if answer.told_end_s is not None:
        change = ""
        if answer.predicted_end_s is not None:
            later_s = answer.predicted_end_s - answer.told_end_s
            change = "; so it still is"
            if abs(later_s) >= 1.0:
                change = f"; now {human_duration(abs(later_s))} {'later' if later_s > 0 else 'earlier'}"
        yield f"It was told at {moment(answer.told_at_s)}: ends at {moment(answer.told_end_s)}{change}."
    held = answer.held
    if held is not None:
        where = f" of {held.virtual_cluster}" if held.virtual_cluster else ""
        jobs = counted(held.jobs, "job")
        yield (
            f"Such words held for the last {jobs}{where} within {held.mean_error_pct:.1f} % of the told time "
            f"on average, {held.p99_error_pct:.1f} % at the 99th percentile; {held.by_p90:.0%} had ended by "
            "the moment of nine plays in ten."
        )
