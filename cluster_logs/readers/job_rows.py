"""From a source's columns to rows of the job table: the checks that every job must pass, whatever its
source.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cluster_logs import quarantine as q
from cluster_logs.job_facts import JOB_FACTS, JobFact, Kind
from cluster_logs.job_table import JOB_SCHEMA, WHOLE_CLUSTER, JobState
from cluster_logs.readers.row_checker import (
    NOT_A_TIME,
    FloatArray,
    IntArray,
    Mask,
    RowChecker,
    as_mask,
    is_missing,
)

JOB_ROWS_SCHEMA = pa.schema([column for column in JOB_SCHEMA if column.name != "cluster"])

MAX_GPUS = 1_000_000
MAX_COUNT = 1_000_000_000
MAX_DURATION_S = 100 * 365.25 * 86_400

# A column of a chunk: text; numbers as float64 with NaN for unknown; times as UTC microseconds with
# NOT_A_TIME for unknown. None: the source does not say.
Values = Any


def build_jobs(
    checker: RowChecker,
    columns: Mapping[str, str],
    derived: Mapping[str, Values] | None = None,
    *,
    states: Callable[[str], object] | None = None,
    unknown: int | None = None,
    signed_estimates: bool = False,
) -> pa.Table:
    """The rows that pass every check, as JOB_ROWS_SCHEMA in the file's order; the others are refused.

    `columns` names the source's column behind each fact (`job_facts.source_columns`): it is read by the
    fact's kind, and a refusal points at it. `derived` are the facts that are not read so: what the reader
    made of several columns. `states` translates the source's words for states; `unknown` stands for an
    unknown number or text. With `signed_estimates` an estimate may be below 0: it is a belief. What cannot be
    used of a fact that a job may be without is unknown, and counted (`RowChecker.unknown_values`).

    Run time is end - start where both are known (published durations are not always that), else what the
    source states. A job that waits or runs has no end and no run time, whatever its row holds, and one that
    waits no start; of a source that tells starts, a job without one waited for none, and its run time of 0 is
    none unless a reader made it.
    """
    derived = derived or {}
    source = {fact.name: checker.first_of(columns.get(fact.name, fact.name)) for fact in JOB_FACTS}
    values: dict[str, Values] = {}
    for fact in JOB_FACTS:
        if fact.name in derived:
            values[fact.name] = derived[fact.name]
        elif fact.name in columns and source[fact.name] in checker:
            values[fact.name] = _read(checker, fact, source[fact.name], states, unknown)
        else:
            values[fact.name] = None
    size, submit = len(checker), values["submit_time"]
    nowhen = np.full(size, NOT_A_TIME)
    tells_starts = values["start_time"] is not None
    start, end = (nowhen if values[name] is None else values[name] for name in ("start_time", "end_time"))
    waits, runs = (_is_in_state(checker, values, state) for state in (JobState.PENDING, JobState.RUNNING))
    unfinished = waits | runs
    start, end = np.where(waits, NOT_A_TIME, start), np.where(unfinished, NOT_A_TIME, end)
    _check_identity(checker, values, source)
    _check_times(checker, values, source, start, end, signed_estimates)
    _check_sizes(checker, values, source)
    _check_state(checker, values, source)

    wall_s = _elapsed_s(start, end)
    stated_s = np.full(size, np.nan) if values["duration_s"] is None else values["duration_s"]
    if tells_starts and "duration_s" not in derived:  # a run time of none is that of a job that never ran
        stated_s = np.where((start == NOT_A_TIME) & (stated_s == 0), np.nan, stated_s)
    duration_s = np.where(unfinished, np.nan, np.where(np.isnan(wall_s), stated_s, wall_s))
    stated_s = (
        duration_s if values["service_s"] is None else np.where(unfinished, np.nan, values["service_s"])
    )
    service_s = np.where(np.isnan(stated_s), duration_s, stated_s)
    waited_s = _elapsed_s(submit, start)
    if values["queuing_delay_s"] is not None and not tells_starts:
        waited_s = values["queuing_delay_s"]

    values |= {
        "submit_time": _times(submit),
        "start_time": _times(start),
        "end_time": _times(end),
        "eligible_time": None if values["eligible_time"] is None else _times(values["eligible_time"]),
        "duration_s": duration_s,
        "service_s": service_s,
        "queuing_delay_s": waited_s,
        "source_file": _repeat(checker.source_file, size),
        "source_row": pa.array(checker.chunk.rows, pa.int64()),
    }
    if values["virtual_cluster"] is None:
        values["virtual_cluster"] = _repeat(WHOLE_CLUSTER, size)
    if values["gpu_share"] is None:
        values["gpu_share"] = np.ones(size)
    if values["cpus"] is not None:
        values["cpus"] = np.ceil(values["cpus"])
    kept_rows = checker.kept()
    only = None if kept_rows.all() else kept_rows
    rows = [_column(values[column.name], column.type, only, size) for column in JOB_ROWS_SCHEMA]
    return pa.Table.from_arrays(rows, schema=JOB_ROWS_SCHEMA)


def _read(
    checker: RowChecker,
    fact: JobFact,
    column: str,
    states: Callable[[str], object] | None,
    unknown: int | None,
) -> Values:
    """A fact that has a column of its own."""
    if fact.name == "state" and states is not None:
        return checker.mapped(column, states, pa.string())
    if fact.kind is Kind.TIME:
        return checker.instant(column, fact=fact.name)
    if fact.kind is Kind.TEXT:
        text = checker.text(column) if fact.required else checker.optional_text(column, fact=fact.name)
        return text if unknown is None else pc.if_else(pc.equal(text, str(unknown)), None, text)
    numbers = checker.number(column, fact=fact.name)
    return numbers if unknown is None else np.where(numbers == unknown, np.nan, numbers)


def _check_identity(checker: RowChecker, values: Mapping[str, Values], source: Mapping[str, str]) -> None:
    checker.reject(is_missing(values["job_id"]), q.MISSING_JOB_ID, source["job_id"])
    if values["virtual_cluster"] is not None:
        missing = is_missing(values["virtual_cluster"])
        checker.reject(missing, q.MISSING_VIRTUAL_CLUSTER, source["virtual_cluster"])


def _check_sizes(checker: RowChecker, values: dict[str, Values], source: Mapping[str, str]) -> None:
    gpus = values["gpus"]
    checker.reject(np.isnan(gpus), q.MISSING_GPUS, source["gpus"])
    checker.reject(gpus < 0, q.NEGATIVE_GPUS, source["gpus"])
    checker.reject(gpus > MAX_GPUS, q.IMPLAUSIBLE_GPUS, source["gpus"])
    checker.reject(gpus != np.floor(gpus), q.FRACTIONAL_GPUS, source["gpus"])
    share = values["gpu_share"]
    if share is not None:
        checker.reject(~((share > 0) & (share <= 1)), q.IMPLAUSIBLE_GPU_SHARE, source["gpu_share"])
    for fact in JOB_FACTS:
        plain = fact.is_number and not fact.is_duration and fact.name not in ("gpus", "gpu_share")
        if plain and values[fact.name] is not None:
            least = min(0.0, fact.bounds[0]) if fact.bounds else 0.0
            reasons = (q.NEGATIVE_COUNT, q.IMPLAUSIBLE_COUNT)
            values[fact.name] = _within(checker, fact, values[fact.name], (least, MAX_COUNT), reasons, source)


def _check_times(
    checker: RowChecker,
    values: dict[str, Values],
    source: Mapping[str, str],
    start: IntArray,
    end: IntArray,
    signed_estimates: bool,
) -> None:
    submit = values["submit_time"]
    checker.reject(submit == NOT_A_TIME, q.MISSING_SUBMIT_TIME, source["submit_time"])
    started = start != NOT_A_TIME
    ended = end != NOT_A_TIME
    checker.reject(started & (start < submit), q.START_BEFORE_SUBMIT, source["start_time"])
    checker.reject(started & ended & (end < start), q.END_BEFORE_START, source["end_time"])
    checker.reject(ended & (end < submit), q.END_BEFORE_SUBMIT, source["end_time"])
    for fact in JOB_FACTS:
        if fact.is_duration and values[fact.name] is not None:
            least = -np.inf if fact.name == "estimated_duration_s" and signed_estimates else 0.0
            reasons = (q.NEGATIVE_DURATION, q.IMPLAUSIBLE_DURATION)
            bounds = (least, MAX_DURATION_S)
            values[fact.name] = _within(checker, fact, values[fact.name], bounds, reasons, source)


def _within(
    checker: RowChecker,
    fact: JobFact,
    amounts: FloatArray,
    bounds: tuple[float, float],
    reasons: tuple[str, str],
    source: Mapping[str, str],
) -> FloatArray:
    """The amounts within bounds; for those below and above there is a reason each."""
    below, above = amounts < bounds[0], amounts > bounds[1]
    checker.cannot_use(below, reasons[0], source[fact.name], fact.name)
    checker.cannot_use(above, reasons[1], source[fact.name], fact.name)
    return np.where(below | above, np.nan, amounts)


def _check_state(checker: RowChecker, values: Mapping[str, Values], source: Mapping[str, str]) -> None:
    """Refuse unknown words; where the source has no word for a state, it does not say one."""
    if values["state"] is not None and values["source_state"] is not None:
        checker.reject(as_mask(pc.is_null(values["state"])), q.UNKNOWN_STATE, source["state"])


def _is_in_state(checker: RowChecker, values: Mapping[str, Values], state: JobState) -> Mask:
    if values["state"] is None:
        return np.zeros(len(checker), dtype=bool)
    return as_mask(pc.equal(values["state"], state.value))


def _elapsed_s(first: IntArray, last: IntArray) -> FloatArray:
    has_both = (first != NOT_A_TIME) & (last != NOT_A_TIME)
    return np.where(has_both, (last - np.where(has_both, first, 0)) / 1e6, np.nan)


def _repeat(word: str, size: int) -> pa.Array:
    return pa.repeat(pa.scalar(word, pa.string()), size)


def _times(values: IntArray) -> pa.Array:
    return pa.array(values, mask=values == NOT_A_TIME)


def _column(
    values: pa.Array | FloatArray | None, kind: pa.DataType, kept: Mask | None, size: int
) -> pa.Array:
    if values is None:
        return pa.nulls(size if kept is None else int(kept.sum()), kind)
    if isinstance(values, pa.Array):
        kept_values = values if kept is None else values.filter(pa.array(kept))
        return kept_values.cast(kind)
    numbers = values if kept is None else values[kept]
    missing = np.isnan(numbers)
    if pa.types.is_integer(kind):
        numbers = np.where(missing, 0, numbers).astype(kind.to_pandas_dtype())
    return pa.array(numbers, kind, mask=missing if missing.any() else None)
