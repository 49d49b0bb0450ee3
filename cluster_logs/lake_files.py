"""The files of one lake: one cluster's part of a table, read and replaced as a whole."""

import re
from collections.abc import Iterator, Sequence
from datetime import date, timedelta

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from cluster_logs.cluster_names import check_cluster_name
from cluster_logs.cluster_writes import ClusterWrites
from cluster_logs.day_tables import day_table
from cluster_logs.job_table import (
    JOB_SCHEMA,
    NODES_SCHEMA,
    QUARANTINE_SCHEMA,
    THROUGHPUT_SCHEMA,
    conform,
)
from cluster_logs.metrics.job_metrics import JOB_METRICS_SCHEMA
from cluster_logs.node_states import NODE_STATES_SCHEMA
from foundation.storage import list_files, locate, write_atomically

SCHEMAS = {
    "jobs": JOB_SCHEMA,
    "throughput": THROUGHPUT_SCHEMA,
    "quarantine": QUARANTINE_SCHEMA,
    "nodes": NODES_SCHEMA,
    "metrics": JOB_METRICS_SCHEMA,
    "node_states": NODE_STATES_SCHEMA,
}
PART = "part-0.parquet"


def schema_of(table: str) -> pa.Schema:
    """The columns of a table, of the core or of a part; errors as in `day_table`."""
    return SCHEMAS[table] if table in SCHEMAS else day_table(table).schema


_DATE_FOLDER = re.compile(r"/date=(\d{4}-\d{2}-\d{2})/[^/]+\.parquet$")


class LakeFiles:
    """Reads and replaces files under one root, whoever may read or write them (`writes`)."""

    def __init__(self, uri: str) -> None:
        self.uri = uri.rstrip("/") if uri.rstrip("/") else uri
        self.fs, root = locate(uri)
        self.root = root.rstrip("/")
        self.writes = ClusterWrites(self.fs, self.root, self.uri)

    def folder(self, table: str, cluster: str, day: date | None = None) -> str:
        """Where a cluster's part of a table, or a day of it, lies."""
        folder = f"{self.root}/{table}/cluster={check_cluster_name(cluster)}"
        return folder if day is None else f"{folder}/date={day.isoformat()}"

    def partitions(self, table: str, cluster: str) -> dict[date, str]:
        """The file of each day that has one."""
        files = list_files(self.fs, self.folder(table, cluster))
        found = ((_DATE_FOLDER.search(info.path), info.path) for info in files)
        return {date.fromisoformat(match.group(1)): path for match, path in found if match}

    def own(self, rows: pa.Table | pd.DataFrame, cluster: str, table: str) -> pa.Table:
        """The rows as this cluster's rows of a table, in the table's schema."""
        check_cluster_name(cluster)
        schema = schema_of(table)
        rest = pa.schema([field for field in schema if field.name != "cluster"])
        return _with_cluster(conform(rows, rest, what=f"{table} table"), cluster, schema)

    def read_day(self, table: str, cluster: str, day: date) -> pa.Table | None:
        """One day's rows, or None when there are none."""
        return self.read_file(table, cluster, f"{self.folder(table, cluster, day)}/{PART}")

    def read_file(
        self, table: str, cluster: str, path: str, columns: Sequence[str] | None = None
    ) -> pa.Table | None:
        """A file with its cluster column put back (it lives in the folder's name), or None when it is not
        there.
        """
        if self.fs.get_file_info(path).type != pafs.FileType.File:
            return None
        schema = schema_of(table)
        if columns is not None:
            schema = pa.schema([field for field in schema if field.name in columns])
        stored_schema = pa.schema([field for field in schema if field.name != "cluster"])
        with self.fs.open_input_file(path) as source:
            file = pq.ParquetFile(source)
            stored = [name for name in stored_schema.names if name in file.schema_arrow.names]
            rows = file.read(columns=stored)
        return _with_cluster(conform(rows, stored_schema, what=path), cluster, schema)

    def rows_by_day(self, table: str, cluster: str) -> dict[date, int]:
        """How many rows each day of a table has; no row is read."""
        days = self.partitions(table, cluster)
        return {day: count_rows(self.fs, days[day]) for day in sorted(days)}

    def replace_day(
        self, table: str, cluster: str, day: date, older: pa.Table | None, newer: pa.Table
    ) -> bool:
        """Write a day's file, or delete it when no row is left; whether it changed."""
        path = f"{self.folder(table, cluster, day)}/{PART}"
        if not newer.num_rows:
            if older is not None:
                self.writes.changing(cluster, table)
                self.fs.delete_dir(self.folder(table, cluster, day))
            return older is not None
        return self.replace_file(table, cluster, path, older, newer)

    def replace_file(
        self, table: str, cluster: str, path: str, older: pa.Table | None, newer: pa.Table
    ) -> bool:
        """Write a file unless it holds the same rows already; whether it was written."""
        if older is not None and older.equals(newer):
            return False
        stored = newer.drop_columns(["cluster"])
        dictionary = [
            field.name
            for field in stored.schema
            if pa.types.is_string(field.type) and field.name not in ("job_id", "raw_row")
        ]
        self.writes.changing(cluster, table)
        write_atomically(
            self.fs,
            path,
            lambda sink: pq.write_table(
                stored, sink, compression="zstd", compression_level=1, use_dictionary=dictionary
            ),
        )
        return True


def count_rows(fs: pafs.FileSystem, path: str) -> int:
    """The rows of a Parquet file, as its footer says."""
    with fs.open_input_file(path) as source:
        return int(pq.ParquetFile(source).metadata.num_rows)


def _with_cluster(rows: pa.Table, cluster: str, schema: pa.Schema) -> pa.Table:
    columns = [
        pa.repeat(pa.scalar(cluster, pa.string()), rows.num_rows) if name == "cluster" else rows.column(name)
        for name in schema.names
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def by_day(table: pa.Table, time: str, *, before: bool = False) -> Iterator[tuple[date, pa.Table]]:
    """The table's rows of each UTC day, in order of days; with `before`, midnight is the day before's end."""
    days = (table.column(time).cast(pa.int64()).to_numpy() - before) // (86_400 * 1_000_000)
    order = np.argsort(days, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(days[order]) != 0)).tolist() if len(days) else []
    ordered = table.take(pa.array(order))
    for index, start in enumerate(starts):
        stop = starts[index + 1] if index + 1 < len(starts) else len(days)
        day = date(1970, 1, 1) + timedelta(days=int(days[order[start]]))
        yield day, ordered.slice(int(start), int(stop - start))
