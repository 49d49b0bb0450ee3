"""Replays a log in the order of time, so that each job's features hold exactly what was known at its
submission.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foundation.progress import Progress, silent
from lucid_models.duration.features import DurationFeatureState
from lucid_models.duration.key_statistics import NOTHING_KNOWN, NUMBERS, KeyColumns

_START, _END = 0, 1
# The features of so many jobs are computed at once.
BLOCK = 2_048


@dataclass(frozen=True)
class JobStream:
    """Jobs in the order of submission. Times are Unix seconds; NaN for a start or an end that did not
    happen.
    """

    job_ids: Sequence[str]
    keys: Sequence[tuple[str | None, ...]]  # one per level of the state
    facts: NDArray[np.float64]  # (jobs, facts)
    submit_s: NDArray[np.float64]
    start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    duration_s: NDArray[np.float64]
    virtual_clusters: Sequence[str]
    owners: Sequence[str]


def replay(
    state: DurationFeatureState,
    stream: JobStream,
    *,
    scored: NDArray[np.bool_] | None = None,
    submitted: NDArray[np.bool_] | None = None,
    until_s: float = np.inf,
    progress: Progress = silent,
) -> NDArray[np.float64]:
    """Features of the scored jobs (all by default), shape (scored, features), while `state` lives through the
    log.

    An event at the very moment of a submission is known to it. `submitted` marks the jobs that the state has
    not seen being submitted (default: all); the others only start and end. Events after `until_s` do not
    happen.
    """
    jobs = len(stream.job_ids)
    wanted = np.ones(jobs, dtype=np.bool_) if scored is None else scored
    fresh = np.ones(jobs, dtype=np.bool_) if submitted is None else submitted
    times, kinds, of_job = _events(stream, until_s)
    statistics = len(state.names) - len(state.facts)
    matrix = np.empty((int((wanted & fresh).sum()), statistics + len(state.facts)))
    matrix[:, statistics:] = stream.facts[wanted & fresh]
    seen = SubmittedJobs(state)
    rows = 0
    event = 0
    events = len(times)
    submit_s, duration_s = stream.submit_s.tolist(), stream.duration_s.tolist()
    wanted_list, fresh_list = wanted.tolist(), fresh.tolist()
    for job in range(jobs):
        now = submit_s[job]
        if not fresh_list[job]:
            continue
        # A job that starts at its very submission does so after it.
        while event < events and times[event] <= now and of_job[event] < job:
            _happen(state, stream, duration_s, kinds[event], of_job[event], times[event])
            event += 1
        job_id, keys = stream.job_ids[job], stream.keys[job]
        if wanted_list[job]:
            seen.add(job_id, keys, now)
            if len(seen) == BLOCK:
                matrix[rows : rows + BLOCK, :statistics] = seen.take()
                rows += BLOCK
        if now <= until_s:
            state.submit(job_id, keys, now)
        if job % 5_000 == 0:
            progress(job, jobs, "reading the log in the order of time")
    matrix[rows:, :statistics] = seen.take()
    while event < events:
        _happen(state, stream, duration_s, kinds[event], of_job[event], times[event])
        event += 1
    progress(jobs, jobs, "reading the log in the order of time")
    return matrix


class SubmittedJobs:
    """What was known of jobs' keys when each was submitted; their features are computed later, together."""

    def __init__(self, state: DurationFeatureState) -> None:
        self._state = state
        self._flights = state.layout.flights.tolist()
        self._numbers: list[bytes] = []
        self._is_newest: list[list[bool]] = []
        self._time_s: list[float] = []

    def __len__(self) -> int:
        return len(self._time_s)

    def add(self, job_id: str, keys: Sequence[str | None], time_s: float) -> None:
        """Note what is known of a job's keys now."""
        statistics = [
            None if key is None else table.get(key)
            for key, table in zip(keys, self._state.tables, strict=True)
        ]
        self._numbers.append(b"".join([NOTHING_KNOWN if one is None else one.numbers for one in statistics]))
        newest = [statistics[level] for level in self._flights]
        self._is_newest.append([one is not None and one.submit_id == job_id for one in newest])
        self._time_s.append(time_s)

    def take(self) -> NDArray[np.float64]:
        """The statistics of the jobs noted, shape (jobs, features), which are forgotten then."""
        state, levels, jobs = self._state, len(self._state.levels), len(self)
        numbers = np.frombuffer(b"".join(self._numbers)).reshape(jobs, levels, NUMBERS)
        is_newest = np.array(self._is_newest, dtype=np.bool_).reshape(jobs, len(self._flights)).T
        found = KeyColumns(
            state.layout,
            numbers.transpose(2, 1, 0).reshape(NUMBERS, levels * jobs),
            np.arange(levels * jobs).reshape(levels, jobs),
            is_newest,
            np.array(self._time_s),
            state.settings.half_life_s,
            state.settings.prior_jobs,
        ).statistics()
        self._numbers, self._is_newest, self._time_s = [], [], []
        return found.T


def _happen(
    state: DurationFeatureState,
    stream: JobStream,
    duration_s: list[float],
    kind: int,
    job: int,
    time_s: float,
) -> None:
    if kind == _START:
        state.start(stream.job_ids[job], time_s)
    else:
        state.end(stream.job_ids[job], stream.keys[job], time_s, duration_s[job])


def _events(stream: JobStream, until_s: float) -> tuple[list[float], list[int], list[int]]:
    """Starts and ends up to `until_s` by (time, order of submission, start before end)."""
    # A job without a known start runs from its submission on.
    start = np.where(np.isnan(stream.start_s), stream.submit_s, stream.start_s)
    start = np.where(np.isnan(stream.start_s) & np.isnan(stream.duration_s), np.nan, start)
    # Clocks that disagree must not let a job start before its submission or end before its start.
    start = np.maximum(start, stream.submit_s)
    jobs = np.arange(len(stream.job_ids))
    times = np.concatenate([start, np.fmax(stream.end_s, start)])
    times[jobs.size :][np.isnan(stream.end_s)] = np.nan
    kinds = np.concatenate([np.full(jobs.size, _START), np.full(jobs.size, _END)])
    of_job = np.concatenate([jobs, jobs])
    usable = (times <= until_s) & ~np.isnan(times)
    # Nothing is learned of an end without a run time.
    usable &= (kinds == _START) | ~np.isnan(stream.duration_s[of_job])
    order = np.lexsort((kinds, of_job, times))
    order = order[usable[order]]
    return times[order].tolist(), kinds[order].tolist(), of_job[order].tolist()


def stream_summary(stream: JobStream) -> dict[str, Any]:
    """First and last submission and the number of jobs, for a model's record of its training data."""
    return {
        "jobs": len(stream.job_ids),
        "first_submit_s": float(stream.submit_s.min()) if len(stream.job_ids) else None,
        "last_submit_s": float(stream.submit_s.max()) if len(stream.job_ids) else None,
    }
