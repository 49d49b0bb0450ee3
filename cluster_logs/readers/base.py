"""What a reader is: how to cut a file into chunks of raw columns, and what those columns mean.

A new reader is one module with one `READER` and one line in `registry.py` (CONTRIBUTING.md walks there). The
checks that every job must pass, times, numbers, quarantine and accounting come with `build_jobs` and the
`RowChecker`. Which format a log looks like is found by reading its first rows with every reader.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pkgutil import resolve_name
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cluster_logs import quarantine as q
from cluster_logs.job_facts import JOB_FACTS
from cluster_logs.job_table import JOB_SCHEMA, WHOLE_CLUSTER, JobState
from cluster_logs.quarantine import BESIDE_TABLE
from cluster_logs.readers.registry import OURS, formats
from cluster_logs.readers.row_checker import FloatArray, IntArray, Mask, RowChecker, as_mask, is_missing
from cluster_logs.readers.source import NOT_A_TIME, RawChunk, TextSource, load_zone
from cluster_logs.slurm_mark import MarkKey
from foundation.errors import BadInputError, LucidError, UnknownNameError
from foundation.parts import lacking, offered
from foundation.progress import Progress, silent

# Second 0 of formats that count from the trace's own start, unless the format or the caller says otherwise.
UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# A table of the core, or one that a part brings (`day_tables`).
TableName = str
EVERY_CLUSTER = ""  # no cluster's name: all rows of a file are read

JOB_ROWS_SCHEMA = pa.schema([column for column in JOB_SCHEMA if column.name != "cluster"])

MAX_GPUS = 1_000_000
MAX_COUNT = 1_000_000_000
MAX_DURATION_S = 100 * 365.25 * 86_400

_DURATIONS = [fact for fact in JOB_FACTS if fact.is_duration]
_COUNTS = [
    fact
    for fact in JOB_FACTS
    if fact.is_number and not fact.is_duration and fact.name not in ("gpus", "gpu_share")
]

# A column of a chunk: text; numbers as float64 with NaN for unknown; times as UTC microseconds with
# NOT_A_TIME for unknown. None: the source does not say.
Values = Any

SAMPLE_BYTES = 256 * 1024
# Of the sample's rows so many must be good for the file to look like the format; another's columns give none.
_LEAST_GOOD_SHARE = 0.2


@dataclass(frozen=True)
class ReadOptions:
    """What the caller knows about the file. `time_zone` None: the format's own.

    `mark_key` is that of the cluster's live scheduler; without it no mark on a job is believed. `beside`:
    what a format of a part asks beside its file, or None. `trace_start`: the instant of second 0 of times
    that count from the trace's own start; None: the format's own. `columns`: our column -> the file's, where
    it is called otherwise.
    """

    cluster: str
    time_zone: str | None = None
    gpus_per_node: int = 8
    mark_key: MarkKey | None = None
    beside: object = None
    trace_start: datetime | None = None
    columns: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Context:
    """What `normalise` may use beside the chunk: the options, and `facts` that `prepare` found in the
    file. `second_0_s`: when the trace starts, in seconds since 1970.
    """

    options: ReadOptions
    facts: object = None
    second_0_s: float = 0.0


@dataclass(frozen=True)
class StatedSize:
    """What a log says of its whole cluster, and in which words."""

    nodes: int
    gpus_per_node: int
    source: str


def _nothing(source: TextSource, options: ReadOptions) -> object:
    return None


def _no_size(source: TextSource) -> StatedSize | None:
    return None


def _no_zone(source: TextSource) -> str | None:
    return None


@dataclass(frozen=True)
class Reader:
    """A log format. `time_zone` is the clock of times that carry no offset.

    With `counts_from_zero` times are seconds from the log's own beginning, which the table puts at
    1970-01-01. `stated_size` is what the file says of its cluster; `machines` gives (virtual cluster,
    machine, GPUs of one job there) of a chunk, for formats that name machines. `export` is the command that
    writes such a log, for the advice on one that was written otherwise. `trace_start` is second 0 of a format
    with times that may count from the trace's own start (naive: on the reader's clock); None: they never do.
    `stated_zone` is the cluster's time zone as the file names it. `maps_columns`: its files may call columns
    otherwise.
    """

    name: str
    summary: str
    table: TableName
    time_zone: str
    chunks: Callable[[TextSource, ReadOptions], Iterator[RawChunk]]
    normalise: Callable[[RowChecker, Context], pa.Table]
    prepare: Callable[[TextSource, ReadOptions], object] = _nothing
    counts_from_zero: bool = False
    stated_size: Callable[[TextSource], StatedSize | None] = _no_size
    machines: Callable[[RawChunk], Iterator[tuple[str, str, int]]] | None = None
    export: str = ""
    trace_start: datetime | None = None
    stated_zone: Callable[[TextSource], str | None] = _no_zone
    maps_columns: bool = False

    def clock(self, uri: str, time_zone: str | None) -> str:
        """The time zone of a log: the one that was given, else the file's own, else the format's."""
        return time_zone or self.stated_zone(TextSource(uri)) or self.time_zone

    def second_0(self, options: ReadOptions) -> float:
        """Second 0 of the trace, in seconds since 1970 (UTC); 0 for a format without one.

        Raises BadInputError for a given start with a format that has none.
        """
        if self.trace_start is None:
            if options.trace_start is None:
                return 0.0
            raise BadInputError(
                f"A start of the trace was given, but times of format {self.name!r} do not count from it.",
                remedy="Leave it out.",
            )
        start = options.trace_start or self.trace_start
        zone = load_zone(options.time_zone or self.time_zone)
        return (start if start.tzinfo else start.replace(tzinfo=zone)).timestamp()


@dataclass(frozen=True)
class ReadChunk:
    """One chunk's outcome: good rows (the table's schema without cluster), refused rows, skipped rows.

    `noted` counts rows by `quarantine.NOTES`, `unknown_values` what could not be used by the optional fact.
    """

    rows: pa.Table
    refused: pa.Table
    skipped: Counter[str]
    rows_in: int
    noted: Counter[str]
    unknown_values: Counter[str] = field(default_factory=Counter)


def read_chunks(
    reader: Reader,
    uri: str,
    options: ReadOptions,
    *,
    progress: Progress = silent,
    most_bytes: int | None = None,
) -> Iterator[ReadChunk]:
    """The file's rows, chunk by chunk, in the file's order; memory does not grow with the file.

    `most_bytes`: only the rows in about so many first bytes, for a look at the file.
    """
    if options.columns and not reader.maps_columns:
        raise BadInputError(
            f"Columns are named for a log of format {reader.name!r}, which has names of its own.",
            remedy="Name none, or choose the format jobs-csv.",
        )
    time_zone = options.time_zone or reader.time_zone
    load_zone(time_zone)
    second_0_s = reader.second_0(options)
    context = Context(options, reader.prepare(TextSource(uri, most_bytes=most_bytes), options), second_0_s)
    source = TextSource(uri, progress, most_bytes)
    for chunk in reader.chunks(source, options):
        checker = RowChecker(chunk, source.name, time_zone)
        rows = reader.normalise(checker, context)
        skipped = checker.skipped() + Counter({BESIDE_TABLE: chunk.beside_table})
        noted, unknown_values = checker.notes(), checker.unknown_values()
        yield ReadChunk(rows, checker.refused(reader.name), skipped, chunk.rows_in, noted, unknown_values)


def read_raw_rows(
    reader: Reader, uri: str, options: ReadOptions, wanted: IntArray
) -> Iterator[dict[int, str]]:
    """The text of some rows, by row number, chunk by chunk: a second pass for the few rows that need it.

    `wanted` holds row numbers, shape (rows,), each once.
    """
    missing = len(wanted)
    for chunk in reader.chunks(TextSource(uri), options) if missing else ():
        indices = np.flatnonzero(np.isin(chunk.rows, wanted, assume_unique=True))
        if len(indices):
            yield {int(chunk.rows[index]): chunk.raw(int(index)) for index in indices}
        missing -= len(indices)
        if not missing:
            return


@cache
def load_reader(name: str) -> Reader:
    """The reader of a format; NotFoundError for one of a part that is not installed, UnknownNameError, with
    the formats that there are, for any other name.
    """
    place = OURS.get(name) or offered("readers").get(name)
    if place is None:
        raise lacking().get(f"format {name}") or UnknownNameError("log format", name, formats())
    reader: Reader = resolve_name(place)
    return reader


# Which format a log looks like ------------------------------------------------------------------------


def likely_formats(uri: str) -> list[str]:
    """The formats by which most of the file's first rows are kept, the likeliest first; none may fit.

    Formats that fit equally well share their columns (acme-seren and acme-kalos). A nodes file is never
    guessed: any two columns could be one; a CSV with columns of the job table is where no other format fits,
    since some have such columns, too.
    """
    shares = good_shares(uri)
    best = max(shares.values(), default=0.0)
    return [name for name, share in shares.items() if share == best]


def good_shares(uri: str) -> dict[str, float]:
    """Which share of the file's first rows the reader of each format keeps (0 to 1), of those that may fit:
    the best first.
    """
    shares = {name: _good_share(load_reader(name), uri) for name in formats() if name != "nodes-csv"}
    by_share = sorted(shares.items(), key=lambda item: -item[1])
    fitting = {name: share for name, share in by_share if share >= _LEAST_GOOD_SHARE}
    return {name: share for name, share in fitting.items() if name != "jobs-csv" or len(fitting) == 1}


@contextmanager
def naming_likely_formats(uri: str, source_format: str) -> Iterator[None]:
    """Let an error about a log that looks like another format name that format."""
    try:
        yield
    except BadInputError as error:
        likely = likely_formats(uri)
        if likely and source_format not in likely:
            error.advise(f"It looks like {' or '.join(likely)}: give that as --format.")
        raise


def _good_share(reader: Reader, uri: str) -> float:
    try:
        chunk = next(read_chunks(reader, uri, ReadOptions(EVERY_CLUSTER), most_bytes=SAMPLE_BYTES), None)
    except LucidError:
        return 0.0
    judged = 0 if chunk is None else chunk.rows_in - chunk.skipped.total()
    return 0.0 if chunk is None or not judged else 1 - chunk.refused.num_rows / judged


# From a source's columns to rows of the job table ----------------------------------------------------------


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
        name, column = fact.name, source[fact.name]
        if name in derived:
            values[name] = derived[name]
        elif name not in columns or column not in checker:
            values[name] = None
        elif name == "state" and states is not None:
            values[name] = checker.mapped(column, states, pa.string())
        else:
            values[name] = checker.value_of(fact, column, unknown)
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
    for fact in _COUNTS:
        if values[fact.name] is not None:
            least = min(0.0, fact.bounds[0]) if fact.bounds else 0.0
            reasons = (q.NEGATIVE_COUNT, q.IMPLAUSIBLE_COUNT)
            values[fact.name] = checker.within(
                values[fact.name], (least, MAX_COUNT), reasons, source[fact.name], fact.name
            )


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
    for fact in _DURATIONS:
        if values[fact.name] is not None:
            least = -np.inf if fact.name == "estimated_duration_s" and signed_estimates else 0.0
            reasons = (q.NEGATIVE_DURATION, q.IMPLAUSIBLE_DURATION)
            values[fact.name] = checker.within(
                values[fact.name], (least, MAX_DURATION_S), reasons, source[fact.name], fact.name
            )


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
