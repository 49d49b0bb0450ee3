"""A log file into the lake: read, check, account for every row, merge.

Nothing is written before the whole file has been read and its account balances, so a truncated file leaves
the lake as it was. Then the tables are changed as one (`Lake.writing`): by one writer at a time, and when the
process stops in between, readers refuse them until the same ingest has completed them.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from cluster_logs import quarantine as q
from cluster_logs.cluster_writes import LogOrigin, logs_of_rows
from cluster_logs.day_tables import day_table
from cluster_logs.ingest_account import (
    KEPT,
    LAKE_FORMAT,
    BadRowLimit,
    DaySpool,
    PartSpool,
    check_max_bad_share,
    conflict_rows,
    count_duplicates,
    count_rows,
    file_name,
    judge_duplicates,
    refused_spool,
    report_of,
    resolve_duplicates,
    write_quarantine,
)
from cluster_logs.ingest_account import IngestReport as IngestReport
from cluster_logs.job_table import (
    DAY_S,
    DEFAULT_BIN_S,
    JOB_ORDER,
    JOB_SCHEMA,
    THROUGHPUT_COLUMNS,
    THROUGHPUT_SCHEMA,
    conform,
    derive_throughput,
    microseconds,
    to_frame,
)
from cluster_logs.lake import Lake
from cluster_logs.quarantine import MAX_BAD_SHARE, Accounting
from cluster_logs.readers.base import (
    JOB_ROWS_SCHEMA,
    Reader,
    ReadOptions,
    load_reader,
    naming_likely_formats,
    read_chunks,
)
from cluster_logs.readers.source import load_zone
from cluster_logs.slurm_mark import MarkKey
from foundation.errors import BadInputError
from foundation.outside_names import check_cluster_name
from foundation.process_lock import scratch_folder
from foundation.progress import Progress, silent
from foundation.storage import sweep_unfinished

# What a table of rows that were read has, though no row has a value.
_ALWAYS_THERE = ["job_id", "submit_time", "state", "source_file", "source_row"]
# What an ingest of jobs changes.
JOB_TABLES = ("jobs", "throughput", "quarantine", "nodes")

# How the small tables are written, and the column that tells when a row holds.
_WRITES = {
    "throughput": Lake.write_throughput,
    "nodes": Lake.write_nodes,
    "node_states": Lake.write_node_states,
}
_TIMES = {"throughput": "bin_start", "node_states": "time"}

Window = tuple[datetime | None, datetime | None]  # submitted in [start, end); None: open


@dataclass(frozen=True)
class IngestSettings:
    """How a log is read into the lake.

    - `time_zone` replaces the format's own clock for times without offset.
    - `gpus_per_node` matters to formats that count a virtual cluster's GPUs.
    - `start` and `end` keep the jobs submitted in [start, end), naive times on the log's own clock.
    - `bin_s`: of the derived throughput table, in seconds; it divides a day.
    - `max_bad_share`: of the rows; a log with more of them is refused (`cluster_logs.ingest_account`).
    - `mark_key`: the key that marks on jobs are sealed with; without it none is believed.
    - `beside`: what a format of a part asks beside its file, or None.
    - `trace_start`: the instant of second 0 of times that count from the trace's own start.
    - `columns`: our column -> the file's, for a CSV of jobs that calls it otherwise.
    - `wait_s`: how long another writer of the cluster is waited for (default: ten minutes).
    """

    time_zone: str | None = None
    gpus_per_node: int = 8
    start: datetime | None = None
    end: datetime | None = None
    bin_s: int = DEFAULT_BIN_S
    max_bad_share: float = MAX_BAD_SHARE
    mark_key: MarkKey | None = None
    beside: object = None
    trace_start: datetime | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    wait_s: float | None = None


DEFAULTS = IngestSettings()


def ingest_log(
    *,
    source_format: str,
    input_uri: str,
    cluster: str,
    lake_uri: str,
    settings: IngestSettings = DEFAULTS,
    nodes: pd.DataFrame | None = None,
    settle: Callable[[], object] = lambda: None,
    progress: Progress | None = None,
) -> IngestReport:
    """Read a log into the lake under the cluster's name.

    Jobs outside the settings' window are skipped by a named rule, and what the lake holds of them stays. Jobs
    also renew the derived throughput table; `nodes` (virtual_cluster, nodes, gpus_per_node) are written with
    them, and `settle` is called, as parts of the same change.

    Raises BadInputError (or NotFoundError, UnknownNameError) for an input that cannot be used as a
    whole; single bad rows are quarantined. Raises TooManyBadRowsError as soon as too many of the rows are
    bad; nothing is written then. Raises ClusterBusyError where another writer is at the cluster for too long,
    HalfWrittenError when another ingest of the cluster did not end; the same ingest again completes it.
    """
    reader = load_reader(source_format)
    lake = Lake(lake_uri, wait_s=settings.wait_s)
    options = ReadOptions(
        check_cluster_name(cluster),
        settings.time_zone,
        settings.gpus_per_node,
        settings.mark_key,
        settings.beside,
        settings.trace_start,
        settings.columns,
    )
    limit = BadRowLimit(input_uri, reader, check_max_bad_share(settings.max_bad_share))
    report = progress or silent
    sweep_unfinished(lake_uri)
    start, end = _window(settings.start, settings.end, load_zone(reader.clock(input_uri, settings.time_zone)))
    settings = replace(settings, start=start, end=end)
    bin_s = settings.bin_s
    if not 1 <= bin_s <= DAY_S or DAY_S % bin_s:
        raise BadInputError(f"A bin of {bin_s} s does not divide a day.", remedy="Choose for example 600 s.")
    if reader.table != "jobs" and (start is not None or end is not None):
        raise BadInputError(
            f"A window was given, but format {source_format!r} holds no jobs.", remedy="Leave it out."
        )
    with naming_likely_formats(input_uri, source_format):
        if reader.table == "jobs":

            def complete() -> None:
                if nodes is not None:
                    lake.write_nodes(cluster, nodes)
                settle()

            return _ingest_jobs(reader, input_uri, options, lake, report, limit, settings, complete)
        return ingest_table(reader, input_uri, options, lake, report, limit)


def read_jobs_file(
    input_uri: str,
    source_format: str,
    *,
    cluster: str = "cluster",
    time_zone: str | None = None,
    max_bad_share: float = MAX_BAD_SHARE,
    columns: Sequence[str] | None = None,
    if_known: Sequence[str] = (),
    progress: Progress | None = None,
) -> tuple[pd.DataFrame, IngestReport]:
    """The jobs of one log as a frame (JOB_SCHEMA, by submission, equal times in the file's order), and the
    account.

    `columns`: only these, for logs that do not fit into memory with every fact, and those of `if_known` of
    which some job has a value. The same checks, limit of bad
    rows and rules for duplicates as `ingest_log`, without a lake.
    """
    reader = load_reader(source_format)
    if reader.table != "jobs":
        raise BadInputError(f"Format {source_format!r} holds no jobs.", remedy="Choose a format of jobs.")
    options = ReadOptions(cluster, time_zone)
    limit = BadRowLimit(input_uri, reader, check_max_bad_share(max_bad_share))
    account = Accounting()
    tables = [JOB_ROWS_SCHEMA.empty_table().select(_ALWAYS_THERE)]
    with naming_likely_formats(input_uri, source_format):
        for chunk in read_chunks(reader, input_uri, options, progress=progress or silent):
            count_rows(account, chunk, limit)
            tables.append(_without_empty_columns(chunk.rows))
        jobs = pa.concat_tables(tables, promote_options="default")
        verdicts = judge_duplicates(jobs)
        count_duplicates(account, Counter(verdicts.tolist()))
        account.check(input_uri)
        limit.check(account)
        limit.check_some(account)
    wanted = [*(columns or JOB_SCHEMA.names), *(name for name in if_known if name in jobs.column_names)]
    kept = verdicts == KEPT
    needed = dict.fromkeys([*wanted, *(name for name, _ in JOB_ORDER)])
    jobs = jobs.select([name for name in needed if name in jobs.column_names])
    tables.clear()
    if not kept.all():
        jobs = jobs.filter(pa.array(kept))
    if not _in_order(jobs):
        jobs = jobs.sort_by(JOB_ORDER)
    span = _submit_range([jobs])
    jobs = _with_empty_columns(cluster, jobs, wanted)
    return to_frame(jobs), report_of(reader, options, account, (), span)


def read_throughput_file(
    input_uri: str,
    *,
    source_format: str = "helios-throughput",
    cluster: str = "cluster",
    time_zone: str | None = None,
) -> pd.DataFrame:
    """A published throughput table as a frame (THROUGHPUT_SCHEMA, by time). Raises BadInputError for a bad
    row.
    """
    reader = load_reader(source_format)
    if reader.table != "throughput":
        raise BadInputError(
            f"Format {source_format!r} is no throughput table.",
            remedy="Use helios-throughput, or ingest the jobs.",
        )
    limit = BadRowLimit(input_uri, reader, 1.0)
    with scratch_folder("read") as scratch:
        refused = refused_spool(scratch)
        rows, _ = read_rows(reader, input_uri, ReadOptions(cluster, time_zone), silent, limit, refused)
        first = [refused.read(part).slice(0, 1).to_pylist()[0] for part in refused.parts()[:1]]
    for bad in first:
        raise BadInputError(
            f"{input_uri}, row {bad['source_row']}: {q.REASONS[bad['reason']]} It reads: {bad['raw_row']!r}.",
            remedy="Correct the row; a series with a hole is another series.",
        )
    named = rows.append_column("cluster", pa.repeat(pa.scalar(cluster, pa.string()), rows.num_rows))
    return to_frame(conform(named, THROUGHPUT_SCHEMA, what=input_uri).sort_by("bin_start"))


# Jobs --------------------------------------------------------------------------------------------------


def _window(start: datetime | None, end: datetime | None, zone: ZoneInfo) -> Window:
    bounds = [
        None if bound is None else bound if bound.tzinfo else bound.replace(tzinfo=zone)
        for bound in (start, end)
    ]
    if bounds[0] is not None and bounds[1] is not None and bounds[1] <= bounds[0]:
        raise BadInputError(f"The window ends at {end}, not after its start {start}.", remedy="Swap them.")
    return bounds[0], bounds[1]


def _inside(rows: pa.Table, window: Window) -> pa.Table:
    start, end = (None if bound is None else pa.scalar(bound.astimezone(UTC)) for bound in window)
    submit = rows.column("submit_time")
    if start is not None:
        rows = rows.filter(pc.greater_equal(submit, start.cast(submit.type)))
        submit = rows.column("submit_time")
    if end is not None:
        rows = rows.filter(pc.less(submit, end.cast(submit.type)))
    return rows


def _ingest_jobs(
    reader: Reader,
    uri: str,
    options: ReadOptions,
    lake: Lake,
    progress: Progress,
    limit: BadRowLimit,
    settings: IngestSettings,
    complete: Callable[[], object],
) -> IngestReport:
    window = (settings.start, settings.end)
    if reader.name != LAKE_FORMAT:
        lake.writes.admit(options.cluster, LogOrigin.REAL, uri)
    with scratch_folder("ingest") as scratch:
        spool = DaySpool(Path(scratch, "jobs"), JOB_ROWS_SCHEMA, "submit_time")
        refused = refused_spool(Path(scratch, "refused"))
        account = Accounting()
        sources: set[str] = set()
        for chunk in read_chunks(reader, uri, options, progress=progress):
            rows = _inside(chunk.rows, window)
            account.skipped[q.OUTSIDE_WINDOW] += chunk.rows.num_rows - rows.num_rows
            count_rows(account, chunk, limit)
            refused.append(chunk.refused)
            sources.update(rows.column("source_file").unique().to_pylist())
            spool.append(rows)
        days = spool.days()
        kept, conflicts = resolve_duplicates(spool, days, account)
        account.check(uri)
        limit.check(account)
        for rows in conflict_rows(reader, uri, options, conflicts):
            refused.append(rows)
        task = f"ingest of {file_name(uri)} ({reader.name}{_in_words(window)})"
        with lake.writing(options.cluster, task, JOB_TABLES, inputs=(uri,), progress=progress):
            lake.writes.admit(options.cluster, logs_of_rows(sources), uri)
            for done, day in enumerate(days):
                progress(done, len(days), f"writing jobs of {day}")
                jobs = spool.read(day)
                if day in kept:
                    jobs = jobs.filter(pa.array(kept[day]))
                lake.write_jobs_of_day(options.cluster, day, _as_jobs_of(options.cluster, jobs))
            submits = _submit_range([spool.read(day) for day in (*days[:1], *days[-1:])])
            tables = write_quarantine(reader, uri, options, lake, refused)
            if days:
                progress(len(days), len(days), "counting throughput")
                bins = derive_throughput(
                    lake.iter_jobs(options.cluster, columns=THROUGHPUT_COLUMNS), settings.bin_s
                )
                lake.replace_derived_throughput(options.cluster, bins)
                written = tuple(lake.table_uri(table, options.cluster) for table in ("jobs", "throughput"))
                tables = (*written, *tables)
            complete()
    return report_of(reader, options, account, tables, submits)


def _as_jobs_of(cluster: str, rows: pa.Table) -> pa.Table:
    named = rows.append_column("cluster", pa.repeat(pa.scalar(cluster, pa.string()), rows.num_rows))
    return named.select(JOB_SCHEMA.names).cast(JOB_SCHEMA)


def _without_empty_columns(rows: pa.Table) -> pa.Table:
    """Leave out the columns of which no row has a value: most formats know few of all facts."""
    empty = [
        name
        for name, column in zip(rows.column_names, rows.columns, strict=True)
        if column.null_count == len(column) and name not in _ALWAYS_THERE
    ]
    return rows.drop_columns(empty)


def _with_empty_columns(cluster: str, rows: pa.Table, wanted: Sequence[str]) -> pa.Table:
    """Return these columns of JOB_SCHEMA, empty where no row has a value."""
    fields = [JOB_SCHEMA.field(name) for name in wanted]
    columns = [
        pa.repeat(pa.scalar(cluster, pa.string()), rows.num_rows)
        if field.name == "cluster"
        else rows.column(field.name).cast(field.type)
        if field.name in rows.column_names
        else pa.nulls(rows.num_rows, field.type)
        for field in fields
    ]
    return pa.table(columns, schema=pa.schema(fields))


def _in_order(rows: pa.Table) -> bool:
    """Whether rows of one file are in JOB_ORDER."""
    submitted, places = microseconds(rows.column("submit_time")), rows.column("source_row").to_numpy()
    return bool(
        (np.diff(submitted) >= 0).all()
        and (np.diff(places) > 0).all()
        and len(rows.column("source_file").unique()) < 2
    )


def _in_words(window: Window) -> str:
    """`, submitted from A to B` for the name of a task, nothing for all of a log."""
    said = [f" {word} {at.isoformat()}" for word, at in zip(("from", "to"), window, strict=True) if at]
    return f", submitted{''.join(said)}" if said else ""


def _submit_range(tables: Sequence[pa.Table]) -> tuple[datetime | None, datetime | None]:
    limits = [pc.min_max(table.column("submit_time")).as_py() for table in tables if table.num_rows]
    if not limits:
        return None, None
    return min(limit["min"] for limit in limits), max(limit["max"] for limit in limits)


# Small tables (throughput, nodes, node states, those of parts): read whole, then written ----------------


def ingest_table(
    reader: Reader, uri: str, options: ReadOptions, lake: Lake, progress: Progress, limit: BadRowLimit
) -> IngestReport:
    """Read a file of one of the small tables into the lake; raises as `ingest_log`."""
    with scratch_folder("ingest") as scratch:
        refused = refused_spool(scratch)
        rows, account = read_rows(reader, uri, options, progress, limit, refused)
        tables, times = _write_table(reader, uri, options, lake, progress, rows, refused)
    return report_of(reader, options, account, tables, times)


def read_table_file(uri: str, source_format: str) -> tuple[pa.Table, IngestReport]:
    """Read a file of a table as the lake keeps it, in the order of its time, and the account of the rows.

    Raises TooManyBadRowsError for more bad rows than MAX_BAD_SHARE.
    """
    reader = load_reader(source_format)
    limit = BadRowLimit(uri, reader, MAX_BAD_SHARE)
    options = ReadOptions("cluster")
    with scratch_folder("read") as scratch:
        rows, account = read_rows(reader, uri, options, silent, limit, refused_spool(scratch))
    limit.check_some(account)
    return rows.sort_by("time"), report_of(reader, options, account, (), (None, None))


def _write_table(
    reader: Reader,
    uri: str,
    options: ReadOptions,
    lake: Lake,
    progress: Progress,
    rows: pa.Table,
    refused: PartSpool,
) -> tuple[tuple[str, ...], tuple[datetime | None, datetime | None]]:
    """Write a small table as one change; returns what was written and the first and last time in it."""
    times: tuple[datetime | None, datetime | None] = (None, None)
    task = f"ingest of {file_name(uri)} ({reader.name})"
    with lake.writing(options.cluster, task, (reader.table, "quarantine"), inputs=(uri,), progress=progress):
        if rows.num_rows:
            if reader.table in _WRITES:
                _WRITES[reader.table](lake, options.cluster, rows)
            else:
                lake.write_series(reader.table, options.cluster, rows)
        time = _TIMES.get(reader.table) if reader.table in _WRITES else day_table(reader.table).time
        if rows.num_rows and time is not None:
            limits = pc.min_max(rows.column(time)).as_py()
            times = (limits["min"], limits["max"])
        tables = write_quarantine(reader, uri, options, lake, refused)
    if rows.num_rows:
        tables = (lake.table_uri(reader.table, options.cluster), *tables)
    return tables, times


def read_rows(
    reader: Reader,
    uri: str,
    options: ReadOptions,
    progress: Progress,
    limit: BadRowLimit,
    refused: PartSpool,
) -> tuple[pa.Table, Accounting]:
    """All rows of a small table, and the account; refused rows go to the spool.

    A row that comes twice is a clear error.
    """
    account = Accounting()
    tables: list[pa.Table] = []
    for chunk in read_chunks(reader, uri, options, progress=progress):
        count_rows(account, chunk, limit)
        tables.append(chunk.rows)
        refused.append(chunk.refused)
    rows = pa.concat_tables(tables) if tables else None
    if rows is None:
        raise BadInputError(f"{uri} holds a header and no rows.", remedy="Check how it was exported.")
    account.kept = _distinct_rows(reader, uri, rows)
    account.check(uri)
    limit.check(account)
    return rows, account


def _distinct_rows(reader: Reader, uri: str, rows: pa.Table) -> int:
    """The number of input rows behind the table's rows; BadInputError when one of them came twice."""
    row_key: str | None = None  # one row of the table is one of the input
    if reader.table == "throughput":
        keys = ["bin_start"]
    elif reader.table == "node_states":
        keys = ["time", "virtual_cluster"]
    elif reader.table != "nodes":
        keys = list(day_table(reader.table).key)
    else:
        keys = ["virtual_cluster", "date"]
        row_key = "virtual_cluster" if rows.column("date").null_count else "date"
    counts = rows.group_by(keys).aggregate([([], "count_all")])
    twice = counts.filter(pc.greater(counts.column("count_all"), 1)).sort_by(keys[0])
    if twice.num_rows:
        what = ", ".join(str(twice.column(key)[0].as_py()) for key in keys if twice.column(key)[0].is_valid)
        raise BadInputError(f"{uri} has two rows for {what}.", remedy="Keep one of them.")
    return int(pc.count_distinct(rows.column(row_key)).as_py()) if row_key else rows.num_rows
