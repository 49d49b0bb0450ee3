"""What a reader is: how to cut a file into chunks of raw columns, and what those columns mean.

A new reader is one module with one `READER` and one line in `registry.py` (CONTRIBUTING.md walks there). The
checks that every job must pass, times, numbers, quarantine and accounting come with `RowChecker` and
`job_rows.build_jobs`.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa

from cluster_logs.inference_load import LoadReading
from cluster_logs.quarantine import BESIDE_TABLE
from cluster_logs.readers.row_checker import RawChunk, RowChecker
from cluster_logs.readers.text_source import TextSource
from cluster_logs.readers.time_zones import load_zone
from cluster_logs.readers.values import IntArray
from cluster_logs.slurm_mark import MarkKey
from foundation.errors import BadInputError
from foundation.progress import Progress, silent

# Second 0 of formats that count from the trace's own start, unless the format or the caller says otherwise.
UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# A table of the core, or one that a part brings (`day_tables`).
TableName = str


@dataclass(frozen=True)
class ReadOptions:
    """What the caller knows about the file. `time_zone` None: the format's own.

    `mark_key` is that of the cluster's live scheduler; without it no mark on a job is believed. `load`:
    what is known of inference servers. `trace_start`: the instant of second 0 of times that count from the
    trace's own start; None: the format's own. `columns`: our column -> the file's, where it is called
    otherwise.
    """

    cluster: str
    time_zone: str | None = None
    gpus_per_node: int = 8
    mark_key: MarkKey | None = None
    load: LoadReading = field(default_factory=LoadReading)
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
    whose times may count from the trace's own start (naive: on the reader's clock); None: they never do.
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
