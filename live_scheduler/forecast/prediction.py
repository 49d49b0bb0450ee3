"""When each new job ends if none is submitted after it (PCS, section 3.4: JCTpred).

The present state is played forward once for each new job, with the estimates as run times and without the new
jobs that wait and were submitted after it; so several that are seen at once are told what each would have
been told alone, in their order. P90 comes from plays in which run times vary and all jobs are there.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from live_scheduler.cluster_state import LiveJob
from live_scheduler.forecast.completion_forecast import plays_of
from live_scheduler.forecast.forecast_inputs import ForecastInputs
from live_scheduler.forecast.playing import PlayableCluster, Times, first_and_last

# Jobs times plays. Of a burst that is larger several jobs in a row share a play.
MOST_PREDICTED = 40_000
MOST_VARIED = 20_000


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
    """Predict the ends of the new jobs of a cluster, in the order of their submission; a job that cannot be
    predicted is missing. Raises as `completion_forecast.forecast`.
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
