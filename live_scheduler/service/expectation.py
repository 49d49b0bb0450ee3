"""When a job is expected to start and to end, as the service says it, beside what was predicted before."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from foundation.human_times import human_duration
from live_scheduler.cluster_state import LiveJob
from live_scheduler.forecast.advice import clock_time
from live_scheduler.forecast.completion_forecast import CompletionForecast, JobForecast
from live_scheduler.forecast.forecaster import Forecaster
from live_scheduler.forecast.submission_predictions import policy_of, summarise_errors
from live_scheduler.forecast.submission_predictor import StartOpinion, SubmissionPredictor
from live_scheduler.limit_memory import LimitMemory
from live_scheduler.live_settings import Mode
from live_scheduler.live_view import LiveView
from live_scheduler.service.answers import errors_message, find_job, moment
from live_scheduler.service.schema import Expectation, PredictionErrors
from lucid_models.amounts import counted


@dataclass(frozen=True)
class SpokenTimes:
    """A job's times, what they assume, and what another forecast says (None: there is none)."""

    times: JobForecast
    assumptions: tuple[str, ...]
    opinion: StartOpinion | None = None


class ExpectedTimes:
    """Answers from a forecast that is fresh, or made now (`operations.Forecast`)."""

    def __init__(
        self,
        forecaster: Forecaster,
        submission_predictor: SubmissionPredictor,
        limits: LimitMemory | None = None,
    ) -> None:
        self.forecaster = forecaster
        self.submission_predictor = submission_predictor
        self.limits = limits

    def __call__(self, view: LiveView, job_id: str) -> Expectation:
        """Return when a job of the view starts and ends; raises NotFoundError, ServiceUnavailableError."""
        job = find_job(view.read_cluster(), job_id)
        forecast = self.forecaster.fresh(view, job.job_id)
        played = forecast.of(job.job_id)
        spoken = self._spoken(view, job, forecast)
        opinion, times = spoken.opinion, spoken.times
        at_submission = self.submission_predictor.predictions.of(job)
        at_s = view.read_cluster().at_s
        limit = None if self.limits is None else self.limits.advise(job, at_s)
        answer = Expectation(
            job_id=job.job_id,
            at_s=forecast.at_s,
            sentence=sentence(times, forecast.at_s, opinion),
            start_p50_s=times.start_p50_s,
            start_p90_s=times.start_p90_s,
            end_p50_s=times.end_p50_s,
            end_p90_s=times.end_p90_s,
            assumptions=spoken.assumptions,
            predicted_start_s=played.predicted_start_s,
            predicted_end_s=played.predicted_end_s,
            told_end_s=at_submission.end_s if at_submission else None,
            told_end_p90_s=at_submission.end_p90_s if at_submission else None,
            told_at_s=at_submission.at_s if at_submission else None,
            held=self._held(view, job),
            said_by=opinion.said_by if opinion else "",
            said_by_why=opinion.why if opinion else "",
            played_start_p50_s=played.start_p50_s if opinion else None,
            played_start_p90_s=played.start_p90_s if opinion else None,
            learned_start_p50_s=opinion.start_p50_s if opinion else None,
            learned_start_p90_s=opinion.start_p90_s if opinion else None,
            limit_advice=limit.sentence() if limit else "",
            advised_limit_s=limit.advice.limit_s if limit else None,
            limit_risk=limit.risk_as_asked if limit else None,
        )
        return answer.model_copy(update={"remarks": tuple(remarks(answer, _whose_order(view)))})

    def _spoken(self, view: LiveView, job: LiveJob, forecast: CompletionForecast) -> SpokenTimes:
        """The times of a job by the one of the two that is believed."""
        played = forecast.of(job.job_id)
        plain = SpokenTimes(played, forecast.assumptions)
        other = self.submission_predictor.other_starts
        if other is None or not job.eligible:
            return plain
        opinion = other.opinion(view, job, played)
        if opinion is None or not opinion.believed:
            return replace(plain, opinion=opinion)
        return SpokenTimes(self._by(opinion, job, view.read_cluster().at_s), opinion.assumptions, opinion)

    def _by(self, opinion: StartOpinion, job: LiveJob, at_s: float) -> JobForecast:
        run_time = self.forecaster.run_time(job, at_s)
        starts = (opinion.start_p50_s, opinion.start_p90_s)
        if run_time is None:
            return JobForecast(job.job_id, *starts, why="nothing is believed of its run time")
        return JobForecast(job.job_id, *starts, starts[0] + run_time.p50_s, starts[1] + run_time.p90_s)

    def _held(self, view: LiveView, job: LiveJob) -> PredictionErrors | None:
        """Say how such predictions held lately: in the job's virtual cluster, else anywhere."""
        policy = policy_of(view)
        kept = [each for each in tuple(self.submission_predictor.recent) if each.prediction.policy == policy]
        here = [each for each in kept if each.prediction.virtual_cluster == job.virtual_cluster]
        for name, group in ((job.virtual_cluster, here), ("", kept)):
            errors = summarise_errors(group)
            if errors is not None:
                return errors_message(errors, policy, None, name)
        return None


def sentence(times: JobForecast, now_s: float, opinion: StartOpinion | None = None) -> str:
    """Say it in one sentence; times of day are local."""
    job = f"Job {times.job_id}"
    start_p50_s, start_p90_s, end_p50_s, end_p90_s = (
        None if at_s is None else clock_time(at_s, now_s)
        for at_s in (times.start_p50_s, times.start_p90_s, times.end_p50_s, times.end_p90_s)
    )
    learned = opinion is not None and opinion.believed
    in_nine = "as nine in ten such jobs do" if learned else "in nine plays of ten"
    if end_p50_s is None:
        if learned:
            return f"{job} starts about {start_p50_s}, by {start_p90_s} {in_nine}; its end is not known."
        what = "ends" if times.runs else "starts"
        return f"{job}: when it {what} cannot be predicted: {times.why}."
    if times.runs:
        return f"{job} runs, and ends about {end_p50_s}, by {end_p90_s} in nine plays of ten."
    return (
        f"{job} starts about {start_p50_s}, by {start_p90_s} {in_nine}, and ends about {end_p50_s}, by "
        f"{end_p90_s}."
    )


def remarks(answer: Expectation, policy: str) -> Iterator[str]:
    """Say where the answer is from, the one number, the one given at submission, how well such answers held,
    and whether a shorter limit would do.
    """
    if answer.said_by_why:
        yield answer.said_by_why
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
    if answer.limit_advice:
        yield answer.limit_advice


def _whose_order(view: LiveView) -> str:
    return view.settings.policy if view.settings.mode is Mode.CONTROL else "the cluster's own order"
