"""Job tables as the duration model reads them: in the order of submission, as arrays and as mappings, and
what a log's columns allow to be learned from.
"""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cluster_logs.job_facts import owner_of
from foundation.errors import BadInputError
from lucid_models.duration.calibration import virtual_cluster_of
from lucid_models.duration.features import DurationFeatureState
from lucid_models.duration.job_columns import FACTS, MODEL_FACTS, PLAIN_FACTS
from lucid_models.duration.job_replay import JobStream
from lucid_models.duration.levels import PARTS, facts_of_part

# A column is used when at least this share of its rows is known.
_LEAST_KNOWN_SHARE = 0.02


def usable_parts(jobs: pd.DataFrame) -> list[str]:
    """The parts of keys that this log has the columns for, and of which jobs differ."""
    parts = [part for part in PARTS if all(_tells(jobs, fact) for fact in facts_of_part(part))]
    return [part for part in PARTS if part in parts or part == "size"]


def choose_facts(jobs: pd.DataFrame) -> list[str]:
    """The plain facts that this log has the columns for."""
    usable: dict[str, str] = {}
    for fact, (column, _) in PLAIN_FACTS.items():
        # A second column that says the same (SWF: processors as GPUs and as cores) only shares its score.
        if _tells(jobs, column) and not any(_same_numbers(jobs, column, other) for other in usable.values()):
            usable[fact] = column
    return [fact for fact in FACTS if fact in (*usable, "hour", "day_of_week")]


def job_stream(jobs: pd.DataFrame, state: DurationFeatureState) -> JobStream:
    """A job table in the order of submission as the arrays that a replay needs."""
    submit = epoch_seconds(jobs, "submit_time")
    if np.isnan(submit).any():
        raise BadInputError("A job has no submission time.", remedy="Quarantine such rows at ingest.")
    end, duration = ends_and_run_times(jobs)
    mappings = job_mappings(jobs)
    return JobStream(
        [str(job["job_id"]) for job in mappings],
        state.keys_of_all(mappings),
        state.facts_of_all(mappings),
        submit,
        epoch_seconds(jobs, "start_time"),
        end,
        duration,
        [virtual_cluster_of(job) for job in mappings],
        [owner_of(job) for job in mappings],
    )


def ends_and_run_times(jobs: pd.DataFrame) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """When each job ended (Unix seconds; in a log without ends, after its wait and its run) and how long it
    ran, in seconds; NaN where unknown.
    """
    submit, start, end = (epoch_seconds(jobs, f"{moment}_time") for moment in ("submit", "start", "end"))
    duration = _numbers(jobs, "duration_s")
    duration = np.where(duration >= 0, duration, np.nan)
    waited = np.nan_to_num(_numbers(jobs, "queuing_delay_s"), nan=0.0)
    begun = np.where(np.isnan(start), submit + np.maximum(waited, 0.0), start)
    return np.where(np.isnan(end), begun + duration, end), duration


def job_mappings(jobs: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows of a job table as the mappings that the feature state reads."""
    columns: dict[str, list[Any]] = {
        name: jobs[name].astype(object).where(jobs[name].notna(), None).tolist()
        for name in (fact.name for fact in MODEL_FACTS if not fact.is_number)
        if name in jobs.columns
    }
    numbers = (fact.name for fact in MODEL_FACTS if fact.is_number)
    columns |= {name: _numbers(jobs, name).tolist() for name in numbers if name in jobs.columns}
    columns["submit_time_s"] = epoch_seconds(jobs, "submit_time").tolist()
    if "job_id" not in columns:
        columns["job_id"] = [str(position) for position in range(len(jobs))]
    names = list(columns)
    return [dict(zip(names, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def epoch_seconds(jobs: pd.DataFrame, column: str) -> NDArray[np.float64]:
    """A column of times as Unix seconds; NaN where missing or where the table lacks the column."""
    if column not in jobs.columns:
        return np.full(len(jobs), np.nan)
    times = pd.to_datetime(jobs[column], utc=True).astype("datetime64[us, UTC]")
    seconds: NDArray[np.float64] = times.astype("int64").to_numpy(dtype=np.float64) / 1e6
    seconds[times.isna().to_numpy()] = np.nan
    return seconds


def _numbers(jobs: pd.DataFrame, column: str) -> NDArray[np.float64]:
    if column not in jobs.columns:
        return np.full(len(jobs), np.nan)
    numbers = pd.to_numeric(jobs[column], errors="coerce").astype("Float64")
    return np.asarray(numbers.to_numpy(dtype=np.float64, na_value=np.nan), dtype=np.float64)


def _same_numbers(jobs: pd.DataFrame, column: str, other: str) -> bool:
    return bool(np.array_equal(_numbers(jobs, column), _numbers(jobs, other), equal_nan=True))


def _tells(jobs: pd.DataFrame, column: str) -> bool:
    """Whether enough rows have a value, and not all the same."""
    if column not in jobs.columns or not jobs[column].notna().mean() >= _LEAST_KNOWN_SHARE:
        return False
    return bool(jobs[column].nunique() > 1)


def submission_order(jobs: pd.DataFrame) -> NDArray[np.intp]:
    """Positions of the rows in the order of submission; ties stay as they are."""
    return np.argsort(epoch_seconds(jobs, "submit_time"), kind="stable")


def by_submission(jobs: pd.DataFrame) -> pd.DataFrame:
    """The rows in the order of submission, numbered anew."""
    if jobs.empty:
        return jobs
    return jobs.iloc[submission_order(jobs)].reset_index(drop=True)
