"""What a log teaches the duration model: jobs' features at their submissions, from one pass over the log."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foundation.errors import BadInputError
from foundation.progress import Progress
from lucid_models.duration.features import DurationFeatureSettings, DurationFeatureState
from lucid_models.duration.job_replay import JobStream, replay
from lucid_models.duration.level_search import LevelSearchSettings, choose_levels
from lucid_models.duration.levels import with_naive_estimate
from lucid_models.duration.naive_level import best_naive_level
from lucid_models.duration.tables import (
    by_submission,
    choose_facts,
    ends_and_run_times,
    epoch_seconds,
    job_stream,
)
from lucid_models.duration.taught_jobs import Floats, TaughtJobs, crowd_weights

MIN_JOBS = 100
# A log of fewer jobs also reads the naive estimate, and leans on it as far as it is the better one.
MANY_JOBS = 10_000


@dataclass(frozen=True)
class LogSettings:
    """How features are found. Run times that became known after `learned_until_s` (Unix time) teach nothing;
    what happens after `known_until_s` is not known at all.
    """

    features: DurationFeatureSettings
    levels: LevelSearchSettings
    known_until_s: float
    learned_until_s: float


@dataclass(frozen=True)
class ReplayedLog:
    """The replayed training table: the state at its end, and the features of the jobs of `stream` that were
    submitted, shape (submitted, features).

    Masks of the stream: the jobs `submitted` by the end of the log, those that had `ended` by then, those
    `taught`, which were submitted and had ended by when learning ends, and the `later` ones, submitted after.
    """

    state: DurationFeatureState
    stream: JobStream
    submitted: NDArray[np.bool_]
    ended: NDArray[np.bool_]
    taught: NDArray[np.bool_]
    later: NDArray[np.bool_]
    features: Floats
    settings: LogSettings
    levels: Mapping[str, Any]

    def rows_of(self, jobs: NDArray[np.bool_]) -> Floats:
        """The features of some of the submitted jobs, by a mask of the stream."""
        return self.features[jobs[self.submitted]]

    def jobs_taught(self, jobs: NDArray[np.bool_]) -> TaughtJobs:
        """What there is to learn of some jobs that ended: `taught`, or all that `ended`."""
        stream = self.stream
        until_s = self.settings.learned_until_s if jobs is self.taught else self.settings.known_until_s
        weights = crowd_weights(stream.owners, stream.virtual_clusters, stream.submit_s, until_s)[jobs]
        return TaughtJobs(
            self.rows_of(jobs),
            np.log(np.maximum(stream.duration_s[jobs], 1.0)),
            stream.end_s[jobs],
            self.state.names,
            weights / weights.mean(),
        )


def replay_log(jobs: pd.DataFrame, settings: LogSettings, progress: Progress) -> ReplayedLog:
    """Choose the levels, and replay the log. Raises BadInputError when fewer than MIN_JOBS jobs had ended."""
    if jobs.empty:
        raise BadInputError("The job table is empty.", remedy="Ingest a log that covers the period.")
    table = by_submission(jobs)
    submit_s = epoch_seconds(table, "submit_time")
    end_s, run_s = ends_and_run_times(table)
    learned_until_s = settings.learned_until_s
    early, ended = submit_s <= learned_until_s, ~np.isnan(run_s)
    taught = early & ended & (end_s <= learned_until_s)
    if int(taught.sum()) < MIN_JOBS:
        raise _too_few_jobs(int(taught.sum()), int(ended.sum()), learned_until_s)
    progress(0, None, "finding what tells run times apart")
    history = table[early].reset_index(drop=True)
    choice = choose_levels(history, settings.features, settings.levels, learned_until_s)
    levels = choice.levels
    if len(history) < MANY_JOBS:
        levels = with_naive_estimate(levels, best_naive_level(table[taught], choice, settings.features))
    state = DurationFeatureState(levels, choose_facts(history), settings.features, choice.buckets)
    stream = job_stream(table, state)
    submitted = stream.submit_s <= settings.known_until_s
    rows = replay(state, stream, scored=submitted, until_s=settings.known_until_s, progress=progress)
    ended &= submitted & (end_s <= settings.known_until_s)
    return ReplayedLog(
        state, stream, submitted, ended, taught, submitted & ~early, rows, settings, choice.record
    )


def _too_few_jobs(ended: int, with_run_time: int, until_s: float) -> BadInputError:
    known_until = datetime.fromtimestamp(until_s, UTC).isoformat(timespec="seconds")
    what = f"{ended} jobs had ended by {known_until}; too few to learn from."
    if with_run_time < MIN_JOBS:
        return BadInputError(what, remedy=f"Give at least {MIN_JOBS} jobs with a known run time.")
    return BadInputError(
        f"{what} The table holds {with_run_time - ended} run times that became known only after that moment.",
        remedy=f"Give a log in which jobs are still submitted after {MIN_JOBS} jobs have ended.",
    )
