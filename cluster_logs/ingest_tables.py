"""Small tables into the lake (throughput, nodes, node states, those of parts): read whole, then written."""

from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from cluster_logs.bad_rows import BadRowLimit
from cluster_logs.day_tables import day_table
from cluster_logs.ingest_account import IngestReport, count_rows, file_name, report_of, write_quarantine
from cluster_logs.lake import Lake
from cluster_logs.quarantine import MAX_BAD_SHARE, Accounting
from cluster_logs.quarantine_table import refused_spool
from cluster_logs.readers.base import Reader, ReadOptions, load_reader, read_chunks
from cluster_logs.spool import PartSpool
from foundation.errors import BadInputError
from foundation.leftovers import scratch_folder
from foundation.progress import Progress, silent

_WRITES = {
    "throughput": Lake.write_throughput,
    "nodes": Lake.write_nodes,
    "node_states": Lake.write_node_states,
}
_TIMES = {"throughput": "bin_start", "node_states": "time"}


def ingest_table(
    reader: Reader, uri: str, options: ReadOptions, lake: Lake, progress: Progress, limit: BadRowLimit
) -> IngestReport:
    """Read a file of one of the small tables into the lake; raises as `ingest.ingest_log`."""
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
