"""When jobs will start and end: the present state played forward in the simulator, many times.

Each play draws a run time for every job from what is believed of it (`forecast_inputs.py`), and lets the
queue be served (`playing.py`). P50 and P90 are taken over the plays; one more play has every job run for as
long as it is estimated.

A forecast is a function of values: the same for the same reading, beliefs, settings, release and seed, in
whatever order the jobs are given.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from foundation.errors import NotFoundError
from live_scheduler.cluster_state import LiveJob
from live_scheduler.forecast.forecast_inputs import ForecastInputs
from live_scheduler.forecast.playing import Floats, PlayableCluster, Times, first_and_last
from live_scheduler.forecast.present_state import PresentState

FEWEST_SAMPLES = 8
# Jobs times plays: longer queues are played less often, so that a forecast's time is bounded.
MOST_PLAYED = 160_000
# Jobs times plays. Of a burst that is larger several jobs in a row share a play.
MOST_PREDICTED = 40_000
MOST_VARIED = 20_000


@dataclass(frozen=True, slots=True)
class JobForecast:
    """When a job starts and ends (Unix s): half of the plays are earlier than P50, nine in ten than P90.

    Of a job that runs the start is known. None: not to be predicted, and `why` says so. An array starts with
    its first task and ends with its last.

    `predicted_start_s` and `predicted_end_s` are one number each, by one play in which every job runs for as
    long as it is estimated (PCS, section 3.4: JCTpred).
    """

    job_id: str
    start_p50_s: float | None = None
    start_p90_s: float | None = None
    end_p50_s: float | None = None
    end_p90_s: float | None = None
    runs: bool = False
    why: str = ""
    predicted_start_s: float | None = None
    predicted_end_s: float | None = None


@dataclass(frozen=True)
class CompletionForecast:
    """All jobs of a reading at `at_s`, out of so many plays."""

    at_s: float
    release: str
    samples: int
    jobs: Mapping[str, JobForecast]
    assumptions: tuple[str, ...]

    def of(self, job_id: str) -> JobForecast:
        """Return a job's forecast; raises NotFoundError for one that was not there yet."""
        job_forecast = self.jobs.get(job_id)
        if job_forecast is None:
            raise NotFoundError(
                f"Job {job_id!r} is not in the forecast.", remedy="It may be too new: ask again in a moment."
            )
        return job_forecast


def forecast(inputs: ForecastInputs) -> CompletionForecast:
    """Play the cluster forward.

    Raises BadInputError or UnknownNameError for settings that no live cluster can follow, PolicyError when
    the policy fails.
    """
    playable = PlayableCluster(inputs)
    state, now_s = playable.state, inputs.cluster.at_s
    samples = plays_of(playable.jobs, inputs.samples, MOST_PLAYED)
    drawn = playable.drawn(samples)
    plays = playable.played(drawn)
    sure = playable.played(playable.estimated())
    forecasts = {}
    for job in inputs.cluster.jobs:
        name = job.job_id
        if name not in playable.beliefs:
            forecasts[name] = _not_predicted(job, "nothing is believed of its run time")
        elif name in state.not_played:
            forecasts[name] = _not_predicted(job, state.not_played[name])
        elif plays and name in state.played:
            parts = state.played[name]
            summed = _summed_up(job, now_s, [plays[part] for part in parts])
            forecasts[name] = _with_prediction(summed, now_s, [sure[part] for part in parts])
        elif job.start_time_s is not None:  # it runs where no pool has GPUs
            forecasts[name] = _of_running(job, job.start_time_s + drawn[name])
        else:
            forecasts[name] = _not_predicted(job, "its partition has no GPUs")
    assumptions = _assumptions(inputs, state, samples, bool(playable.overdue))
    return CompletionForecast(now_s, inputs.release, samples, forecasts, assumptions)


def plays_of(jobs: int, samples: int, most: int) -> int:
    """Return how often so many jobs are played, so that jobs x plays stay below `most`."""
    return max(min(FEWEST_SAMPLES, samples), min(samples, most // max(1, jobs)))


def _summed_up(job: LiveJob, now_s: float, plays: Sequence[Times]) -> JobForecast:
    """Sum a job's plays up; of an array the first start and the last end."""
    starts, ends = first_and_last(plays)
    never = int(np.isnan(ends).sum())
    if never:
        return _not_predicted(job, f"it does not end in {never} of {len(ends)} plays")
    if not job.waiting:
        return _of_running(job, now_s + ends)
    return JobForecast(job.job_id, *_quantiles(now_s + starts), *_quantiles(now_s + ends))


def _with_prediction(job_forecast: JobForecast, now_s: float, play: Sequence[Times]) -> JobForecast:
    """Add what one play with the estimates says."""
    starts, ends = first_and_last(play)
    if job_forecast.end_p50_s is None or np.isnan(ends).any():
        return job_forecast
    start_s = job_forecast.start_p50_s if job_forecast.runs else now_s + float(starts[0])
    return replace(job_forecast, predicted_start_s=start_s, predicted_end_s=now_s + float(ends[0]))


def _of_running(job: LiveJob, end_s: Floats) -> JobForecast:
    return JobForecast(job.job_id, job.start_time_s, job.start_time_s, *_quantiles(end_s), runs=True)


def _not_predicted(job: LiveJob, why: str) -> JobForecast:
    return JobForecast(job.job_id, job.start_time_s, job.start_time_s, runs=not job.waiting, why=why)


def _quantiles(values: Floats) -> tuple[float, float]:
    p50, p90 = np.quantile(values, (0.5, 0.9))
    return float(p50), float(p90)


def _assumptions(inputs: ForecastInputs, state: PresentState, samples: int, overdue: bool) -> tuple[str, ...]:
    if inputs.controls:
        order = f"The queue is served by the policy {inputs.settings.policy!r}, with today's estimates."
    else:
        order = (
            f"The cluster's own order counts (mode {inputs.settings.mode}): its priorities as they are now, "
            "backfilled by time limits."
        )
    run_times = (
        f"Run times are drawn from the P50 and P90 of {inputs.release}, up to each job's limit: "
        f"{samples} plays, seed {inputs.seed}. Jobs of one user and size are long, or short, together."
    )
    sentences = [
        "No more jobs are submitted: later ones that go first would delay these.",
        order,
        run_times,
        "Starting and ending take no time, and nodes stay as they are.",
    ]
    if overdue:
        sentences.append("Jobs that are overdue now go first.")
    if inputs.controls and inputs.settings.shared_partitions:
        sentences.append("Jobs that share a GPU run as fast as their summed utilisation lets them.")
    return (*sentences, *state.remarks)


@dataclass(frozen=True, slots=True)
class Prediction:
    """When a job starts and ends (Unix s), if every job runs for as long as it is estimated.

    It ends by `end_p90_s` in nine plays of ten.
    """

    job_id: str
    start_s: float
    end_s: float
    end_p90_s: float


def predict(inputs: ForecastInputs, new: Sequence[str]) -> dict[str, Prediction]:
    """Predict when each new job ends if none is submitted after it (PCS, section 3.4: JCTpred).

    The present state is played forward once for each new job, with the estimates as run times and without the
    new jobs that wait and were submitted after it; so of several that are seen at once each gets what it
    would have got alone, in their order. P90 comes from plays in which run times vary and all jobs are there.
    A job that cannot be predicted is missing. Raises as `forecast`.
    """
    playable = PlayableCluster(inputs)
    played = playable.state.played
    jobs = playable.cluster.by_id
    wanted = [jobs[job_id] for job_id in new if job_id in jobs and job_id in played]
    wanted.sort(key=lambda job: job.submission)
    if not wanted:
        return {}
    estimated = playable.estimated()
    varied = playable.played(playable.drawn(plays_of(playable.jobs, inputs.samples, MOST_VARIED)))
    now_s = inputs.cluster.at_s
    predictions = {}
    later = {job.job_id for job in wanted}
    for group in _groups(wanted, max(1, MOST_PREDICTED // max(1, playable.jobs))):
        later.difference_update(job.job_id for job in group)
        play = playable.played_without(estimated, later, {job.job_id for job in group})
        for job in group:
            start_s, end_s = _of(job, play, played)
            late_s = _of(job, varied, played)[1]
            if np.isfinite(end_s).all() and np.isfinite(late_s).all():
                start_s = now_s + start_s if job.start_time_s is None else np.array([job.start_time_s])
                predictions[job.job_id] = Prediction(
                    job.job_id,
                    float(start_s[0]),
                    now_s + float(end_s[0]),
                    now_s + max(float(end_s[0]), float(np.quantile(late_s, 0.9))),
                )
    return predictions


def _of(job: LiveJob, plays: Mapping[str, Times], played: Mapping[str, Sequence[str]]) -> Times:
    never = np.array([np.nan])
    return first_and_last([plays.get(part, (never, never)) for part in played[job.job_id]])


def _groups(jobs: Sequence[LiveJob], most: int) -> Iterator[Sequence[LiveJob]]:
    """Cut jobs into at most so many runs of equal length."""
    length = -(-len(jobs) // most)
    return (jobs[at : at + length] for at in range(0, len(jobs), length))
